"""Ops whose contract depends on a flag: with it they write to an argument and return it.

PyTorch's contracts are fixed when an op is defined. An op that works in place in one call and
returns new memory in the next keeps none of them (FACTS sections 1, 2 and 5).
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.intents import SplitInplaceFlag
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.declared import mutated_by
from opscaffold.rules.evidence import places_of
from opscaffold.rules.flags import flag_of, obstacle_to_flag_split, own_names
from opscaffold.rules.kernels import is_checked
from opscaffold.rules.outputs import Obstacle


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report the flag that decides whether an op works in place."""
    use = flag_of(facts)
    if use is None or facts.kernel is None:
        return
    names = own_names(facts)
    flag, argument = (names.get(n, n) for n in (use.flag.name, use.argument))
    declared = mutated_by(facts) or frozenset()
    own = frozenset(a.name for a in facts.arguments if names.get(a.name, a.name) in declared)
    obstacle = obstacle_to_flag_split(facts.kernel, use, own)
    yield RULE.finding(
        facts.module,
        facts.parameter(use.flag.name) if obstacle is None else obstacle.node,
        _message(facts, flag, argument, when=use.when, obstacle=obstacle),
        op=facts.op.qualname,
        remedy="" if obstacle is None else obstacle.remedy,
        evidence=places_of(facts.module, use.written),
        intent=None
        if obstacle is not None
        else SplitInplaceFlag(facts.op.qualname, flag, argument, use.when),
    )


def _message(
    facts: OpFacts, flag: str, argument: str, *, when: bool, obstacle: Obstacle | None
) -> str:
    value = "with" if when else "without"
    said = f"`{flag}` decides whether the op writes to `{argument}` and returns it: "
    if is_checked(facts):
        said += f"a call {value} it raises after `{argument}` was written"
    else:
        said += "eager mode works, torch.compile takes the result for new memory in either case"
    return said if obstacle is None else f"{said}: {obstacle.reason}"


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS103",
    name="inplace-flag",
    severity=Severity.ERROR,
    summary="A flag decides whether the op returns new memory or writes to an argument in place.",
    why="An op has one contract. A `custom_op` that returns its argument raises after it has "
    "written it, and where it declares to mutate the argument, each call without the flag bumps "
    "the argument's version all the same. A low-level registration runs in eager mode, and under "
    "`torch.compile` the result and the argument silently become separate memory.",
    remedy="split it into a functional and an in-place op, without the flag",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::leaky", mutates_args=("x",))
def leaky(x: Tensor, slope: float = 0.1, inplace: bool = False) -> Tensor:
    out = x if inplace else torch.empty_like(x)
    torch.where(x > 0, x, x * slope, out=out)
    return out
""",
        _OP
        + """
@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, by: float, copy: bool = True) -> Tensor:
    if copy:
        x = x.clone()
    x *= by
    return x
""",
        _OP
        + """
import torch.nn.functional as F


@torch.library.custom_op("demo::act", mutates_args=())
def act(x: Tensor, overwrite: bool) -> Tensor:
    return F.relu(x, inplace=overwrite)
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("double(Tensor x, bool inplace=False) -> Tensor")


def double(x, inplace=False):
    if inplace:
        return x.mul_(2)
    return x * 2


lib.impl("double", double, "CPU")
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::track", mutates_args=("x",))
def track(x: Tensor, inplace: bool = False) -> Tensor:
    y = x * 2
    if inplace:
        x.copy_(y)
    return y
""",
        _OP
        + """
@torch.library.custom_op("demo::mean", mutates_args=())
def mean(x: Tensor, inplace: bool = False) -> Tensor:
    y = x.clone() if inplace else x * 2
    return y.div_(x.shape[0])
""",
        _OP
        + """
@torch.library.custom_op("demo::twice_", mutates_args=("x",), tags=torch.Tag.inplace)
def twice_(x: Tensor, fast: bool = False) -> Tensor:
    if fast:
        return x.mul_(2)
    return x.add_(x.clone())
""",
        _OP
        + """
@torch.library.custom_op("demo::lazy", mutates_args=())
def lazy(x: Tensor, copy: bool = False) -> Tensor:
    return x.clone() if copy else x
""",
        _OP
        + """
def leaky(x: Tensor, slope: float = 0.1, inplace: bool = False) -> Tensor:
    out = x if inplace else torch.empty_like(x)
    return torch.where(x > 0, x, x * slope, out=out)
""",
    ),
)
