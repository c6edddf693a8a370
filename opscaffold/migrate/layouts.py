"""How what a function returns is laid out, as far as the call that makes it tells."""

from __future__ import annotations

import ast
import enum

from opscaffold.rules.functions import AnyFunction, own_nodes, returned

_SIZED = frozenset({"empty", "zeros", "ones", "full"})
_LIKE = frozenset({"empty_like", "zeros_like", "ones_like", "full_like"})
_NEW = frozenset({"new_empty", "new_zeros", "new_ones", "new_full"})


class Layout(enum.Enum):
    """CONTIGUOUS on every input, the LAYOUT of some argument, or what cannot be told."""

    CONTIGUOUS = "contiguous"
    LIKE = "as an argument"
    UNKNOWN = "unknown"


def layouts_of(function: AnyFunction, count: int) -> list[Layout]:
    """The layout of each of a function's returns, the same on all its paths or unknown."""
    met: list[set[Layout]] = [set() for _ in range(count)]
    for value in returned(function):
        for index, part in enumerate(_parts(function, value, count)):
            met[index].add(_layout(function, part))
    return [found.pop() if len(found) == 1 else Layout.UNKNOWN for found in met]


def made_by(function: AnyFunction, index: int, count: int) -> ast.Call | None:
    """The one call that makes what is returned at a place, None where there are several."""
    values = returned(function)
    if len(values) != 1:
        return None
    parts = _parts(function, values[0], count)
    found = resolved(function, parts[index]) if len(parts) == count else None
    return found if isinstance(found, ast.Call) else None


def is_like(call: ast.Call) -> bool:
    """Whether a call makes a tensor laid out as its first argument."""
    return _name(call) in _LIKE and all(k.arg != "memory_format" for k in call.keywords)


def _parts(function: AnyFunction, value: ast.expr, count: int) -> list[ast.expr]:
    value = resolved(function, value) if count > 1 else value
    if count == 1:
        return [value]
    if isinstance(value, ast.Tuple) and len(value.elts) == count:
        return value.elts
    return []


def _layout(function: AnyFunction, expr: ast.expr) -> Layout:
    expr = resolved(function, expr)
    if isinstance(expr, ast.IfExp):
        arms = {_layout(function, expr.body), _layout(function, expr.orelse)}
        return arms.pop() if len(arms) == 1 else Layout.UNKNOWN
    if not isinstance(expr, ast.Call):
        return Layout.UNKNOWN
    formats = [k.value for k in expr.keywords if k.arg == "memory_format"]
    strided = any(k.arg in {"layout", "names", "out"} for k in expr.keywords)
    name = _name(expr)
    if formats:
        word = formats[0].attr if isinstance(formats[0], ast.Attribute) else ""
        known = name in _LIKE | {"clone", "contiguous", "empty"}
        return Layout.CONTIGUOUS if known and word == "contiguous_format" else Layout.UNKNOWN
    if strided:
        return Layout.UNKNOWN
    if name in _NEW | _SIZED or (name == "contiguous" and not expr.args):
        return Layout.CONTIGUOUS
    if name not in _LIKE:
        return Layout.UNKNOWN
    like = expr.args[0] if expr.args else None
    dense = isinstance(like, ast.Name) and resolved(function, like) is not like
    if dense and like is not None and _layout(function, like) is Layout.CONTIGUOUS:
        return Layout.CONTIGUOUS
    return Layout.LIKE


def resolved(function: AnyFunction, expr: ast.expr) -> ast.expr:
    """What a name that is bound once stands for."""
    spec = function.args
    given = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    if not isinstance(expr, ast.Name) or expr.id in given:
        return expr
    bound = [
        n
        for n in own_nodes(function)
        if isinstance(n, ast.Name) and n.id == expr.id and isinstance(n.ctx, ast.Store)
    ]
    values = [
        n.value
        for n in own_nodes(function)
        if isinstance(n, ast.Assign)
        and len(n.targets) == 1
        and isinstance(n.targets[0], ast.Name)
        and n.targets[0].id == expr.id
    ]
    return values[0] if len(bound) == len(values) == 1 else expr


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
