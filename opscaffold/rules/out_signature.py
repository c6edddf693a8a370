"""Ops tagged out= whose signature no out= op can have.

Source: FACTS section 2, "Definition time".
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.contract.model import Tag
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.declared import tag_problem


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report why PyTorch refuses Tag.out on an op."""
    problem = tag_problem(facts, Tag.OUT)
    if problem is None:
        return
    node, reason, remedy = problem
    module = facts.op.definition.module if facts.op.definition.schema else facts.module
    yield RULE.finding(
        module,
        node,
        f"{reason}: the definition raises, and the module cannot be imported",
        op=facts.op.qualname,
        remedy=remedy,
    )


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS402",
    name="out-signature",
    severity=Severity.ERROR,
    summary="A Tag.out op takes positional, Optional or list buffers, or does not return them.",
    why="PyTorch refuses the op when it is defined, so that the module cannot be imported: the "
    "buffers of an out= op are keyword-only plain Tensors, and its returns are those buffers in "
    "the same order.",
    remedy="make each buffer a keyword-only Tensor and return it, or drop the tag and return "
    "nothing",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::mul_out", mutates_args=("out",), tags=torch.Tag.out)
def mul_out(x: Tensor, out: Tensor) -> Tensor:
    return torch.mul(x, 2, out=out)
""",
        _OP
        + """
@torch.library.custom_op("demo::mul_out", mutates_args=("out",), tags=torch.Tag.out)
def mul_out(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    return torch.mul(x, 2, out=out)
""",
        _OP
        + """
@torch.library.custom_op("demo::fan_out", mutates_args=("outs",), tags=(torch.Tag.out,))
def fan_out(x: Tensor, *, outs: list[Tensor]) -> Tensor:
    for out in outs:
        out.copy_(x)
    return outs[0]
""",
        _OP
        + """
@torch.library.custom_op("demo::mul_out", mutates_args=("out",), tags=torch.Tag.out)
def mul_out(x: Tensor, *, out: Tensor) -> None:
    torch.mul(x, 2, out=out)
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("mul.out(Tensor x, Tensor(a!) out) -> Tensor(a!)", tags=torch.Tag.out)
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::mul_out", mutates_args=("out",), tags=torch.Tag.out)
def mul_out(x: Tensor, *, out: Tensor) -> Tensor:
    return torch.mul(x, 2, out=out)
""",
        _OP
        + """
@torch.library.custom_op("demo::mul_into", mutates_args=("out",))
def mul_into(x: Tensor, out: Tensor) -> None:
    torch.mul(x, 2, out=out)
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("mul.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=torch.Tag.out)
""",
    ),
)
