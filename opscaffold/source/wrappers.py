"""Functions that hand all they are given on to another, and what that one returns back."""

from __future__ import annotations

import ast

from opscaffold.source.frames import returned_values
from opscaffold.source.model import Module
from opscaffold.source.operands import DEFINITIONS
from opscaffold.source.resolve import Resolver
from opscaffold.source.scopes import How

_FUNCTIONS = (*DEFINITIONS, ast.Lambda)


def wrapped(resolver: Resolver, module: Module, node: ast.AST) -> ast.Name | None:
    """Return the parameter, of a function around it, that a function only passes calls on to.

    ``node`` is the function, or a name for it. None for a function with parameters of its own,
    and for one that returns anything else.
    """
    function = node
    if isinstance(node, ast.Name):
        target = resolver.resolve(module, node).certain
        if target is None or target.module is not module or target.node is None:
            return None
        function = target.node
    if not isinstance(function, _FUNCTIONS) or function not in module.parents:
        return None
    spec = function.args
    if spec.vararg is None or spec.posonlyargs or spec.args or spec.kwonlyargs:
        return None
    values = (
        [function.body] if isinstance(function, ast.Lambda) else list(returned_values(function))
    )
    if len(values) != 1 or not isinstance(values[0], ast.Call):
        return None
    call = values[0]
    if not isinstance(call.func, ast.Name) or not _hands_on(call, spec):
        return None
    for binding in resolver.bindings_of(module, call.func):
        owner = module.parents.get(module.parents.get(binding.node, module.tree))
        if binding.how is not How.PARAMETER or owner is function:
            return None
    return call.func if resolver.bindings_of(module, call.func) else None


def _hands_on(call: ast.Call, spec: ast.arguments) -> bool:
    match call.args:
        case [ast.Starred(value=ast.Name(id=name))]:
            given = spec.vararg is not None and name == spec.vararg.arg
        case _:
            return False
    match call.keywords:
        case []:
            return given and spec.kwarg is None
        case [ast.keyword(arg=None, value=ast.Name(id=name))]:
            return given and spec.kwarg is not None and name == spec.kwarg.arg
    return False
