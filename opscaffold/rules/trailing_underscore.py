"""Op names that promise an in-place op where there is none.

Source: FACTS section 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.contract.model import Tag
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.declared import mutated_by, tags
from opscaffold.rules.kernels import kernels_of


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report a name that ends in one underscore on an op that does not mutate its first tensor."""
    definition = facts.op.definition
    name = facts.op.name.partition(".")[0]
    known = tags(facts)
    if definition.qualname is None or not name.endswith("_") or name.endswith("__"):
        return
    if known is None or Tag.INPLACE in known:
        return
    contract = signature_of(facts.project, facts.op)
    tensors = [a.name for a in facts.arguments if a.tensor]
    if contract is not None:
        tensors = [p.name for p in contract.parameters if p.is_tensor_like]
    first = tensors[0] if tensors else ""
    kernels = kernels_of(facts)
    declared = mutated_by(facts)
    if declared is None and not kernels:
        return
    written = {k.declared.get(n, n) for k in kernels for n in k.effects.mutations}
    opaque = {k.declared.get(n, n) for k in kernels for n in k.effects.opaque}
    if first in written | (declared or frozenset()) or (declared is None and first in opaque):
        return
    yield RULE.finding(
        definition.module,
        definition.call or definition.statement,
        f"the name `{name}` says that the op works in place, and it does not write to its first "
        "tensor: callers may drop the result, and PyTorch does not pair the op with an out= form",
        op=facts.op.qualname,
        remedy=f"name it `{name.rstrip('_')}`" if name.rstrip("_") else "",
    )


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS306",
    name="trailing-underscore",
    severity=Severity.WARNING,
    summary="The op's name ends in an underscore, and the op is not in-place.",
    why="In PyTorch a trailing underscore means that the first argument is written to. A caller "
    "who trusts the name drops the result and reads the argument, which has not changed. PyTorch "
    "itself takes such a name for a non-functional op when it looks for out= forms.",
    remedy="name it without the underscore",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::fade_", mutates_args=())
def fade_(x: Tensor, k: float) -> Tensor:
    return x * k
""",
        _OP
        + """
@torch.library.custom_op("demo::fill_", mutates_args=("y",))
def fill(x: Tensor, y: Tensor) -> None:
    y.copy_(x)
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("neg_(Tensor x) -> Tensor")
lib.impl("neg_", lambda x: -x, "CPU")
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
@torch.library.custom_op("demo::fade_", mutates_args=("x",))
def fade_(x: Tensor, k: float) -> None:
    x.mul_(k)
""",
        _OP
        + """
@torch.library.custom_op("demo::fade", mutates_args=())
def fade_(x: Tensor, k: float) -> Tensor:
    return x * k
""",
    ),
)
