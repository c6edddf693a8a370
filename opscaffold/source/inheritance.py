"""The methods of a class, those of its bases in sight included."""

from __future__ import annotations

import ast

from opscaffold.source.classes import class_of_self, first_parameter, method
from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.resolve import Resolver

_MAX_DEPTH = 8
Method = tuple[Module, FunctionNode]


def find_method(
    resolver: Resolver, module: Module, node: ast.ClassDef, name: str, depth: int = 0
) -> Method | None:
    """Return the method that an object of a class has under a name, and where it stands."""
    own = method(node, name)
    if own is not None:
        return module, own
    return inherited_method(resolver, module, node, name, depth)


def inherited_method(
    resolver: Resolver, module: Module, node: ast.ClassDef, name: str, depth: int = 0
) -> Method | None:
    """Return the method that the bases of a class give its objects under a name."""
    if depth > _MAX_DEPTH:
        return None
    for base in node.bases:
        for target in resolver.resolve(module, base).targets:
            if target.module is not None and isinstance(target.node, ast.ClassDef):
                found = find_method(resolver, target.module, target.node, name, depth + 1)
                if found is not None:
                    return found
    return None


def super_method(resolver: Resolver, module: Module, node: ast.Attribute) -> Method | None:
    """Return the method that ``super().name`` in a method stands for; None for what is not that."""
    call = node.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    called = resolver.resolve(module, call.func).certain
    if called is None or called.dotted != "builtins.super":
        return None
    around: ast.AST | None = module.parents.get(node)
    while around is not None:
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = first_parameter(around)
            positional = (*around.args.posonlyargs, *around.args.args)
            holder = class_of_self(module, positional[0]) if first is not None else None
            if holder is not None:
                return inherited_method(resolver, module, holder, node.attr)
        around = module.parents.get(around)
    return None
