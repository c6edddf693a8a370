"""Fake kernels of ops tagged in-place or out=, which have generated ones.

Source: FACTS section 2 ("register_fake on inplace/out: only a UserWarning; yours replaces the
auto one").
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.intents import MendFake
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import tags_of
from opscaffold.rules.fakes import has_fake
from opscaffold.source.model import Role


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each fake that is registered for a tagged op."""
    tags = tags_of(facts.project, facts.op.definition)
    if not tags or not has_fake(facts.project, facts.op):
        return
    custom = facts.op.definition.role is Role.CUSTOM_OP
    warns = ", with a warning whenever the module is imported" if custom else ""
    names = " and ".join(sorted(f"Tag.{t.value}" for t in tags))
    for registration in facts.op.attached:
        if registration.role is Role.FAKE:
            yield RULE.finding(
                registration.module,
                registration.statement,
                f"an op with {names} has a generated fake kernel: this one replaces it{warns}",
                op=facts.op.qualname,
                intent=MendFake(facts.op.qualname),
            )


_INPLACE = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double_", mutates_args={"x"}, tags=torch.Tag.inplace)
def double_(x: Tensor) -> Tensor:
    return x.mul_(2)

"""

RULE = Rule(
    code="OPS115",
    name="redundant-fake",
    severity=Severity.WARNING,
    summary="A fake kernel is registered for an op that has a generated one.",
    why="PyTorch knows what an op with Tag.inplace or Tag.out returns: its argument. A fake "
    "kernel of your own replaces that knowledge, and can be wrong.",
    remedy="delete the fake kernel",
    repair="safe",
    of_op=check,
    hits=(
        _INPLACE
        + """
@double_.register_fake
def _(x):
    return x
""",
        _INPLACE
        + """
torch.library.register_fake("demo::double_", lambda x: x)
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("store(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=(torch.Tag.out,))
lib._register_fake("store", lambda x, *, out: out)
""",
    ),
    misses=(
        _INPLACE,
        """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2


@double.register_fake
def _(x):
    return torch.empty_like(x)
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("draw(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
lib._register_fake("draw", lambda x: torch.empty_like(x))
""",
    ),
)
