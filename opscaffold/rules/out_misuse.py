"""Kernels of out= ops that use the buffer for more, or for less, than the result.

Source: FACTS section 2; torch.library reference, Tag.out.
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
from opscaffold.rules.functions import own_nodes
from opscaffold.rules.kernels import Kernel, is_checked, kernels_of
from opscaffold.rules.partly_written import only_part, skipped
from opscaffold.rules.tagged import first_reads, never_writes, wrong_returns


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each way in which a kernel of a Tag.out op breaks what the tag promises."""
    declared = mutated_by(facts)
    if tags(facts) != frozenset({Tag.OUT}) or not declared or tag_problem(facts, Tag.OUT):
        return
    for kernel in kernels_of(facts):
        outs = [a.name for a in kernel.arguments if kernel.declared.get(a.name) in declared]
        for out in outs:
            for node, message, remedy in _misuses(kernel, out):
                events = [e for e in kernel.effects.trace.on(f"param:{out}") if e.node is node]
                yield RULE.finding(
                    kernel.module,
                    node,
                    message,
                    op=facts.op.qualname,
                    remedy=remedy,
                    evidence=inside(events),
                )
        wrong = dict(wrong_returns(kernel, outs))
        if all(_is_rebound(kernel, out) for out in outs):
            # That another tensor is returned then goes without saying.
            continue
        if wrong:
            (node, what), *_ = wrong.items()
            said = " and ".join(f"`{out}`" for out in outs)
            effect = (
                "the call raises RuntimeError after it has written"
                if is_checked(facts)
                else "compiled code goes on with the buffer, eager mode with what is returned"
            )
            yield RULE.finding(
                kernel.module,
                node,
                f"it returns {what}, and an out= op must return {said} itself: {effect}",
                op=facts.op.qualname,
                remedy=f"return {', '.join(outs)}",
            )


def _misuses(kernel: Kernel, out: str) -> Iterator[tuple[ast.AST, str, str]]:
    events = kernel.effects.trace.on(f"param:{out}")
    reads = list(first_reads(events))
    if reads:
        yield (
            reads[0].node,
            (
                f"it reads `{out}` before it has written to it: compiled code hands an out= op "
                "memory that holds anything, so that the result depends on what was there"
            ),
            f"overwrite `{out}` first, or declare an op that updates it: no tag, returning nothing",
        )
    reshaped = next((e for e in events if e.effect is Effect.RESHAPE and e.known), None)
    if reshaped is not None:
        yield (
            reshaped.node,
            (
                f"it changes the shape or storage of `{out}`: the fake that PyTorch derives keeps "
                "them, so that compiled code computes with another shape than the op returns"
            ),
            f"require `{out}` of the right shape",
        )
    if never_writes(kernel, out):
        rebound = _rebinding(kernel, out)
        if rebound is not None:
            yield (
                rebound,
                (
                    f"it binds the name `{out}` to another tensor, so that the caller's buffer is "
                    "never written to"
                ),
                f"write into the buffer: `{out}.copy_(...)` or `out={out}`",
            )
        else:
            yield (
                kernel.function,
                f"it never writes to `{out}`: the caller gets back what the buffer held before",
                f"write the result into `{out}`",
            )
    part = only_part(kernel, events, out)
    if part is not None:
        yield (
            part,
            (
                f"it writes to a part of `{out}` only: the rest of the result is what the buffer "
                "held before, which is anything in compiled code"
            ),
            f"fill all of `{out}`",
        )
    elif reshaped is None and not reads and (left := skipped(kernel, events, out)) is not None:
        yield (
            left,
            (
                f"it leaves `{out}` as it was on some path: the result there is what the buffer "
                "held before, which is anything in compiled code"
            ),
            f"write the result into `{out}` on every path",
        )


def _is_rebound(kernel: Kernel, out: str) -> bool:
    return never_writes(kernel, out) and _rebinding(kernel, out) is not None


def _rebinding(kernel: Kernel, out: str) -> ast.AST | None:
    for node in own_nodes(kernel.function):
        if isinstance(node, ast.Name) and node.id == out and isinstance(node.ctx, ast.Store):
            return node
    return None


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS401",
    name="out-misuse",
    severity=Severity.ERROR,
    summary="The kernel of an out= op reads, rebinds, resizes or partly writes its buffer, or "
    "returns something else.",
    why="Tag.out promises that the buffer is overwritten as a whole and returned. Compiled code "
    "relies on it: it hands over memory whose contents are undefined, and goes on with that "
    "memory. A kernel that adds to the buffer then gives numbers that depend on chance. A "
    "`custom_op` that returns something else raises RuntimeError after it has written.",
    remedy="overwrite the whole buffer and return it",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::axpy_out", mutates_args=("out",), tags=torch.Tag.out)
def axpy_out(x: Tensor, a: float, *, out: Tensor) -> Tensor:
    out.add_(x, alpha=a)
    return out
""",
        _OP
        + """
@torch.library.custom_op("demo::mul_out", mutates_args=("out",), tags=torch.Tag.out)
def mul_out(x: Tensor, y: Tensor, *, out: Tensor) -> Tensor:
    out = x * y
    return out
""",
        _OP
        + """
@torch.library.custom_op("demo::exp_out", mutates_args=("out",), tags=torch.Tag.out)
def exp_out(x: Tensor, *, out: Tensor) -> Tensor:
    out.resize_(x.shape)
    torch.exp(x, out=out)
    return out
""",
        _OP
        + """
@torch.library.custom_op("demo::head_out", mutates_args=("out",), tags=torch.Tag.out)
def head_out(x: Tensor, *, out: Tensor) -> Tensor:
    out[0] = x.sum()
    return out
""",
        _OP
        + """
@torch.library.custom_op("demo::pair_out", mutates_args=("a", "b"), tags=torch.Tag.out)
def pair_out(x: Tensor, *, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    a.copy_(x)
    b.copy_(x + 1)
    return b, a
""",
        _OP
        + """
@torch.library.custom_op("demo::blend_out", mutates_args=("out",), tags=torch.Tag.out)
def blend_out(x: Tensor, beta: float, *, out: Tensor) -> Tensor:
    if beta == 0:
        out.zero_()
    else:
        out.mul_(beta)
    out.add_(x)
    return out
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::mul_out", mutates_args=("out",), tags=torch.Tag.out)
def mul_out(x: Tensor, y: Tensor, *, out: Tensor) -> Tensor:
    assert out.shape == x.shape
    torch.mul(x, y, out=out)
    out.neg_()
    return out
""",
        _OP
        + """
@torch.library.custom_op("demo::rows_out", mutates_args=("out",), tags=torch.Tag.out)
def rows_out(x: Tensor, *, out: Tensor) -> Tensor:
    for i in range(x.shape[0]):
        out[i] = x[i].sum()
    return out
""",
        _OP
        + """
@torch.library.custom_op("demo::join_out", mutates_args=("out",), tags=torch.Tag.out)
def join_out(x: Tensor, y: Tensor, *, out: Tensor) -> Tensor:
    out[: x.shape[0]] = x
    out[x.shape[0] :] = y
    out *= 2
    return out
""",
        _OP
        + """
from elsewhere import kernel


@torch.library.custom_op("demo::run_out", mutates_args=("out",), tags=torch.Tag.out)
def run_out(x: Tensor, *, out: Tensor) -> Tensor:
    kernel[(1,)](x, out)
    out += 1
    return out
""",
        _OP
        + """
@torch.library.custom_op("demo::axpy", mutates_args=("out",))
def axpy(x: Tensor, a: float, out: Tensor) -> None:
    out.add_(x, alpha=a)
""",
        _OP
        + """
@torch.library.custom_op("demo::safe_out", mutates_args=("out",), tags=torch.Tag.out)
def safe_out(x: Tensor, *, out: Tensor) -> Tensor:
    if x.numel() == 0:
        return out
    return torch.exp(x, out=out)
""",
    ),
)
