"""Ops that leave open what they mutate.

Source: torch.library reference, "mutates_args".
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.declared import UNKNOWN
from opscaffold.rules.kernels import all_in_sight, kernels_of
from opscaffold.rules.proven import in_order, mutates_intent, proven


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report mutates_args="unknown", with what the kernels in sight write to."""
    definition = facts.op.definition
    if definition.mutates != UNKNOWN:
        return
    kernels = kernels_of(facts)
    written = {k.declared.get(n, n) for k in kernels for n in k.effects.mutations}
    opaque = {k.declared.get(n, n) for k in kernels for n in k.effects.opaque} - written
    names = in_order(facts, written)
    inferred = f"({', '.join(map(repr, names))}{',' if len(names) == 1 else ''})"
    if not all_in_sight(facts):
        remedy = "list the arguments that the kernel writes to"
    elif opaque:
        rest = ", ".join(f"`{n}`" for n in sorted(opaque))
        remedy = f"mutates_args={inferred} is what is in sight; {rest} goes to code out of sight"
    else:
        remedy = f"write mutates_args={inferred}"
    sure = proven(facts)
    yield RULE.finding(
        definition.module,
        definition.call or definition.statement,
        "PyTorch takes every tensor argument for mutated: the op can register no autograd, each "
        "call bumps the version of tensors that it only reads, and a backward pass that saved "
        "one of them raises",
        op=facts.op.qualname,
        remedy=remedy,
        intent=None if sure is None else mutates_intent(facts, sure),
    )


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS303",
    name="mutates-unknown",
    severity=Severity.WARNING,
    summary='The op is declared with mutates_args="unknown".',
    why="PyTorch then takes every tensor argument for mutated. The op can register no autograd, "
    "each call bumps the version of tensors that it only reads, so that an unrelated backward "
    "pass raises, and compiled code copies arguments around the call.",
    remedy="list what the kernel writes to",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::lerp", mutates_args="unknown")
def lerp(p: Tensor, q: Tensor) -> Tensor:
    return p + 0.5 * (q - p)
""",
        _OP
        + """
def _fill(x: Tensor, y: Tensor) -> None:
    y.copy_(x)


fill = torch.library.custom_op("demo::fill", _fill, mutates_args="unknown")
""",
        _OP
        + """
from elsewhere import run


@torch.library.custom_op("demo::go", mutates_args="unknown", device_types="cuda")
def go(x: Tensor, y: Tensor) -> None:
    run(x, y)
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::lerp", mutates_args=())
def lerp(p: Tensor, q: Tensor) -> Tensor:
    return p + 0.5 * (q - p)
""",
        _OP
        + """
@torch.library.custom_op("demo::fill", mutates_args={"y"})
def fill(x: Tensor, y: Tensor) -> None:
    y.copy_(x)
""",
        _OP
        + """
def custom_op(name, mutates_args):
    return lambda function: function


@custom_op("demo::lerp", mutates_args="unknown")
def lerp(p: Tensor, q: Tensor) -> Tensor:
    return p + q
""",
    ),
)
