"""Ops whose returns share memory among themselves.

Source: FACTS section 2, "Call time".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.effects.summary import Answer, Overlap
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.declared import aliased_by_schema, tags
from opscaffold.rules.kernels import is_checked, kernels_of
from opscaffold.rules.returned import clone_intent


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each return of which two tensors stand on one memory that the kernel made."""
    if tags(facts) or aliased_by_schema(facts):
        return
    for kernel in kernels_of(facts):
        places: dict[ast.AST, Overlap] = {}
        for overlap in kernel.effects.overlaps:
            places.setdefault(overlap.place, overlap)
        for overlap in places.values():
            yield RULE.finding(
                kernel.module,
                overlap.place,
                _message(overlap, checked=is_checked(facts)),
                op=facts.op.qualname,
                intent=clone_intent(facts),
            )


def _message(overlap: Overlap, *, checked: bool) -> str:
    what = "the same tensor is returned twice" if overlap.same else "the returns share one memory"
    if overlap.answer is Answer.SOMETIMES:
        what += " on some path or input"
    if checked:
        return f"{what}: the call raises RuntimeError once the kernel is done"
    return (
        f"{what}: eager mode works, but compiled code takes them for separate tensors, and a "
        "write to one is silently missing in the other"
    )


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS204",
    name="returns-overlap",
    severity=Severity.ERROR,
    summary="The op returns the same tensor twice, or several views of one tensor.",
    why="Each tensor that an op returns must have memory of its own, even where the parts do not "
    "meet. A `custom_op` that returns `x.chunk(2)` of a fresh tensor raises RuntimeError. A "
    "low-level registration runs in eager mode, and compiled code keeps the parts apart.",
    remedy="clone all but one of them: `[part.clone() for part in y.chunk(n)]`",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::twice", mutates_args=())
def twice(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    return y, y
""",
        _OP
        + """
@torch.library.custom_op("demo::parts", mutates_args=())
def parts(x: Tensor, n: int) -> list[Tensor]:
    return list((x * 2).chunk(n))
""",
        _OP
        + """
@torch.library.custom_op("demo::head_and_all", mutates_args=())
def head_and_all(x: Tensor) -> tuple[Tensor, Tensor]:
    full = x.cumsum(0)
    return full[:1], full
""",
        _OP
        + """
@torch.library.custom_op("demo::gates", mutates_args=())
def gates(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    left, right = torch.mm(x, w).split(4, dim=1)
    return left, right
""",
        _OP
        + """
@torch.library.custom_op("demo::rows", mutates_args=())
def rows(x: Tensor, n: int) -> list[Tensor]:
    y = x.exp()
    return [y[i] for i in range(n)]
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::twice", mutates_args=())
def twice(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    return y, y.clone()
""",
        _OP
        + """
@torch.library.custom_op("demo::best", mutates_args=())
def best(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    top = x.topk(k)
    return top.values, top.indices
""",
        _OP
        + """
def _scaled(x, k):
    return x * k


@torch.library.custom_op("demo::scales", mutates_args=())
def scales(x: Tensor) -> tuple[Tensor, Tensor]:
    return _scaled(x, 1), _scaled(x, 2)
""",
        _OP
        + """
@torch.library.custom_op("demo::steps", mutates_args=())
def steps(x: Tensor, n: int) -> list[Tensor]:
    found = []
    for i in range(n):
        found.append(x * i)
    return found
""",
        _OP
        + """
@torch.library.custom_op("demo::each", mutates_args=())
def each(xs: list[Tensor]) -> list[Tensor]:
    return [x * 2 for x in xs]


@torch.library.custom_op("demo::turned", mutates_args=())
def turned(x: Tensor, ws: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    grads = []
    for part in each(ws):
        grads.append(part.t())
    return x * 2, grads + [made.t() for made in each(ws)]
""",
        _OP
        + """
@torch.library.custom_op("demo::parts", mutates_args=())
def parts(x: Tensor, n: int) -> list[Tensor]:
    return [part.clone() for part in (x * 2).chunk(n)]
""",
    ),
)
