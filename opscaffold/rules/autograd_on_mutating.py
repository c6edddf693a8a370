"""Gradient formulas for ops that PyTorch lets have none: whatever mutates an argument.

Source: FACTS section 2, "Definition time".
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.contract.model import Kind
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import signature_of
from opscaffold.source.model import Role


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each register_autograd on an op that is not functional."""
    registrations = [r for r in facts.op.attached if r.role is Role.AUTOGRAD]
    contract = signature_of(facts.project, facts.op) if registrations else None
    if contract is None or contract.kind is Kind.FUNCTIONAL:
        return
    mutated = ", ".join(f"`{name}`" for name in contract.mutated)
    what = f"is declared to mutate {mutated}" if mutated else f"is {contract.kind.value}"
    for registration in registrations:
        yield RULE.finding(
            registration.module,
            registration.statement,
            f"the op {what}, and register_autograd takes functional ops only: this line raises "
            "RuntimeError",
            op=facts.op.qualname,
        )


_OP = """\
import torch
from torch import Tensor

"""

RULE = Rule(
    code="OPS501",
    name="autograd-on-mutating",
    severity=Severity.ERROR,
    summary="A gradient formula is registered for an op that mutates an argument.",
    why="register_autograd refuses ops that are in-place, out= or mutable, with a RuntimeError "
    "while the module is imported.",
    remedy="register the formula on a functional op, and let that one allocate its result",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::double_", mutates_args={"x"}, tags=torch.Tag.inplace)
def double_(x: Tensor) -> Tensor:
    return x.mul_(2)


double_.register_autograd(lambda ctx, grad: grad * 2)
""",
        _OP
        + """
@torch.library.custom_op("demo::double", mutates_args="unknown")
def double(x: Tensor) -> Tensor:
    return x * 2


torch.library.register_autograd("demo::double", lambda ctx, grad: grad * 2)
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("store(Tensor x, Tensor(a!) cache) -> ()")
torch.library.register_autograd("demo::store", lambda ctx: (None, None), lib=lib)
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2


double.register_autograd(lambda ctx, grad: grad * 2)
""",
        _OP
        + """
@torch.library.custom_op("demo::double_", mutates_args={"x"}, tags=torch.Tag.inplace)
def double_(x: Tensor) -> Tensor:
    return x.mul_(2)


@double_.register_vmap
def _(info, in_dims, x):
    return double_(x), in_dims[0]
""",
        _OP
        + """
from elsewhere import WRITTEN


@torch.library.custom_op("demo::double", mutates_args=WRITTEN)
def double(x: Tensor) -> Tensor:
    return x * 2


double.register_autograd(lambda ctx, grad: grad * 2)
""",
    ),
)
