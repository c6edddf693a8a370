"""What a class body says about its instances."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.nodes import walk


def instance_attributes(node: ast.ClassDef) -> dict[str, list[ast.expr]]:
    """Return what the methods of a class assign to attributes of ``self`` or ``cls``."""
    found: dict[str, list[ast.expr]] = {}
    for statement in walk(node):
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target, value in (pair for each in targets for pair in _pairs(each, statement.value)):
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id in ("self", "cls")
            ):
                found.setdefault(target.attr, []).append(value)
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what an assignment to one target assigns to what, where both are written out."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
    elif isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            if isinstance(one, ast.Starred) or isinstance(other, ast.Starred):
                return
            yield from _pairs(one, other)


def first_parameter(function: FunctionNode) -> str | None:
    """Return the name of a function's first positional parameter."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    return arguments[0].arg if arguments else None


def class_of_self(module: Module, parameter: ast.AST) -> ast.ClassDef | None:
    """Return the class of whose methods a parameter is the first one, ``self`` or ``cls``."""
    function = module.parents.get(module.parents.get(parameter, parameter))
    if not isinstance(parameter, ast.arg) or not isinstance(
        function, (ast.FunctionDef, ast.AsyncFunctionDef)
    ):
        return None
    holder = module.parents.get(function)
    first = first_parameter(function) == parameter.arg
    return holder if isinstance(holder, ast.ClassDef) and first else None


def method(node: ast.ClassDef, name: str) -> FunctionNode | None:
    """Return the last method of a name that stands in a class body."""
    found: FunctionNode | None = None
    for statement in node.body:
        if (
            isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
            and statement.name == name
        ):
            found = statement
    return found


def is_property(function: FunctionNode) -> bool:
    """Say whether reading a method as an attribute calls it."""
    return any(
        (d.id if isinstance(d, ast.Name) else d.attr if isinstance(d, ast.Attribute) else "")
        in ("property", "cached_property")
        for d in function.decorator_list
    )
