"""Ops that write to an argument their schema calls read-only.

Source: torch.library reference, "mutates_args"; FACTS section 2, "Only opcheck".
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.contract.model import Tag
from opscaffold.effects.summary import Answer, Mutation
from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.rules.base import OpFacts, Rule, position
from opscaffold.rules.declared import maybe_outs, mutated_by, names_no_tensor, tag_problem
from opscaffold.rules.evidence import declaration, places_of
from opscaffold.rules.flags import flagged
from opscaffold.rules.kernels import Kernel, kernels_of
from opscaffold.rules.proven import mutates_intent, written


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each argument that is written to without a word; maybe-outs and flags are left out."""
    declared = mutated_by(facts)
    if declared is None or any(tag_problem(facts, tag) for tag in Tag):
        return
    if names_no_tensor(facts):
        return
    seen = set(declared | maybe_outs(facts) | flagged(facts))
    for kernel in kernels_of(facts):
        for own, mutation in kernel.effects.mutations.items():
            name = kernel.declared.get(own, own)
            if name in seen:
                continue
            seen.add(name)
            events = list(dict.fromkeys(e.node for e in mutation.events))
            yield RULE.finding(
                kernel.module,
                events[0],
                f"{_how(name, mutation)}, and the op does not say so: torch.compile may reorder "
                f"or share what it takes for unchanged, and a result that autograd saved `{name}` "
                "for is silently wrong",
                op=facts.op.qualname,
                remedy=_remedy(facts, name),
                evidence=_evidence(facts, kernel, mutation),
                intent=mutates_intent(facts, declared | written(facts)),
            )


def _evidence(facts: OpFacts, kernel: Kernel, mutation: Mutation) -> list[Position]:
    """Every write but the one that is reported, and the declaration that leaves them out."""
    reported = position(kernel.module, mutation.events[0].node)
    places = [*places_of(kernel.module, mutation.events), declaration(facts)]
    return [place for place in dict.fromkeys(places) if place != reported]


def _how(name: str, mutation: Mutation) -> str:
    if mutation.perhaps:
        return f"`{name}` is written to where what is made of it is no copy"
    if mutation.answer is Answer.SOMETIMES:
        return f"`{name}` is written to on some paths"
    return f"`{name}` is written to"


def _remedy(facts: OpFacts, name: str) -> str:
    if facts.op.definition.schema is not None:
        return f"annotate `{name}` in the schema as written to (`Tensor(a!)`), or write to a copy"
    return f'add "{name}" to mutates_args, or write to a copy'


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS301",
    name="undeclared-mutation",
    severity=Severity.ERROR,
    summary="The kernel writes to an argument that the op does not declare to mutate.",
    why="Eager mode runs and every call returns what it should. Under `torch.compile` the op "
    "counts as one that leaves the argument alone, so that a read may be moved past the write, "
    "or the call dropped. Autograd does not see that a saved tensor changed. Of opcheck's tests "
    "only one finds it, and only on inputs that reach the write.",
    remedy="add the argument to mutates_args, or write to a copy",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
def _write(cache, rows, at):
    cache[at] = rows


@torch.library.custom_op("demo::cached", mutates_args=())
def cached(q: Tensor, k: Tensor, k_cache: Tensor, at: Tensor) -> Tensor:
    _write(k_cache, k, at)
    return q @ k_cache.t()
""",
        _OP
        + """
@torch.library.custom_op("demo::tally", mutates_args=())
def tally(count: Tensor, step: float) -> Tensor:
    if step:
        first = count[0]
        first += step
    return count * 2
""",
        _OP
        + """
import numpy as np


@torch.library.custom_op("demo::clip", mutates_args=())
def clip(x: Tensor, least: float) -> Tensor:
    array = x.numpy()
    np.maximum(array, least, out=array)
    return x * 2
""",
        _OP
        + """
@torch.library.custom_op("demo::bump", mutates_args=("x",))
def bump(x: Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("demo::twice", mutates_args=("y",))
def twice(x: Tensor, y: Tensor) -> None:
    bump(x)
    torch.ops.demo.bump(y)
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("scale(Tensor x, Tensor(a!) into) -> ()")


@torch.library.impl(lib, "scale", "CPU")
def scale(x, into):
    x = x.contiguous()
    x.div_(x.norm())
    into.copy_(x)
""",
        _OP
        + """
@torch.library.custom_op("demo::shift", mutates_args=())
def shift(xs: list[Tensor], by: float) -> None:
    for i, x in enumerate(xs):
        torch.add(x, by * i, out=x)
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::cached", mutates_args=("k_cache",))
def cached(q: Tensor, k: Tensor, k_cache: Tensor, at: Tensor) -> Tensor:
    k_cache[at] = k
    return q @ k_cache.t()
""",
        _OP
        + """
@torch.library.custom_op("demo::norm", mutates_args=())
def norm(x: Tensor, rows: list[int]) -> Tensor:
    y = x.clone()
    y /= y.norm()
    x = y + 1
    x.mul_(2)
    picked = x[rows]
    picked += 1
    return picked
""",
        _OP
        + """
@torch.library.custom_op("demo::total", mutates_args=())
def total(xs: list[Tensor]) -> Tensor:
    result = 0
    for x in xs:
        result += x
    found = [xs[0]]
    found += [xs[1]]
    found[0] = result
    return torch.stack(found)
""",
        _OP
        + """
from elsewhere import kernel


@torch.library.custom_op("demo::launch", mutates_args=())
def launch(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    kernel[(1,)](x, y, x.numel())
    return y
""",
        _OP
        + """
@torch.library.custom_op("demo::double", mutates_args=())
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, 2, out=out)
""",
        _OP
        + """
@torch.library.custom_op("demo::grad", mutates_args=())
def grad(x: Tensor) -> Tensor:
    y = x.detach().clone().requires_grad_()
    return y.sin()
""",
    ),
)
