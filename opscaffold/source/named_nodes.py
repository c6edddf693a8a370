"""The nodes of a module by the names they are written with.

What denotes an op is written with one of a few names. Resolving every name and attribute of a
module to find out which do takes longer than all else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from opscaffold.source.model import Module

# An expression of one of these kinds may stand for what one in it stands for.
_HANDING_ON = (ast.IfExp, ast.BoolOp, ast.NamedExpr)
_HANDING_CALLS = frozenset({"getattr", "staticmethod", "import_module"})


class NamedNodes:
    """The names, attributes, imports, calls and strings of a module that may denote an op."""

    def __init__(self, module: Module) -> None:
        self._parents = module.parents
        self._order: dict[ast.AST, int] = {}
        self._named: dict[str, list[ast.AST]] = {}
        self._strings: list[tuple[ast.Constant, str]] = []
        # Their outcome need not depend on a name that is written out.
        self._computed: list[ast.AST] = []
        for number, node in enumerate(module.parents):
            kind = type(node)
            if kind is ast.Name:
                self._take(node.id, node, number)  # type: ignore[attr-defined]
            elif kind is ast.Attribute:
                self._take(node.attr, node, number)  # type: ignore[attr-defined]
            elif isinstance(node, ast.Constant):
                if isinstance(node.value, str):
                    self._order[node] = number
                    self._take_string(node, node.value)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self._take(alias.name, node, number)
                    if alias.asname is not None:
                        self._take(alias.asname, node, number)
            elif isinstance(node, ast.Call):
                self._order[node] = number
                if isinstance(node.func, ast.Name) and node.func.id == "getattr":
                    self._computed.append(node)

    def near(self, names: Iterable[str]) -> list[ast.AST]:
        """Return the nodes written with one of the names, and those they are part of, in order."""
        found: set[ast.AST] = set(self._computed)
        wanted = set(names)
        for node in self._computed:
            self._take_holders(node, found)
        for name in wanted & self._named.keys():
            for node in self._named[name]:
                if node not in found:
                    found.add(node)
                    self._take_holders(node, found)
        found.update(n for n, text in self._strings if any(name in text for name in wanted))
        return sorted(found, key=self._order.__getitem__)

    def _take(self, name: str, node: ast.AST, number: int) -> None:
        self._order[node] = number
        self._named.setdefault(name, []).append(node)

    def _take_string(self, node: ast.Constant, text: str) -> None:
        if "::" in text or "." in text:
            self._strings.append((node, text))
        if text.isidentifier():
            # The name in `f(ops, "scale")`, which is looked at with its call.
            parent = self._parents.get(node)
            if isinstance(parent, ast.Call):
                self._named.setdefault(text, []).append(parent)

    def _take_holders(self, node: ast.AST, found: set[ast.AST]) -> None:
        """Take the attributes that are read from what a node may stand for."""
        parent = self._parents.get(node)
        while parent is not None:
            if isinstance(parent, ast.Attribute):
                found.add(parent)
            elif isinstance(parent, ast.Call):
                # What a call of a class makes has its attributes too.
                if parent.func is not node:
                    if not self._hands_on(parent):
                        return
                    found.add(parent)
            elif not isinstance(parent, _HANDING_ON):
                return
            node, parent = parent, self._parents.get(parent)

    @staticmethod
    def _hands_on(call: ast.Call) -> bool:
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else None
        if isinstance(function, ast.Name):
            name = function.id
        return name in _HANDING_CALLS
