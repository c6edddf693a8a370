"""The names a module declares in ``__all__``."""

from __future__ import annotations

import ast

from opscaffold.source.model import Module


def export_nodes(module: Module) -> list[ast.Constant] | None:
    """Return the strings of ``__all__`` in order; None where it is absent or computed."""
    found: list[ast.Constant] = []
    seen = False
    for statement in module.tree.body:
        value = _all_value(statement)
        if value is None:
            continue
        seen = True
        if not isinstance(value, (ast.List, ast.Tuple)):
            return None
        for element in value.elts:
            if not (isinstance(element, ast.Constant) and isinstance(element.value, str)):
                return None
            found.append(element)
    return found if seen else None


def exported_names(module: Module) -> set[str] | None:
    """Return the names in ``__all__``; None where it is absent or computed."""
    nodes = export_nodes(module)
    return None if nodes is None else {str(node.value) for node in nodes}


def _all_value(statement: ast.stmt) -> ast.expr | None:
    """Return what a statement puts into ``__all__``, or None where it is about something else."""
    if isinstance(statement, ast.Assign):
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in statement.targets):
            return statement.value
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        if isinstance(statement.target, ast.Name) and statement.target.id == "__all__":
            return statement.value
    elif (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Attribute)
        and isinstance(statement.value.func.value, ast.Name)
        and statement.value.func.value.id == "__all__"
        and len(statement.value.args) == 1
    ):
        argument = statement.value.args[0]
        if statement.value.func.attr == "extend":
            return argument
        if statement.value.func.attr == "append":
            return ast.List(elts=[argument], ctx=ast.Load())
    return None
