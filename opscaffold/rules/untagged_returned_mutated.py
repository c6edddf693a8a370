"""Ops that return the argument they mutate, without the tag that makes that a contract.

Source: FACTS sections 1, 2 and 5; torch.library reference, Tag.inplace and Tag.out.
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.intents import AddTag, Intent, ReturnNothing
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule, position
from opscaffold.rules.kernels import Kernel, is_checked
from opscaffold.rules.returned import LOW_LEVEL, Shared, Sharing, shared_arguments
from opscaffold.source.model import Role

_WHY = (
    "code outside this project may use what the op returns, which works in eager mode, and would "
    "get None"
)


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report once a kernel what it returns of its mutated arguments."""
    kernels: dict[int, list[Shared]] = {}
    for shared in shared_arguments(facts):
        if shared.sharing is Sharing.MUTATED:
            kernels.setdefault(id(shared.kernel), []).append(shared)
    for found in kernels.values():
        kernel = found[0].kernel
        order = [a.name for a in kernel.arguments]
        names = sorted({s.argument for s in found}, key=order.index)
        said = " and ".join(f"`{name}`" for name in names)
        effect = (
            "a call raises RuntimeError after it has written" if is_checked(facts) else LOW_LEVEL
        )
        yield RULE.finding(
            kernel.module,
            found[0].places[0],
            f"it returns {said}, which it mutates, and has no tag that says so: {effect}",
            op=facts.op.qualname,
            remedy=_remedy(facts, kernel, names),
            evidence=[position(kernel.module, s.places[0]) for s in found[1:6]],
            intent=_intent(facts, kernel, names),
        )


def _intent(facts: OpFacts, kernel: Kernel, names: list[str]) -> Intent:
    op = facts.op.qualname
    if not is_checked(facts):
        return ReturnNothing(op, safe=False, why=_WHY)
    return AddTag(op, "inplace") if _is_inplace(facts, kernel, names) else ReturnNothing(op)


def _is_inplace(facts: OpFacts, kernel: Kernel, names: list[str]) -> bool:
    """Whether an op mutates its first argument alone, and returns nothing else."""
    spec = kernel.function.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    if facts.op.definition.role is Role.TRITON_OP or names != positional[:1]:
        return False
    alone = all(returned.value.items is None for returned in kernel.effects.trace.returns)
    return alone and set(kernel.effects.mutations) <= {names[0]}


def _remedy(facts: OpFacts, kernel: Kernel, names: list[str]) -> str:
    spec = kernel.function.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    plain = "return nothing, and let callers use the argument"
    if facts.op.definition.role is Role.TRITON_OP:
        return plain
    mutated = set(kernel.effects.mutations)
    if _is_inplace(facts, kernel, names):
        return f"add tags=torch.Tag.inplace, or {plain}"
    if mutated <= set(names) and all(n not in positional for n in names):
        return f"add tags=torch.Tag.out, or {plain}"
    return plain


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS305",
    name="untagged-returned-mutated",
    severity=Severity.ERROR,
    summary="The op returns an argument that it mutates, without Tag.inplace or Tag.out.",
    why="Without a tag, everything that an op returns counts as new memory. A `custom_op` raises "
    "RuntimeError at the call, after the argument was written to. A low-level registration runs "
    "in eager mode; compiled, the result and the argument silently become separate memory.",
    remedy="add the tag that fits, or return nothing",
    of_op=check,
    repair="safe",
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::fade_", mutates_args=("x",))
def fade_(x: Tensor, k: float) -> Tensor:
    return x.mul_(k)
""",
        _OP
        + """
@torch.library.custom_op("demo::add_norm", mutates_args=("x", "rest"))
def add_norm(x: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    rest.add_(x)
    x.copy_(rest / rest.norm())
    return x, rest
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("fill(Tensor x, Tensor(a!) out) -> Tensor")


def fill(x, out):
    return torch.mul(x, 2, out=out)


lib.impl("fill", fill, "CPU")
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
def fade_(x: Tensor, k: float) -> Tensor:
    return x.mul_(k)
""",
        _OP
        + """
@torch.library.custom_op("demo::fill", mutates_args=("out",), tags=[torch.Tag.out])
def fill(x: Tensor, *, out: Tensor) -> Tensor:
    return torch.mul(x, 2, out=out)
""",
        _OP
        + """
@torch.library.custom_op("demo::fade", mutates_args=("x",))
def fade(x: Tensor, k: float) -> Tensor:
    x.mul_(k)
    return x.sum()
""",
    ),
)
