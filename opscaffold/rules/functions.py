"""Looking into functions: their parameters, what they return, and what an expression denotes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.nodes import children
from opscaffold.source.project import Project

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Every node of a function's body, in order of the text; inner functions are left out."""
    body = [function.body] if isinstance(function, ast.Lambda) else getattr(function, "body", [])
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack += reversed(children(node))


def returned(function: AnyFunction) -> list[ast.expr]:
    """The expressions a function returns; a bare ``return`` is left out."""
    if isinstance(function, ast.Lambda):
        return [function.body]
    return [n.value for n in own_nodes(function) if isinstance(n, ast.Return) and n.value]


def is_generator(function: AnyFunction) -> bool:
    """Whether calling the function runs nothing yet."""
    if isinstance(function, ast.AsyncFunctionDef):
        return True
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for n in own_nodes(function))


def positional_names(function: AnyFunction) -> list[str]:
    """The names of the parameters that may be passed by position."""
    return [a.arg for a in (*function.args.posonlyargs, *function.args.args)]


def is_method(module: Module, function: AnyFunction) -> bool:
    """Whether a function stands in a class, and so may take ``self`` first."""
    return isinstance(module.parents.get(function), ast.ClassDef)


def function_of(
    project: Project, module: Module, expr: ast.expr
) -> tuple[Module, AnyFunction] | None:
    """The function that an expression denotes, where that is sure."""
    if isinstance(expr, ast.Lambda):
        return module, expr
    if not isinstance(expr, ast.Name | ast.Attribute):
        return None
    target = project.resolve(module, expr).certain
    if target is None or target.module is None:
        return None
    if isinstance(target.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return target.module, target.node
    return None


def enclosing_function(module: Module, node: ast.AST) -> FunctionNode | ast.Lambda | None:
    """The innermost function around a node, None at module level."""
    parent = module.parents.get(node)
    while parent is not None:
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return parent
        parent = module.parents.get(parent)
    return None
