"""Backward formulas that take or return the wrong number of gradients, or return a list of them.

Source: FACTS section 3: one gradient for each positional argument of the schema, in a tuple.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import BaseType, OpContract
from opscaffold.effects import aten
from opscaffold.findings.model import Finding, Severity
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.functions import (
    AnyFunction,
    is_generator,
    is_method,
    own_nodes,
    positional_names,
    returned,
)
from opscaffold.source.model import Role

# Methods and torch functions that return one tensor. In-place methods do as well.
_ONE_TENSOR = frozenset(
    {"mul", "add", "sub", "div", "neg", "sum", "mean", "matmul", "mm", "bmm", "where", "exp", "log"}
    | {"pow", "sign", "sigmoid", "tanh", "cos", "sin", "clone", "contiguous", "to", "float", "half"}
    | {"t", "transpose", "permute", "reshape", "view", "view_as", "expand", "expand_as", "flatten"}
    | {"unsqueeze", "squeeze", "zeros_like", "ones_like", "empty_like", "full_like", "zeros"}
    | {"new_zeros", "new_empty", "new_ones", "masked_fill", "index_add", "index_select", "gather"}
    | {"scatter_add", "cat", "stack", "einsum", "outer", "detach", "type_as", "softmax", "flip"}
)


def check(facts: OpFacts) -> Iterator[Finding]:
    """Report returns of a backward that surely do not fit the op's positional arguments."""
    contract = signature_of(facts.project, facts.op)
    if contract is None:
        return
    for registration in facts.op.attached:
        function = registration.function
        if registration.role is not Role.AUTOGRAD or function is None or is_generator(function):
            continue
        if not all(_registers(d) for d in getattr(function, "decorator_list", ())):
            continue
        module = registration.function_module or registration.module
        taken = None if is_method(module, function) else _taken(function, contract)
        if taken is not None:
            yield RULE.finding(module, function, taken, op=facts.op.qualname)
        grads = _gradients(function)
        for value in returned(function):
            found = _problem(function, value, contract, grads)
            if found is not None:
                message, severity = found
                yield RULE.finding(module, value, message, op=facts.op.qualname, severity=severity)


def _problem(
    function: AnyFunction, value: ast.expr, contract: OpContract, grads: set[str]
) -> tuple[str, Severity] | None:
    positional = [p for p in contract.parameters if not p.kw_only]
    settled = _settle(function, value)
    lists = any(not isinstance(p.type, BaseType) for p in positional)
    if isinstance(settled, ast.List | ast.ListComp) and not (lists and len(positional) == 1):
        return (
            "backward returns a list: autograd takes it for one gradient, and .backward() raises; "
            "it needs a tuple"
        ), Severity.ERROR
    count = _count(settled, grads)
    if count is None:
        return None
    names = ", ".join(p.name for p in positional)
    many = "argument" if len(positional) == 1 else "arguments"
    expected = f"the op has {len(positional)} positional {many} ({names})"
    given = f"backward returns {count} {'gradient' if count == 1 else 'gradients'}"
    if count > len(positional):
        extra = settled.elts[len(positional) :] if isinstance(settled, ast.Tuple) else []
        if all(isinstance(e, ast.Constant) and e.value is None for e in extra):
            return None
        return f"{given}, {expected}: .backward() raises", Severity.ERROR
    if count == len(positional):
        return None
    if count >= sum(p.default is None for p in positional):
        return (
            f"{given}, {expected}: it fits calls that leave the last ones out, and raises on others"
        ), Severity.WARNING
    return f"{given}, {expected}: .backward() raises", Severity.ERROR


def _taken(function: AnyFunction, contract: OpContract) -> str | None:
    """How a backward takes another number of gradients than the op has returns."""
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    passed = 1 + len(contract.returns)
    needed = len(positional) - len(spec.defaults)
    fits = needed <= passed and (spec.vararg is not None or passed <= len(positional))
    if fits or not contract.returns or not positional:
        return None
    count, given = len(contract.returns), len(positional) - 1
    return (
        f"backward takes {given} {'gradient' if given == 1 else 'gradients'}, the op returns "
        f"{count} {'value' if count == 1 else 'values'}: it is called with one gradient for each, "
        "and .backward() raises TypeError"
    )


def _gradients(function: AnyFunction) -> set[str]:
    """The parameters of a backward that are gradients all the way."""
    rebound = {
        n.id
        for n in own_nodes(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return set(positional_names(function)[1:]) - rebound


def _count(value: ast.expr, grads: set[str]) -> int | None:
    """How many gradients a returned expression surely is."""
    if isinstance(value, ast.Tuple):
        starred = any(isinstance(e, ast.Starred) for e in value.elts)
        return None if starred else len(value.elts)
    return 1 if _is_tensor(value, grads) else None


def _is_tensor(value: ast.expr, grads: set[str]) -> bool:
    match value:
        case ast.Name(id=name):
            return name in grads
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _ONE_TENSOR or (aten.is_inplace(name) and name.endswith("_"))
        case ast.BinOp(op=ast.Mult() | ast.Add(), left=left, right=right):
            # Tuples can be repeated and joined, by these operators only.
            return _is_tensor(left, grads) or _is_tensor(right, grads)
        case ast.BinOp():
            return True
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_tensor(operand, grads)
    return False


def _registers(decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(node, ast.Attribute) and node.attr == "register_autograd"


def _settle(function: AnyFunction, value: ast.expr) -> ast.expr:
    """The expression a local name stands for, where it is bound once."""
    if not isinstance(value, ast.Name):
        return value
    bound = [
        n
        for n in own_nodes(function)
        if isinstance(n, ast.Name) and n.id == value.id and not isinstance(n.ctx, ast.Load)
    ]
    values = [
        n.value
        for n in own_nodes(function)
        if isinstance(n, ast.Assign)
        and len(n.targets) == 1
        and isinstance(n.targets[0], ast.Name)
        and n.targets[0].id == value.id
    ]
    grows = any(
        isinstance(n, ast.Attribute)
        and isinstance(n.value, ast.Name)
        and n.value.id == value.id
        and n.attr in {"append", "extend", "insert"}
        for n in own_nodes(function)
    )
    if len(bound) == 1 == len(values) and (isinstance(values[0], ast.List) or not grows):
        return values[0]
    return value


_OP = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor, k: float, mode: str = "plain") -> Tensor:
    return x * k

"""

RULE = Rule(
    code="OPS503",
    name="backward-gradients",
    severity=Severity.ERROR,
    summary="The backward formula does not return one gradient for each positional argument.",
    why="autograd wants a tuple with one entry for each positional argument of the op, numbers "
    "and strings included (None for them). Another count, or a list, raises in .backward(), "
    "which opcheck does not call unless an input requires a gradient.",
    remedy="return a tuple with one gradient for each positional argument, None where there is "
    "none",
    of_op=check,
    hits=(
        _OP
        + """
def backward(ctx, grad):
    return grad * ctx.k, None


scale.register_autograd(backward)
""",
        _OP
        + """
def backward(ctx, grad):
    result = grad.new_zeros(3)
    return result.index_add_(0, ctx.rows, grad)


scale.register_autograd(backward)
""",
        _OP
        + """
@scale.register_autograd
def backward(ctx, grad):
    return [grad * ctx.k, None, None]
""",
        _OP
        + """
torch.library.register_autograd("demo::scale", lambda ctx, g: (g, None, None, g))
""",
        _OP
        + """
def backward(ctx, grad):
    grads = grad * ctx.k
    return grads


scale.register_autograd(backward)
""",
    ),
    misses=(
        _OP
        + """
def backward(ctx, grad):
    return grad * ctx.k, None, None


scale.register_autograd(backward)
""",
        _OP
        + """
def backward(ctx, grad):
    return (grad * ctx.k, *[None] * ctx.rest)


scale.register_autograd(backward)
""",
        _OP
        + """
from elsewhere import gradients


def backward(ctx, grad):
    if ctx.fast:
        return gradients(grad)
    if ctx.wide:
        return (None,) * ctx.count
    return (grad,) + (None,) * 2


scale.register_autograd(backward)
""",
        """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=())
def double(x: Tensor, *, k: float = 2.0) -> Tensor:
    return x * k


def backward(ctx, grad):
    def inner():
        return 1, 2, 3

    return grad * 2


double.register_autograd(backward)
""",
    ),
)
