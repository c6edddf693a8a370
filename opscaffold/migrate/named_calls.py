"""The calls of a module by the last name that they are written with, looked for once a module."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from opscaffold.source.model import Module

_FOUND: WeakKeyDictionary[ast.AST, dict[str, list[ast.Call]]] = WeakKeyDictionary()


def calls_named(module: Module, name: str) -> Sequence[ast.Call]:
    """The calls ``name(...)`` and ``anything.name(...)`` in a module, outer ones first."""
    if module.tree not in _FOUND:
        found: dict[str, list[ast.Call]] = {}
        for node in module.parents:
            if type(node) is ast.Call:
                func = node.func
                if isinstance(func, ast.Attribute):
                    found.setdefault(func.attr, []).append(node)
                elif isinstance(func, ast.Name):
                    found.setdefault(func.id, []).append(node)
        _FOUND[module.tree] = found
    return _FOUND[module.tree].get(name, ())
