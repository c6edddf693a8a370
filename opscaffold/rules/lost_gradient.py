"""Differentiable tensors that go into an op which writes to its arguments.

A mutable or in-place op has no gradient, and PyTorch does not say so: the values arrive in the
buffer, the graph does not (FACTS section 2, S5). An out= op refuses such a call itself. Only
callers that show that gradients matter are looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import Kind, OpContract
from opscaffold.effects.trace import Effect
from opscaffold.findings.model import Finding, Severity
from opscaffold.patterns import pattern
from opscaffold.rules.autograd_functions import (
    TOPIC,
    calls_in_functions,
    gives_gradient,
    is_autograd_function,
    method_around,
)
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import contract_of
from opscaffold.rules.declared import mutated_by
from opscaffold.rules.functions import AnyFunction, enclosing_function, own_nodes, positional_names
from opscaffold.rules.gradients import requires_grad
from opscaffold.rules.kernels import all_in_sight, is_checked, kernels_of
from opscaffold.rules.uses import uses_of
from opscaffold.source.model import Module
from opscaffold.source.questions import Topic

_GUARDS = pattern(
    r"\brequires_grad\b|is_grad_enabled|no_grad|inference_mode|set_grad_enabled|\bdetach\b"
    r"|is_inference|\bdata\b"
)
_TRAINS = Topic(
    (
        *(b"requires_grad", b".backward(", b"register_autograd", b"autograd.Function"),
        *(b"nn.Parameter", b"GradScaler"),
    )
)
# Names of tensors that hold places, flags or lengths, and never need a gradient.
_NOT_FLOAT = pattern(
    r"(^|_)(id|ids|idx|index|indices|indptr|mask|slot|slots|mapping|len|lens|length|lengths|pos"
    r"|position|positions|offset|offsets|table|tables|count|counts|seqlens?|perm|order|labels?)\d*$"
)


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report calls that hand a tensor with a gradient, or a public caller's, to the op."""
    contract = contract_of(facts.project, facts.op)
    if contract is None or contract.kind not in {Kind.MUTABLE, Kind.INPLACE}:
        return
    if gives_gradient(facts.op) or _is_traced(facts):
        return
    floating = [p.name for p in contract.parameters if p.is_tensor_like]
    floating = [name for name in floating if not _NOT_FLOAT.search(name)]
    changed = _updated(facts)
    flows = [name for name in floating if name not in contract.mutated or name in changed]
    if not flows:
        return
    uses = uses_of(facts.project)
    covered = _covered(facts)
    for module in uses.modules(facts.project, facts.op, _TRAINS):
        for call in uses.calls(facts.project, facts.op, module):
            if module.path in facts.project.selected and not _is_settled(facts, module, call):
                given = [(n, v) for n, v in _given(call, contract) if n in floating]
                finding = _surely_lost(facts, module, call, given)
                if finding is None and not covered:
                    passed = [(n, v) for n, v in given if n in flows]
                    finding = _perhaps_lost(facts, module, call, passed)
                if finding is not None:
                    yield finding


def _surely_lost(
    facts: OpFacts, module: Module, call: ast.Call, given: list[tuple[str, ast.expr]]
) -> Finding | None:
    scope = enclosing_function(module, call)
    for name, value in given:
        if requires_grad(module, scope, value, call):
            return RULE.finding(
                module,
                value,
                f"`{name}` requires a gradient here, and the op has none: the values arrive in "
                f"{_written(facts)}, the graph does not, and the gradient is wrong without an "
                "error",
                op=facts.op.qualname,
            )
    return None


def _perhaps_lost(
    facts: OpFacts, module: Module, call: ast.Call, given: list[tuple[str, ast.expr]]
) -> Finding | None:
    wrapper = _public_wrapper(module, enclosing_function(module, call))
    if wrapper is None or _serves_function(facts, module, wrapper):
        return None
    own = {*positional_names(wrapper), *(a.arg for a in wrapper.args.kwonlyargs)}
    passed = [name for name, value in given if isinstance(value, ast.Name) and value.id in own]
    if not passed:
        return None
    return RULE.finding(
        module,
        call,
        f"`{wrapper.name}` takes whatever it is given for `{passed[0]}`: if that requires a "
        f"gradient, it is lost in {_written(facts)} without an error",
        op=facts.op.qualname,
        severity=Severity.INFO,
    )


def _written(facts: OpFacts) -> str:
    return ", ".join(f"`{n}`" for n in sorted(mutated_by(facts) or ()))


def _updated(facts: OpFacts) -> set[str]:
    """The arguments whose new values are made of their old ones."""
    return {
        kernel.declared.get(own, own)
        for kernel in kernels_of(facts)
        for own, mutation in kernel.effects.mutations.items()
        if any(e.effect is Effect.UPDATE and not e.covered for e in mutation.events)
    }


def _is_traced(facts: OpFacts) -> bool:
    """Whether autograd sees what the kernel does: low-level ones that are all torch code."""
    if is_checked(facts) or not all_in_sight(facts):
        return False
    return not any(kernel.effects.opaque for kernel in kernels_of(facts))


def _is_settled(facts: OpFacts, module: Module, call: ast.Call) -> bool:
    """Whether gradients are dealt with where the call stands, or further out."""
    if _guarded(module, call) or _is_registered(facts, enclosing_function(module, call)):
        return True
    around = method_around(module, call)
    return around is not None and is_autograd_function(facts.project, module, around[1])


def _covered(facts: OpFacts) -> bool:
    """Whether an autograd.Function of the project calls the op."""
    uses = uses_of(facts.project)
    for module in uses.modules(facts.project, facts.op, TOPIC):
        for call in uses.calls(facts.project, facts.op, module):
            around = method_around(module, call)
            if around is not None and is_autograd_function(facts.project, module, around[1]):
                return True
    return False


def _serves_function(facts: OpFacts, module: Module, wrapper: ast.FunctionDef) -> bool:
    """Whether an autograd.Function beside a wrapper calls it."""
    return any(
        isinstance(call.func, ast.Name) and call.func.id == wrapper.name
        for call in calls_in_functions(facts.project, module)
    )


def _public_wrapper(module: Module, scope: AnyFunction | None) -> ast.FunctionDef | None:
    """The function, where anyone may call it."""
    if not isinstance(scope, ast.FunctionDef) or scope.name.startswith(("_", "test")):
        return None
    return scope if module.parents.get(scope) is module.tree else None


def _given(call: ast.Call, contract: OpContract) -> list[tuple[str, ast.expr]]:
    positional = [p.name for p in contract.parameters if not p.kw_only]
    pairs: list[tuple[str, ast.expr]] = []
    for name, value in zip(positional, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        pairs.append((name, value))
    pairs += [(k.arg, k.value) for k in call.keywords if k.arg is not None]
    return pairs


def _guarded(module: Module, node: ast.AST) -> bool:
    """Whether something around the call deals with gradients."""
    parent: ast.AST | None = node
    while parent is not None:
        if isinstance(parent, ast.With | ast.AsyncWith):
            if any(_GUARDS.search(ast.unparse(item)) for item in parent.items):
                return True
        elif isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = parent.decorator_list
            if any(_GUARDS.search(ast.unparse(d)) for d in decorators):
                return True
            tests = [n for n in own_nodes(parent) if isinstance(n, ast.If | ast.Assert | ast.Call)]
            for test in tests:
                looked = test.func if isinstance(test, ast.Call) else test.test
                if _GUARDS.search(ast.unparse(looked)):
                    return True
        parent = module.parents.get(parent)
    return False


def _is_registered(facts: OpFacts, scope: AnyFunction | None) -> bool:
    """Whether the caller is itself a kernel or a formula: autograd is settled further out."""
    if scope is None:
        return False
    return any(
        scope is registration.function
        for op in facts.project.all_ops
        for registration in (op.definition, *op.attached)
    )


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::add_into", mutates_args=("total",))
def add_into(total: Tensor, x: Tensor) -> None:
    total.add_(x)

"""

_INPLACE = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::scale_", mutates_args=("x",), tags=torch.Tag.inplace)
def scale_(x: Tensor, by: float) -> Tensor:
    return x.mul_(by)

"""

RULE = Rule(
    code="OPS506",
    name="lost-gradient",
    severity=Severity.WARNING,
    summary="A tensor that needs a gradient goes into an op that writes to its arguments.",
    why="A mutable or in-place op has no gradient, and PyTorch does not refuse the call: the "
    "values arrive in the buffer, the graph ends there. Training goes on with a gradient that is "
    "wrong or zero.",
    remedy="use a functional op with register_autograd there, or raise in a wrapper where grad "
    "mode is on and an input requires a gradient",
    of_op=check,
    asks=(_TRAINS.question,),
    hits=(
        _OP
        + """
weight = torch.ones(3, requires_grad=True)
total = torch.zeros(3)
add_into(total, weight * 2)
""",
        _OP
        + """
def step(total: Tensor) -> None:
    weight = torch.ones(3).requires_grad_()
    scaled = weight * 0.5
    torch.ops.demo.add_into(total, scaled)
""",
        _OP
        + """
def accumulate(total: Tensor, x: Tensor) -> None:
    add_into(total, x)


def train(loss: Tensor) -> None:
    loss.backward()
""",
        _INPLACE
        + """
weight = torch.ones(3, requires_grad=True)
hidden = weight * 1
scale_(hidden, 2.0)
hidden.sum().backward()
""",
        _INPLACE
        + """
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.exp(self.weight).view(-1)
        return x @ torch.ops.demo.scale_(hidden, 2.0)
""",
    ),
    misses=(
        _OP
        + """
weight = torch.ones(3, requires_grad=True)
total = torch.zeros(3)
with torch.no_grad():
    add_into(total, weight * 2)
add_into(total, weight.detach())
weight = torch.zeros(3)
add_into(total, weight)
""",
        _OP
        + """
def accumulate(total: Tensor, x: Tensor) -> None:
    if torch.is_grad_enabled() and x.requires_grad:
        raise RuntimeError("not differentiable")
    add_into(total, x)
""",
        _OP
        + """
def accumulate(total: Tensor, x: Tensor) -> None:
    add_into(total, x)
""",
        """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2


double.register_autograd(lambda ctx, grad: grad * 2)
result = double(torch.ones(3, requires_grad=True))
""",
        _INPLACE
        + """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        ctx.mark_dirty(x)
        return scale_(x, by)

    @staticmethod
    def backward(ctx, grad):
        return scale_(grad.clone(), ctx.by), None


def scaled_(x: Tensor, by: float) -> Tensor:
    return Scale.apply(x, by)


def plain_scaled_(x: Tensor, by: float) -> Tensor:
    return scale_(x, by)
""",
        _INPLACE
        + """
def scaled_(x: Tensor, by: float) -> Tensor:
    if x.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("not differentiable")
    return scale_(x, by)


weight = torch.ones(3, requires_grad=True)
scale_(weight.detach(), 2.0)
scale_((weight > 0).float(), 2.0)
""",
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("add_into(Tensor(a!) total, Tensor x) -> ()")


@torch.library.impl(lib, "add_into", "CPU")
def add_into(total, x):
    total.add_(x)


weight = torch.ones(3, requires_grad=True)
torch.ops.demo.add_into(torch.zeros(3), weight * 2)
""",
    ),
)
