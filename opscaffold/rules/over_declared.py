"""Ops that declare to mutate what they only read.

Source: FACTS section 2 (S4) and section 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.declared import mutated_by, names_no_tensor, tags
from opscaffold.rules.evidence import declaration
from opscaffold.rules.kernels import kernels_of
from opscaffold.rules.proven import mutates_intent, only_read


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each argument that no kernel writes to, where every use of it is in sight."""
    declared = mutated_by(facts)
    if not declared or tags(facts) != frozenset() or names_no_tensor(facts):
        return
    needless = only_read(facts)
    for name in sorted(needless):
        own = kernels_of(facts)[0].own_name(name)
        yield RULE.finding(
            facts.module,
            facts.parameter(own or name),
            f"`{name}` is declared as mutated, and the kernel only reads it: its version is "
            "bumped at every call, so that a backward pass that saved it raises, and the op "
            "can have no autograd",
            op=facts.op.qualname,
            evidence=[declaration(facts)],
            remedy=f'take "{name}" out of what the op declares to mutate',
            intent=mutates_intent(facts, declared - needless),
        )


_OP = """\
import torch
from torch import Tensor
"""

RULE = Rule(
    code="OPS302",
    name="over-declared",
    severity=Severity.WARNING,
    summary="The op declares to mutate an argument that its kernel never writes to.",
    why="PyTorch believes it: each call bumps the argument's version, and a backward pass that "
    "saved the argument raises. The op counts as mutable, so that it can register no autograd, "
    "and compiled code copies what it need not copy. No test finds it.",
    remedy="take the argument out of mutates_args",
    repair="safe",
    of_op=check,
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::add_norm", mutates_args=("x", "weight"))
def add_norm(x: Tensor, weight: Tensor) -> None:
    x.mul_(torch.rsqrt(x.pow(2).mean()) * weight)
""",
        _OP
        + """
@torch.library.custom_op("demo::total", mutates_args=("xs",))
def total(xs: list[Tensor]) -> Tensor:
    result = torch.zeros_like(xs[0])
    for x in xs:
        result += x
    return result
""",
        _OP
        + """
lib = torch.library.Library("demo", "FRAGMENT")
lib.define("double(Tensor(a!) x) -> Tensor")


def _scaled(t, by):
    t = t * by
    return t.add_(1)


lib.impl("double", lambda x: _scaled(x, 2), "CPU")
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::spread", mutates_args=("outs",))
def spread(x: Tensor, outs: list[Tensor]) -> None:
    for i, o in enumerate(outs):
        o.copy_(x + i)
""",
        _OP
        + """
from elsewhere import kernel


@torch.library.custom_op("demo::fill", mutates_args=("out",))
def fill(x: Tensor, out: Tensor) -> None:
    kernel[(1,)](x, out, x.numel())
""",
        _OP
        + """
import torch.distributed as dist


@torch.library.custom_op("demo::reduce", mutates_args=("x",))
def reduce(x: Tensor, op: int) -> None:
    dist.all_reduce(x)
""",
        _OP
        + """
@torch.library.custom_op("demo::norm", mutates_args=("mean", "var"))
def norm(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return torch.nn.functional.batch_norm(x, mean, var, training=True)
""",
        _OP
        + """
@torch.library.custom_op("demo::later", mutates_args=("x",))
def later(x: Tensor) -> None:
    raise NotImplementedError
""",
        _OP
        + """
@torch.library.custom_op("demo::some", mutates_args=("x",))
def some(x: Tensor, y: Tensor, first: bool) -> None:
    chosen = x if first else y.clone()
    chosen.zero_()
""",
    ),
)
