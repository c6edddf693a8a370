"""Differentiable tensors that go into an op which writes its result into a buffer.

A mutable op that returns nothing has no gradient, and PyTorch does not say so: the values arrive
in the buffer, the graph does not (FACTS section 2, S5). Only such ops are looked at, and only
callers that show that gradients matter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from opscaffold.contract.model import Kind, OpContract
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import contract_of
from opscaffold.rules.functions import AnyFunction, enclosing_function, own_nodes, positional_names
from opscaffold.rules.uses import uses_of
from opscaffold.source.model import Module
from opscaffold.source.nodes import walk

_GUARDS = re.compile(
    r"\brequires_grad\b|is_grad_enabled|no_grad|inference_mode|set_grad_enabled|\bdetach\b"
    r"|is_inference|\bdata\b"
)
_TRAINS = re.compile(
    r"requires_grad|\.backward\(|register_autograd|autograd\.Function|nn\.Parameter|GradScaler"
)
# Names of tensors that hold places, flags or lengths, and never need a gradient.
_NOT_FLOAT = re.compile(
    r"(^|_)(id|ids|idx|index|indices|indptr|mask|slot|slots|mapping|len|lens|length|lengths|pos"
    r"|position|positions|offset|offsets|table|tables|count|counts|seqlens?|perm|order|labels?)\d*$"
)


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report calls that hand a tensor with a gradient, or a public caller's, to the op."""
    contract = contract_of(facts.project, facts.op)
    if contract is None or contract.kind is not Kind.MUTABLE or contract.returns:
        return
    read = [p.name for p in contract.parameters if p.is_tensor_like and not p.mutated]
    written = ", ".join(f"`{n}`" for n in contract.mutated)
    read = [name for name in read if not _NOT_FLOAT.search(name)]
    if not read:
        return
    uses = uses_of(facts.project)
    for module in uses.modules(facts.project, facts.op, _TRAINS.pattern):
        for call in uses.calls(facts.project, facts.op, module):
            if module.path in facts.project.selected:
                yield from _of_call(facts, module, call, _given(call, contract, read), written)


def _of_call(
    facts: OpFacts,
    module: Module,
    call: ast.Call,
    given: list[tuple[str, ast.expr]],
    written: str,
) -> Iterator[Finding]:
    scope = enclosing_function(module, call)
    if _guarded(module, call) or _is_registered(facts, scope):
        return
    for name, value in given:
        if _requires_grad(module, scope, value, call):
            yield RULE.finding(
                module,
                value,
                f"`{name}` requires a gradient here, and the op writes it into {written}: the "
                "values arrive, the gradient is lost without an error",
                op=facts.op.qualname,
            )
            return
    wrapper = _public_wrapper(module, scope)
    if wrapper is None:
        return
    own = {*positional_names(wrapper), *(a.arg for a in wrapper.args.kwonlyargs)}
    passed = [name for name, value in given if isinstance(value, ast.Name) and value.id in own]
    if passed:
        yield RULE.finding(
            module,
            call,
            f"`{wrapper.name}` takes whatever it is given for `{passed[0]}`: if that requires a "
            f"gradient, it is lost in {written} without an error",
            op=facts.op.qualname,
            severity=Severity.INFO,
        )


def _public_wrapper(module: Module, scope: AnyFunction | None) -> ast.FunctionDef | None:
    """The function, where anyone may call it."""
    if not isinstance(scope, ast.FunctionDef) or scope.name.startswith(("_", "test")):
        return None
    return scope if module.parents.get(scope) is module.tree else None


def _given(call: ast.Call, contract: OpContract, wanted: list[str]) -> list[tuple[str, ast.expr]]:
    positional = [p.name for p in contract.parameters if not p.kw_only]
    pairs: list[tuple[str, ast.expr]] = []
    for name, value in zip(positional, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        pairs.append((name, value))
    pairs += [(k.arg, k.value) for k in call.keywords if k.arg is not None]
    return [(name, value) for name, value in pairs if name in wanted]


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


def _requires_grad(
    module: Module, scope: AnyFunction | None, value: ast.expr, call: ast.Call
) -> bool:
    """Whether a tensor that requires a gradient surely goes into a value, in this scope."""
    holder: ast.AST = scope if scope is not None else module.tree
    with_grad: set[str] = set()
    for node in own_nodes(holder):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=made):
                if (node.lineno, node.col_offset) > (call.lineno, call.col_offset):
                    continue
                if _makes_grad(made) or (_carries(made) and _names(made) & with_grad):
                    with_grad.add(name)
                else:
                    with_grad.discard(name)
    return _makes_grad(value) or (_carries(value) and bool(_names(value) & with_grad))


def _makes_grad(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[], keywords=[]):
            return True
        case ast.Call(keywords=keywords):
            return any(
                k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value
                for k in keywords
            )
    return False


def _carries(value: ast.expr) -> bool:
    """Whether the gradient of what goes into an expression is in what comes out: arithmetic."""
    return all(
        isinstance(n, ast.Name | ast.BinOp | ast.UnaryOp | ast.Constant) for n in walk(value)
    ) and not isinstance(value, ast.Constant)


def _names(value: ast.expr) -> set[str]:
    return {n.id for n in walk(value) if isinstance(n, ast.Name)}


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::add_into", mutates_args=("total",))
def add_into(total: Tensor, x: Tensor) -> None:
    total.add_(x)

"""

RULE = Rule(
    code="OPS506",
    name="lost-gradient",
    severity=Severity.WARNING,
    summary="A tensor that needs a gradient goes into an op that writes it into a buffer.",
    why="A mutable op has no gradient, and PyTorch does not refuse the call: the values arrive in "
    "the buffer, the graph ends there. Training goes on with a gradient that is wrong or zero.",
    remedy="use a functional op with register_autograd there, or raise in a wrapper where grad "
    "mode is on and an input requires a gradient",
    of_op=check,
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
    ),
)
