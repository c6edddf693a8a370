"""Ops that hand back a view of an argument.

Source: FACTS sections 2, 5 and 6.
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.returned import Sharing, report


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each argument of which a view is returned, on whatever path."""
    yield from report(facts, RULE, Sharing.VIEW, "it returns a view of {name}")


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS202",
    name="returns-view",
    severity=Severity.ERROR,
    summary="The op returns a view of one of its arguments: a slice, a transpose, a detached one.",
    why="A view shares its memory with the argument, and PyTorch takes what an op returns for new "
    "memory. A `custom_op` raises RuntimeError at every call that returns the view. A low-level "
    "registration runs in eager mode; compiled, a later write to one of the two silently misses "
    "the other.",
    remedy="clone the view before it is returned, or write the view as a plain function",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::turn", mutates_args=())
def turn(x: Tensor) -> Tensor:
    return x.t()
""",
        _OP
        + """
@torch.library.custom_op("demo::halves", mutates_args=())
def halves(x: Tensor) -> list[Tensor]:
    return list(x.chunk(2))
""",
        _OP
        + """
@torch.library.custom_op("demo::first", mutates_args=())
def first(x: Tensor, n: int) -> Tensor:
    if n > 1:
        rows = [x[i] for i in range(n)]
        return rows[0]
    return x.sum(0)
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("bare(Tensor x) -> Tensor")
lib.impl("bare", lambda t: t.detach(), "CPU")
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::turn", mutates_args=())
def turn(x: Tensor) -> Tensor:
    return x.t().clone()
""",
        _OP
        + """
@torch.library.custom_op("demo::chosen", mutates_args=())
def chosen(x: Tensor, rows: list[int], least: float) -> Tensor:
    return x[rows] if rows else x[x > least]
""",
        _OP
        + """
@torch.library.custom_op("demo::halves", mutates_args=())
def halves(x: Tensor) -> list[Tensor]:
    return [half.clone() for half in x.chunk(2)]
""",
        _OP
        + """
@torch.library.custom_op("demo::flat", mutates_args=())
def flat(x: Tensor) -> Tensor:
    return (x * 2).view(-1)[1:]
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("turn(Tensor(a) x) -> Tensor(a)")
lib.impl("turn", lambda x: x.t(), "CPU")
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("turn(Tensor x) -> Tensor")
lib.impl("turn", lambda x: x.t(), "CompositeImplicitAutograd")
""",
    ),
)
