"""Ops tagged in-place that are not: by their signature, or by what the kernel does.

Source: FACTS section 2; torch.library reference, Tag.inplace.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import Tag
from opscaffold.effects.trace import Effect
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.declared import mutated_by, tag_problem, tags
from opscaffold.rules.evidence import inside
from opscaffold.rules.kernels import Kernel, is_checked, kernels_of
from opscaffold.rules.tagged import never_writes, wrong_returns


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each way in which a Tag.inplace op breaks what the tag promises."""
    if tags(facts) != frozenset({Tag.INPLACE}):
        return
    problem = tag_problem(facts, Tag.INPLACE)
    if problem is not None:
        node, reason, remedy = problem
        definition = facts.op.definition
        yield RULE.finding(
            definition.module if definition.schema else facts.module,
            node,
            f"{reason}: the definition raises, and the module cannot be imported",
            op=facts.op.qualname,
            remedy=remedy,
        )
        return
    declared = mutated_by(facts)
    if declared is None or len(declared) != 1:
        return
    for kernel in kernels_of(facts):
        own = kernel.own_name(next(iter(declared)))
        if own is not None:
            for place, message, remedy in _misuses(kernel, own, checked=is_checked(facts)):
                events = [e for e in kernel.effects.trace.on(f"param:{own}") if e.node is place]
                yield RULE.finding(
                    kernel.module,
                    place,
                    message,
                    op=facts.op.qualname,
                    remedy=remedy,
                    evidence=inside(events),
                )


def _misuses(kernel: Kernel, name: str, *, checked: bool) -> Iterator[tuple[ast.AST, str, str]]:
    wrong = list(wrong_returns(kernel, [name]))
    if wrong:
        place, what = wrong[0]
        effect = (
            "the call raises RuntimeError after it has written"
            if checked
            else f"eager mode goes on with what is returned, compiled code with `{name}`"
        )
        yield (
            place,
            f"it returns {what}, and an in-place op must return `{name}` itself: {effect}",
            f"return {name}",
        )
    events = kernel.effects.trace.on(f"param:{name}")
    reshaped = next((e for e in events if e.effect is Effect.RESHAPE and e.known), None)
    if reshaped is not None:
        yield (
            reshaped.node,
            (
                f"it changes the shape or storage of `{name}`: the fake that PyTorch derives keeps "
                "them, so that compiled code computes with another shape than the op leaves"
            ),
            f"write the values of `{name}` only, or return a new tensor",
        )
    if never_writes(kernel, name) and not wrong:
        yield (
            kernel.function,
            f"it never writes to `{name}`: callers that trust the tag read the old values",
            f"write the result into `{name}`, or drop the tag",
        )


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS403",
    name="inplace-misuse",
    severity=Severity.ERROR,
    summary="A Tag.inplace op does not write to its first argument and return it, or reshapes it.",
    why="Tag.inplace promises that the first argument is the only one written to, that its shape "
    "stays, and that it is what comes back. PyTorch refuses other signatures when the op is "
    "defined. A `custom_op` that returns something else raises RuntimeError after it has written; "
    "one that resizes its argument runs, and compiled code computes with the wrong shape.",
    remedy="write to the first argument only and return it, or drop the tag",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
def fade_(k: float, x: Tensor) -> Tensor:
    return x.mul_(k)
""",
        _OP
        + """
@torch.library.custom_op("demo::swap_", mutates_args=("x", "y"), tags=torch.Tag.inplace)
def swap_(x: Tensor, y: Tensor) -> Tensor:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return x
""",
        _OP
        + """
@torch.library.custom_op("demo::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
def fade_(x: Tensor, k: float) -> Tensor:
    x.mul_(k)
    return x.view(-1)
""",
        _OP
        + """
@torch.library.custom_op("demo::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
def fade_(x: Tensor, k: float) -> Tensor:
    x = x * k
    return x
""",
        _OP
        + """
@torch.library.custom_op("demo::turn_", mutates_args=("x",), tags=torch.Tag.inplace)
def turn_(x: Tensor) -> Tensor:
    return x.t_()
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("fade_(Tensor(a!) x, float k) -> Tensor(a!)", tags=torch.Tag.inplace)


@torch.library.impl(lib, "fade_", "CPU")
def fade_(x, k):
    x.mul_(k)
    return x.clone()
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
def fade_(x: Tensor, k: float) -> Tensor:
    if k == 1.0:
        return x
    return x.mul_(k)
""",
        _OP
        + """
from elsewhere import kernel


@torch.library.custom_op("demo::run_", mutates_args=("x",), tags=torch.Tag.inplace)
def run_(x: Tensor, k: float) -> Tensor:
    kernel[(1,)](x, k)
    return x
""",
        _OP
        + """
@torch.library.custom_op("demo::fade_", mutates_args=("x",), tags={torch.Tag.inplace})
def fade_(x: Tensor, k: float) -> Tensor:
    flat = x.view(-1)
    for i in range(flat.shape[0]):
        flat[i] *= k
    return x
""",
        _OP
        + """
@torch.library.custom_op("demo::fade", mutates_args=("x",))
def fade(x: Tensor, k: float) -> None:
    x.mul_(k)
""",
    ),
)
