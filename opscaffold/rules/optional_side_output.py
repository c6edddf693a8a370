"""Ops that write an Optional buffer beside a result that has nothing to do with it.

``custom_op`` accepts it and opcheck passes; Inductor fails where the buffer is omitted, the op
returns a Tensor and mutates nothing else in that call (FACTS section 2). Not so for an op that
is traced into, as ``triton_op`` is: what Inductor sees is not the op but what its kernel does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.declared import mutated_by
from opscaffold.rules.evidence import places_of
from opscaffold.rules.outputs import is_side_output, outputs_of
from opscaffold.rules.paired import listed
from opscaffold.source.model import Op, Role


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report every Optional argument that is mutated if given, and never handed back."""
    for name, use in outputs_of(facts).items():
        if not is_side_output(facts.op, use) or _is_traced_into(facts.op):
            continue
        alone = _left_out_together(facts, name)
        returns = any(r.value.refs or r.value.items for r in use.given.returns)
        fails = returns and alone is not None
        if fails:
            omitted = f"{listed((name, *alone))} are" if alone else "it is"
            message = (
                f"`{name}` is mutated if it is given, beside a returned tensor: torch.compile with "
                f"Inductor fails where {omitted} omitted, though opcheck passes"
            )
        else:
            message = f"`{name}` is mutated if it is given: callers that omit it get nothing"
        yield RULE.finding(
            facts.module,
            facts.parameter(name),
            message,
            op=facts.op.qualname,
            remedy=f"write two ops: one without `{name}`, one that always writes it",
            evidence=places_of(facts.module, use.written),
            severity=None if fails else Severity.INFO,
        )


def _left_out_together(facts: OpFacts, name: str) -> tuple[str, ...] | None:
    """The other arguments without which a call mutates nothing, which is what Inductor fails on.

    None where it always mutates something, or the op does not say that it mutates this one.
    """
    mutated = mutated_by(facts)
    if mutated is None:
        return ()
    optional = [a.name for a in facts.arguments if a.optional and a.name in mutated]
    if name not in optional or len(optional) < len(mutated):
        return None
    return tuple(n for n in optional if n != name)


def _is_traced_into(op: Op) -> bool:
    """Whether torch.compile looks into the op, which its rule for functionalizing then says."""
    if op.definition.role is Role.TRITON_OP:
        return True
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and (node.id if isinstance(node, ast.Name) else node.attr) == "FunctionalTensorMode"
        for registration in op.attached
        if registration.role is Role.TORCH_DISPATCH
        for argument in registration.arguments.values()
        for node in ast.walk(argument)
    )


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS102",
    name="optional-side-output",
    severity=Severity.ERROR,
    summary="The op mutates an Optional argument beside the tensor it returns.",
    why="The op is legal and passes opcheck. Compiled with Inductor, a call that gives it nothing "
    "to mutate fails.",
    remedy="write two ops: one without the argument, one that always writes it",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::route", mutates_args=("trace",))
def route(x: Tensor, trace: Tensor | None = None) -> Tensor:
    if trace is not None:
        trace.copy_(x)
    return x * 2
""",
        _OP
        + """
@torch.library.custom_op("demo::grads", mutates_args=("da", "db"))
def grads(g: Tensor, da: Tensor | None, db: Tensor | None) -> Tensor:
    if da is not None:
        torch.mul(g, 2, out=da)
    if db is not None:
        torch.mul(g, 3, out=db)
    return g.sum()
""",
        _OP
        + """
@torch.library.custom_op("demo::sums", mutates_args=("extra",))
def sums(x: Tensor, extra: Tensor | None = None) -> Tensor:
    total = x.new_empty(x.shape[0])
    launch(x, total, extra)
    return total


def launch(x, total, extra):
    torch.sum(x, 1, out=total)
    if extra is not None:
        extra.copy_(x)
""",
        _OP
        + """
@torch.library.custom_op("demo::norm", mutates_args=("scale",))
def norm(x: Tensor, scale: Tensor | None = None) -> Tensor:
    largest = x.abs().amax()
    if scale is not None:
        scale.fill_(1.0)
        scale.mul_(largest)
    return x / largest
""",
        """\
import torch
import vendor_kernels
from torch import Tensor


@torch.library.custom_op("demo::attend_grad", mutates_args=("dq", "dk"))
def attend_grad(g: Tensor, dq: Tensor | None, dk: Tensor | None) -> Tensor:
    dq, dk, delta = vendor_kernels.attend_grad(g, dq, dk)
    return delta
""",
    ),
    misses=(
        """\
import torch
import vendor_kernels
from torch import Tensor


@torch.library.custom_op("demo::attend", mutates_args=("out",))
def attend(q: Tensor, out: Tensor | None = None) -> Tensor:
    return vendor_kernels.attend(q, out)
""",
        _OP
        + """
@torch.library.custom_op("demo::route", mutates_args=("trace",))
def route(x: Tensor, trace: Tensor) -> Tensor:
    trace.copy_(x)
    return x * 2
""",
        _OP
        + """
@torch.library.custom_op("demo::shift", mutates_args=())
def shift(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return x if bias is None else x + bias
""",
        _OP
        + """
def route(x: Tensor, trace: Tensor | None = None) -> Tensor:
    if trace is not None:
        trace.copy_(x)
    return x * 2
""",
        _OP
        + """
@torch.library.triton_op("demo::route", mutates_args=("trace",))
def route(x: Tensor, trace: Tensor | None = None) -> Tensor:
    if trace is not None:
        trace.copy_(x)
    return x * 2
""",
        _OP
        + """
from torch._subclasses.functional_tensor import FunctionalTensorMode


@torch.library.custom_op("demo::route", mutates_args=("trace",))
def route(x: Tensor, trace: Tensor | None = None) -> Tensor:
    if trace is not None:
        trace.copy_(x)
    return x * 2


@route.register_torch_dispatch(FunctionalTensorMode)
def _(mode, func, types, args, kwargs):
    with mode:
        return route._init_fn(*args, **kwargs)
""",
    ),
)
