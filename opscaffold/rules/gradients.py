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
# Layers of torch.nn whose weight requires a gradient unless something takes it away.
_LAYERS = frozenset(
    {"Linear", "Bilinear", "Embedding", "EmbeddingBag", "LayerNorm", "GroupNorm", "RMSNorm"}
    | {f"{kind}{n}d" for kind in ("Conv", "ConvTranspose", "BatchNorm") for n in (1, 2, 3)}
)


def requires_grad(
    module: Module, scope: AnyFunction | None, value: ast.expr, call: ast.Call
) -> bool:
    """Whether a tensor that requires a gradient surely goes into a value, in this scope."""
    holder: ast.AST = scope if scope is not None else module.tree
    known = _parameters(module, holder) | _of_module(module, scope)
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
    """What of ``self`` is an ``nn.Parameter``: made as one, or a weight of a layer of torch."""
    holder = module.parents.get(scope)
    if not isinstance(holder, ast.ClassDef):
        return frozenset()
    bound = {name for node in walk(holder) if (name := _bound_attribute(node)) is not None}
    found = {f"self.{name}" for node in walk(holder) if (name := _made_parameter(node)) is not None}
    if any(_layer(base) for base in holder.bases) and "weight" not in bound:
        found.add("self.weight")
    for node in walk(holder):
        name = _bound_attribute(node)
        made = getattr(node, "value", None)
        if name is not None and isinstance(made, ast.Call) and _layer(made.func):
            found.add(f"self.{name}.weight")
    return frozenset(found) if not _freezes(holder) else frozenset()


def _of_module(module: Module, scope: AnyFunction | None) -> frozenset[str]:
    """Names of a module, as a function sees them, that are bound once to what has a gradient."""
    if scope is None:
        return frozenset()
    spec = scope.args
    own = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg) if a}
    stored = [n.id for n in walk(module.tree) if isinstance(n, ast.Name) and _is_stored(n)]
    found = {
        statement.targets[0].id
        for statement in module.tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and _makes_grad(statement.value)
    }
    kept = {name for name in found - own if stored.count(name) == 1}
    return frozenset(kept) if kept and not _freezes(module.tree) else frozenset()


def _is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _layer(expr: ast.expr) -> bool:
    """Whether an expression names a layer of torch that has a weight to train."""
    name = expr.attr if isinstance(expr, ast.Attribute) else getattr(expr, "id", "")
    return name in _LAYERS


def _bound_attribute(node: ast.AST) -> str | None:
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
            return name
    return None


def _freezes(holder: ast.AST) -> bool:
    """Whether something in a class or module may take the gradients of its tensors away."""
    for node in walk(holder):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="requires_grad_"), args=[*args], keywords=[*more]
            ):
                if args or more:
                    return True
            case ast.Assign(targets=[ast.Attribute(attr="requires_grad")]):
                return True
    return False


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
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=layer), attr=name):
            return frozenset({f"self.{layer}.{name}"})
        case ast.BinOp(left=left, right=right):
            return _carried(left) | _carried(right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _carried(operand)
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args) if name in _CARRYING:
            return _carried(owner).union(*(_carried(a) for a in args))
    return frozenset()


def _position(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
