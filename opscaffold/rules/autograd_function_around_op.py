"""An autograd.Function that calls an op, which could have carried the formula itself.

Source: torch.library reference, register_autograd.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import Kind
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.autograd_functions import (
    TOPIC,
    gives_gradient,
    is_autograd_function,
    method_around,
)
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import contract_of
from opscaffold.rules.uses import uses_of
from opscaffold.source.model import Module, Op, Role
from opscaffold.source.project import Project


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report each autograd.Function whose forward calls a functional op without autograd."""
    op = facts.op
    if op.definition.role is Role.TRITON_OP or gives_gradient(op):
        return
    contract = contract_of(facts.project, op)
    if contract is None or contract.kind is not Kind.FUNCTIONAL or not contract.returns:
        return
    for module, holder in _holders(facts.project, op):
        yield RULE.finding(
            module,
            holder,
            f"`{holder.name}` gives `{op.qualname}` a gradient from outside: whoever calls the op "
            "itself gets none, and opcheck does not test the formula",
            op=op.qualname,
        )


def _holders(project: Project, op: Op) -> Iterator[tuple[Module, ast.ClassDef]]:
    uses = uses_of(project)
    for module in uses.modules(project, op, TOPIC):
        if module.path not in project.selected:
            continue
        found = [_function_class(project, module, n) for n in uses.calls(project, op, module)]
        for holder in dict.fromkeys(h for h in found if h is not None):
            yield module, holder


def _function_class(project: Project, module: Module, node: ast.AST) -> ast.ClassDef | None:
    """The autograd.Function in whose forward a node stands."""
    around = method_around(module, node)
    if around is None or around[0].name != "forward":
        return None
    return around[1] if is_autograd_function(project, module, around[1]) else None


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::cube", mutates_args=())
def cube(x: Tensor) -> Tensor:
    return x.pow(3)

"""

RULE = Rule(
    code="OPS504",
    name="autograd-function-around-op",
    severity=Severity.INFO,
    summary="An autograd.Function calls an op that could have the gradient formula itself.",
    why="The op alone has no gradient: a call of it by torch.ops raises in .backward(), and "
    "opcheck cannot test the formula. Registered on the op, the formula holds for every caller, "
    "in eager mode and compiled.",
    remedy="register backward and setup_context with register_autograd, and call the op",
    of_op=check,
    asks=(TOPIC.question,),
    hits=(
        _OP
        + """
cube.register_fake(torch.empty_like)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return cube(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x
""",
        _OP
        + """
from torch.autograd import Function


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.ops.demo.cube(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("cube(Tensor x) -> Tensor")
lib.impl("cube", lambda x: x.pow(3), "CPU")


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = torch.ops.demo.cube.default(x)
        ctx.save_for_backward(x)
        return result
""",
    ),
    misses=(
        _OP
        + """
cube.register_autograd(lambda ctx, grad: grad)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return cube(x)
""",
        _OP
        + """
class Cube(torch.nn.Module):
    def forward(self, x):
        return cube(x)
""",
        _OP
        + """
class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.pow(2)

    @staticmethod
    def backward(ctx, grad):
        return cube(grad)
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("cube(Tensor x) -> Tensor")
lib.impl("cube", lambda x: x.pow(3), "CompositeImplicitAutograd")


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.ops.demo.cube(x)
""",
        """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::store", mutates_args={"out"})
def store(x: Tensor, out: Tensor) -> None:
    out.copy_(x)


class Store(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        store(x, out)
        return out
""",
    ),
)
