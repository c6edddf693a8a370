"""Ops that hand an argument straight back.

Source: FACTS sections 2 and 5; torch.library reference, "custom_op".
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.returned import Sharing, report


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each argument that is returned as it is, on whatever path."""
    yield from report(facts, RULE, Sharing.INPUT, "it returns {name} itself")


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS201",
    name="returns-input",
    severity=Severity.ERROR,
    summary="The op returns one of its arguments itself, on some path or on all.",
    why="PyTorch takes what an op returns for new memory. A `custom_op` that returns an argument "
    "raises RuntimeError at the call, and only for the inputs that take that path, so that tests "
    "on other inputs pass. A low-level registration runs in eager mode; compiled, the result and "
    "the argument silently become separate memory.",
    remedy="return a copy on that path: `x.clone()`",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::crop", mutates_args=())
def crop(x: Tensor, keep: int) -> Tensor:
    if keep >= x.shape[0]:
        return x
    return x[:keep].clone()
""",
        _OP
        + """
@torch.library.custom_op("demo::pick", mutates_args=())
def pick(x: Tensor, y: Tensor, first: bool) -> Tensor:
    chosen = x if first else y * 2
    return chosen
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("same(Tensor x, Tensor y) -> (Tensor, Tensor)")


def _passed_on(t):
    return t


def same(x, y):
    return x + y, _passed_on(y)


lib.impl("same", same, "CPU")
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::crop", mutates_args=())
def crop(x: Tensor, keep: int) -> Tensor:
    if keep >= x.shape[0]:
        return x.clone()
    return x[:keep].clone()
""",
        _OP
        + """
@torch.library.custom_op("demo::fade_", mutates_args=("x",), tags=torch.Tag.inplace)
def fade_(x: Tensor, k: float) -> Tensor:
    x.mul_(k)
    return x
""",
        _OP
        + """
@torch.library.custom_op("demo::add", mutates_args=())
def add(x: Tensor, y: Tensor) -> Tensor:
    x = x + y
    return x
""",
        _OP
        + """
from elsewhere import fast


@torch.library.custom_op("demo::run", mutates_args=())
def run(x: Tensor) -> Tensor:
    return fast(x)
""",
        _OP
        + """
@torch.library.custom_op("demo::count", mutates_args=())
def count(x: Tensor, n: int) -> int:
    return n if x.dim() else x.shape[0]
""",
        _OP
        + """
def crop(x: Tensor, keep: int) -> Tensor:
    return x if keep >= x.shape[0] else x[:keep]
""",
    ),
)
