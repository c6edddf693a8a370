"""Ops whose contract depends on the call: an Optional buffer, written and returned if given.

PyTorch's contracts are fixed when an op is defined. An op that allocates its result in one call
and returns the caller's buffer in the next keeps none of them (FACTS sections 1, 2 and 5).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.effects.buffers import BufferUse, Handed
from opscaffold.effects.paired import PairedUse
from opscaffold.effects.trace import FunctionNode
from opscaffold.findings.intents import SplitMaybeOut
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.declared import is_refused_out
from opscaffold.rules.evidence import places_of
from opscaffold.rules.outputs import (
    ALIAS_CHECKED,
    is_side_output,
    obstacle_to_split,
    outputs_of,
)
from opscaffold.rules.paired import listed, obstacle_to_paired_split, paired_outputs
from opscaffold.source.model import Op


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report every Optional buffer of an op that it may write and hand back."""
    if facts.kernel is None or is_refused_out(facts):
        return
    uses = outputs_of(facts)
    pair = paired_outputs(facts, uses)
    if pair is not None:
        yield _paired(facts, facts.kernel, pair)
        return
    for name, use in uses.items():
        if is_side_output(facts.op, use):
            continue
        obstacle = obstacle_to_split(facts.kernel, use, uses, _declared(facts.op))
        message = _message(facts.op, use)
        yield RULE.finding(
            facts.module,
            facts.parameter(name) if obstacle is None else obstacle.node,
            message if obstacle is None else f"{message}: {obstacle.reason}",
            op=facts.op.qualname,
            remedy="" if obstacle is None else obstacle.remedy,
            evidence=places_of(facts.module, use.written),
            intent=None if obstacle else SplitMaybeOut(facts.op.qualname, name),
        )


def _paired(facts: OpFacts, kernel: FunctionNode | ast.Lambda, pair: PairedUse) -> Finding:
    """One finding for buffers that are given together or not at all."""
    op = facts.op
    said = listed(pair.names)
    message = f"{said} are allocated when omitted and returned when given, all or none: "
    if op.definition.role in ALIAS_CHECKED:
        message += "a call that passes them raises after they were written"
    else:
        message += "eager mode works, torch.compile takes them and the results for separate memory"
    obstacle = obstacle_to_paired_split(kernel, pair, _declared(op))
    order = pair.order or pair.names
    return RULE.finding(
        facts.module,
        facts.parameter(pair.names[0]) if obstacle is None else obstacle.node,
        message if obstacle is None else f"{message}: {obstacle.reason}",
        op=op.qualname,
        remedy="" if obstacle is None else obstacle.remedy,
        evidence=places_of(facts.module, [e for use in pair.uses for e in use.written]),
        intent=None if obstacle else SplitMaybeOut(op.qualname, order[0], more=order[1:]),
    )


def _declared(op: Op) -> frozenset[str]:
    mutates = op.definition.mutates
    return frozenset(mutates if isinstance(mutates, tuple) else ())


def _message(op: Op, use: BufferUse) -> str:
    name = use.argument.name
    hands_back = use.handed in {Handed.BUFFER, Handed.VIEW, Handed.MIXED}
    allocated = "allocated when omitted and " if use.fresh_when_omitted else ""
    if op.definition.role in ALIAS_CHECKED and hands_back:
        return (
            f"`{name}` is {allocated}returned when given: a call that passes it raises after the "
            "buffer was written"
        )
    if hands_back:
        return (
            f"`{name}` is {allocated}returned when given: eager mode works, torch.compile takes "
            "the two for separate memory"
        )
    return f"whether the result is allocated or goes to `{name}` depends on the call"


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS101",
    name="maybe-out",
    severity=Severity.ERROR,
    summary="The op allocates its result, or writes it to a buffer if one is given.",
    why="An op has one contract. A `custom_op` that returns the buffer it was given raises after "
    "it has written it. A low-level registration runs in eager mode, and under `torch.compile` "
    "the result and the buffer silently become separate memory.",
    remedy="split it into a functional and an out= op",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, 2, out=out)
""",
        _OP
        + """
@torch.library.custom_op("demo::lift", mutates_args=())
def lift(x: Tensor, dst: Tensor | None = None) -> Tensor:
    result = x.new_empty(x.shape) if dst is None else dst
    result.copy_(x).add_(1)
    return result
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("clip(Tensor x, Tensor(a!)? out=None) -> Tensor")


def clip(x, out=None):
    if out is None:
        out = torch.empty_like(x)
    out.copy_(x.clamp(0, 1))
    return out


lib.impl("clip", clip, "CPU")
""",
    ),
    misses=(
        """\
import torch
import vendor_kernels
from torch import Tensor


@torch.library.custom_op("demo::attend_grad", mutates_args=("dq", "dk"))
def attend_grad(g: Tensor, dq: Tensor | None, dk: Tensor | None) -> Tensor:
    delta, *_ = vendor_kernels.attend_grad(g, dq, dk)
    return delta
""",
        _OP
        + """
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, 2, out=out)
""",
        _OP
        + """
@torch.library.custom_op("demo::shift", mutates_args=())
def shift(x: Tensor, bias: Tensor | None = None) -> Tensor:
    if bias is None:
        bias = torch.zeros_like(x)
    return x + bias
""",
        _OP
        + """
@torch.library.custom_op("demo::mean", mutates_args=())
def mean(x: Tensor, out: str = "row", out_dtype: torch.dtype | None = None) -> Tensor:
    if out_dtype is None:
        out_dtype = x.dtype
    return x.mean(0 if out == "row" else 1, dtype=out_dtype)
""",
    ),
)
