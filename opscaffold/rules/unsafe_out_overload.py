"""Functional ops with an ``.out`` overload that Inductor puts in their place wrongly.

Source: FACTS section 1, BUG A, and section 10.
"""

from __future__ import annotations

from collections.abc import Iterator

from opscaffold.contract.hazards import Hazard
from opscaffold.contract.model import OpContract, Tag
from opscaffold.contract.naming import overload_refusal
from opscaffold.contract.releases import release_for
from opscaffold.findings.intents import RenameOverload
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import Rule, position
from opscaffold.rules.contracts import contract_of
from opscaffold.source.model import Op
from opscaffold.source.project import Project

_WHY = "code outside this project that calls `{old}` would not find it under another name"


def check(project: Project) -> Iterator[Finding]:
    """Report each linked pair whose signature lets the replacement go wrong."""
    named = {op.qualname: op for op in project.all_ops if op.definition.qualname is not None}
    for op in project.ops:
        base, _, overload = op.name.partition(".")
        functional = named.get(f"{op.namespace}::{base}")
        if not overload or functional is None or op.definition.qualname is None:
            continue
        refusals = _refusals(project, functional, op)
        if not refusals:
            continue
        node = op.definition.function or op.definition.statement
        module = op.definition.module
        if op.definition.function is not None:
            module = op.definition.function_module or module
        reasons = "; ".join(dict.fromkeys(h.reason for h in refusals))
        new = f"{functional.qualname}_{overload}"
        why = _WHY.format(old=f"torch.ops.{op.namespace}.{op.name}")
        yield RULE.finding(
            module,
            node,
            f"Inductor calls `{op.qualname}` in place of `{functional.qualname}`, with arguments "
            f"in the wrong places: it fails, or gives wrong numbers in silence ({reasons})",
            op=op.qualname,
            remedy=f"name the op `{new}`: under a name of its own it is never put in",
            evidence=[position(functional.definition.module, functional.definition.statement)],
            intent=RenameOverload(op.qualname, new, safe=False, why=why),
        )


def _refusals(project: Project, functional: Op, out: Op) -> list[Hazard]:
    pair: list[OpContract] = []
    for op in (functional, out):
        contract = contract_of(project, op)
        if contract is None:
            return []
        pair.append(contract)
    if Tag.OUT not in pair[1].tags:
        return []
    return overload_refusal(pair[0], pair[1], release_for())[0]


_OP = """\
import torch
from torch import Tensor

"""

RULE = Rule(
    code="OPS404",
    name="unsafe-out-overload",
    severity=Severity.ERROR,
    summary="An `.out` overload stands beside a functional op whose calls Inductor gets wrong.",
    why="Inductor replaces `ns::f` by `ns::f.out` on its own, and passes tensors first, then the "
    "rest. With defaults, lists, Optionals, keyword-only arguments or a number before a tensor, "
    "the compiled program fails or silently computes something else. opcheck does not see it.",
    remedy="give the out= op a name of its own, `ns::f_out`",
    of_project=check,
    repair="unsafe",
    hits=(
        _OP
        + """
@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0) -> Tensor:
    return x * k


@torch.library.custom_op("demo::scale.out", mutates_args={"out"}, tags=torch.Tag.out)
def scale_out(x: Tensor, k: float = 2.0, *, out: Tensor) -> Tensor:
    return torch.mul(x, k, out=out)
""",
        _OP
        + """
@torch.library.custom_op("demo::half", mutates_args=())
def half(x: Tensor) -> Tensor:
    return x / 2


@torch.library.custom_op("demo::half.out", mutates_args={"dst"}, tags=torch.Tag.out)
def half_out(x: Tensor, *, dst: Tensor) -> Tensor:
    return torch.div(x, 2, out=dst)
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("pick(Tensor x, Tensor? a, Tensor? b) -> Tensor")
lib.define(
    "pick.out(Tensor x, Tensor? a, Tensor? b, *, Tensor(a!) out) -> Tensor(a!)",
    tags=torch.Tag.out,
)
""",
        _OP
        + """
@torch.library.custom_op("demo::stats", mutates_args=())
def stats(n: int, x: Tensor) -> tuple[Tensor, Tensor]:
    return x * n, x.sum()


@torch.library.custom_op("demo::stats.out", mutates_args={"a", "b"}, tags=torch.Tag.out)
def stats_out(n: int, x: Tensor, *, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return torch.mul(x, n, out=a), torch.sum(x, 0, out=b)
""",
    ),
    misses=(
        _OP
        + """
@torch.library.custom_op("demo::plus", mutates_args=())
def plus(a: Tensor, b: Tensor) -> Tensor:
    return a + b


@torch.library.custom_op("demo::plus.out", mutates_args={"out"}, tags=torch.Tag.out)
def plus_out(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    return torch.add(a, b, out=out)
""",
        _OP
        + """
@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0) -> Tensor:
    return x * k


@torch.library.custom_op("demo::scale_out", mutates_args={"out"}, tags=torch.Tag.out)
def scale_out(x: Tensor, k: float = 2.0, *, out: Tensor) -> Tensor:
    return torch.mul(x, k, out=out)
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("scale(Tensor x, float k=2.0) -> Tensor")
lib.define("scale.out(Tensor x, float k=2.0, *, Tensor(a!) out) -> ()")
""",
    ),
)
