"""Ops whose result is an argument for some inputs, and a copy for others.

Source: FACTS section 2 (S1) and section 6.
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.kernels import is_checked
from opscaffold.rules.returned import LOW_LEVEL, Sharing, clone_intent, evidence, shared_arguments


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each argument that contiguous, to, reshape and the like may hand back."""
    found = list(shared_arguments(facts))
    # Where an argument is surely handed back on another path to the same return, that is said.
    sure = {(s.argument, s.places[0]) for s in found if s.sharing is not Sharing.MAYBE}
    for shared in found:
        if shared.sharing is not Sharing.MAYBE or (shared.argument, shared.places[0]) in sure:
            continue
        effect = (
            "it runs on some inputs, and raises RuntimeError on the others"
            if is_checked(facts)
            else f"where they do, {LOW_LEVEL}"
        )
        yield RULE.finding(
            shared.kernel.module,
            shared.places[0],
            f"the result may share the memory of `{shared.argument}`, depending on its layout, "
            f"dtype or device: {effect}",
            op=facts.op.qualname,
            evidence=evidence(shared),
            intent=clone_intent(facts),
        )


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS203",
    name="may-alias",
    severity=Severity.WARNING,
    summary="The op returns what contiguous(), to(), reshape() or the like make of an argument.",
    why="These give back the argument itself where nothing has to change: a tensor that is "
    "contiguous already, or has the dtype asked for. A `custom_op` then raises RuntimeError, on "
    "those inputs only. A low-level registration runs in eager mode, and compiled code silently "
    "takes the two for separate memory.",
    remedy="make sure of a copy: `x.clone(memory_format=torch.contiguous_format)`, "
    "`x.to(dtype, copy=True)`, `x.reshape(shape).clone()`",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::packed", mutates_args=())
def packed(x: Tensor) -> Tensor:
    return x.contiguous()
""",
        _OP
        + """
@torch.library.custom_op("demo::half", mutates_args=())
def half(x: Tensor, scale: float) -> Tensor:
    y = x.to(torch.float16)
    if scale != 1.0:
        y = y * scale
    return y
""",
        _OP
        + """
@torch.library.custom_op("demo::rows", mutates_args=())
def rows(x: Tensor, n: int) -> Tensor:
    return torch.reshape(x.transpose(0, 1), (n, -1))
""",
        _OP
        + """
@torch.library.custom_op("demo::real", mutates_args=())
def real(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return x @ w, w.float()
""",
    ),
    misses=(
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("rows(Tensor x, int n) -> Tensor")


def rows(x, n):
    if not x.is_contiguous():
        x = x.contiguous()
    return x.view(n, -1)


lib.impl("rows", rows, "CPU")
""",
        _OP
        + """
@torch.library.custom_op("demo::cast", mutates_args=())
def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    y = x * 2
    return y.to(dtype)
""",
        _OP
        + """
@torch.library.custom_op("demo::half", mutates_args=())
def half(x: Tensor) -> Tensor:
    return x.to(torch.float16, copy=True)
""",
        _OP
        + """
@torch.library.custom_op("demo::packed", mutates_args=())
def packed(x: Tensor) -> Tensor:
    y = x.contiguous()
    if y.data_ptr() == x.data_ptr():
        y = y.clone()
    return y
""",
        _OP
        + """
@torch.library.custom_op("demo::norm", mutates_args=())
def norm(x: Tensor) -> Tensor:
    y = x.float().contiguous()
    return y / y.norm()
""",
    ),
)
