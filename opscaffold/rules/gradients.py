"""Tensors that surely require a gradient, as far as one function or module says so."""

from __future__ import annotations

import ast

from opscaffold.rules.functions import AnyFunction, own_nodes
from opscaffold.source.model import Module
from opscaffold.source.nodes import walk

# Methods and functions of torch whose result has a gradient where their first argument has one.
_CARRYING = frozenset(
    {"abs", "add", "bmm", "clamp", "clone", "contiguous", "cos", "div", "exp", "expand", "flatten"}
    | {"float", "gelu", "log", "log_softmax", "matmul", "mean", "mm", "mul", "neg", "permute"}
    | {"pow", "relu", "reshape", "sigmoid", "silu", "sin", "softmax", "sqrt", "square", "squeeze"}
    | {"sub", "sum", "t", "tanh", "transpose", "unsqueeze", "view", "rsqrt", "chunk", "linear"}
)


def requires_grad(
    module: Module, scope: AnyFunction | None, value: ast.expr, call: ast.Call
) -> bool:
    """Whether a tensor that requires a gradient surely goes into a value, in this scope."""
    holder: ast.AST = scope if scope is not None else module.tree
    known = _parameters(module, holder)
    for node in own_nodes(holder):
        if isinstance(node, ast.stmt) and _position(node) > _position(call):
            continue
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr="requires_grad")]):
                on = isinstance(node.value, ast.Constant) and node.value.value is True
                known = known | {name} if on else known - {name}
            case ast.Assign(targets=[ast.Name(id=name)], value=made):
                has = _makes_grad(made) or _carried(made) & known
                known = known | {name} if has else known - {name}
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
                if _makes_grad(node.value):
                    known = known | {name}
    return _makes_grad(value) or bool(_carried(value) & known)


def _parameters(module: Module, scope: ast.AST) -> frozenset[str]:
    """The attributes of ``self`` that the class of a method makes as ``nn.Parameter``."""
    holder = module.parents.get(scope)
    if not isinstance(holder, ast.ClassDef):
        return frozenset()
    return frozenset(
        f"self.{name}"
        for node in walk(holder)
        for name in [_made_parameter(node)]
        if name is not None
    )


def _made_parameter(node: ast.AST) -> str | None:
    match node:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call() as made
        ) if _is_parameter(made):
            return name
    return None


def _is_parameter(made: ast.Call) -> bool:
    name = made.func.attr if isinstance(made.func, ast.Attribute) else None
    name = made.func.id if isinstance(made.func, ast.Name) else name
    off = any(
        k.arg == "requires_grad" and not (isinstance(k.value, ast.Constant) and k.value.value)
        for k in made.keywords
    )
    return name == "Parameter" and not off and len(made.args) < 2


def _makes_grad(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[], keywords=[]):
            return True
        case ast.Call(keywords=keywords):
            asked = any(
                k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value
                for k in keywords
            )
            return asked or _is_parameter(value)
    return False


def _carried(value: ast.expr) -> frozenset[str]:
    """The names whose gradient is in an expression: arithmetic and functions that carry it."""
    match value:
        case ast.Name(id=name):
            return frozenset({name})
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return frozenset({f"self.{name}"})
        case ast.BinOp(left=left, right=right):
            return _carried(left) | _carried(right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _carried(operand)
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args) if name in _CARRYING:
            return _carried(owner).union(*(_carried(a) for a in args))
    return frozenset()


def _position(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
