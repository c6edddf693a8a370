"""What a class body says about its instances."""

from __future__ import annotations

import ast

from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.nodes import walk


def instance_attributes(node: ast.ClassDef) -> dict[str, list[ast.expr]]:
    """Return what the methods of a class assign to attributes of ``self`` or ``cls``."""
    found: dict[str, list[ast.expr]] = {}
    for statement in walk(node):
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id in ("self", "cls")
            ):
                found.setdefault(target.attr, []).append(statement.value)
    return found


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
