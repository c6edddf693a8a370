"""The calls and decorators of a module by the names they are written with.

Resolving a call takes long, and nearly all calls of a module have nothing to do with ops. What a
call may stand for is among the names in it, and the names those are bound to: a call is only
looked into where one of them is of interest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.nodes import walk

_TAKEN = frozenset(
    {
        ast.Call,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
        ast.alias,
        ast.Assign,
        ast.AnnAssign,
        ast.NamedExpr,
        ast.withitem,
    }
)
Decorated = tuple[ast.expr, FunctionNode]


class CallIndex:
    """The calls of one module, in the order of ``module.parents``."""

    def __init__(self, module: Module) -> None:
        self.with_mutates_args: list[ast.Call] = []
        self._order: dict[ast.AST, int] = {}
        self._calls: dict[str, list[ast.Call]] = {}
        self._decorators: dict[str, list[Decorated]] = {}
        # The names that are bound to something which is written with a name.
        self._others: dict[str, set[str]] = {}
        self._bound: set[str] = set()
        for number, node in enumerate(module.parents):
            if type(node) not in _TAKEN:
                continue
            if isinstance(node, ast.Call):
                self._order[node] = number
                for name in _names(node.func):
                    self._calls.setdefault(name, []).append(node)
                if any(keyword.arg == "mutates_args" for keyword in node.keywords):
                    self.with_mutates_args.append(node)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for decorator in node.decorator_list:
                    self._order[decorator] = number
                    for name in _names(decorator):
                        self._decorators.setdefault(name, []).append((decorator, node))
            else:
                self._take_binding(node)

    def calls(self, names: Iterable[str]) -> list[ast.Call]:
        """Return the calls that may be of something that goes by one of the names."""
        found = {call for name in self.closure(names) for call in self._calls.get(name, ())}
        return sorted(found, key=self._order.__getitem__)

    def decorators(self, names: Iterable[str]) -> list[Decorated]:
        """Return the decorators of functions that may be one of the names, or a call of one."""
        found = {
            decorator: function
            for name in self.closure(names)
            for decorator, function in self._decorators.get(name, ())
        }
        return sorted(found.items(), key=lambda pair: self._order[pair[0]])

    def calls_matching(self, pattern: re.Pattern[str]) -> list[ast.Call]:
        """Return the calls that may be of something whose name the pattern matches."""
        return self.calls(
            {name for name in self._calls.keys() | self._others if pattern.match(name)}
        )

    def closure(self, names: Iterable[str]) -> set[str]:
        """Return the names, and those that something written with one of them is bound to."""
        found: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += self._others.get(name, ())
        return found

    def bound(self, names: Iterable[str]) -> set[str]:
        """Return what the module binds of the names, and of those bound to something of theirs."""
        return self.closure(names) & self._bound

    def _take_binding(self, node: ast.AST) -> None:
        match node:
            case ast.alias(name=name, asname=None):
                self._bound.add(name.partition(".")[0])
            case ast.alias(name=name, asname=str(other)):
                self._bound.add(other)
                self._others.setdefault(name.rpartition(".")[2], set()).add(other)
            case ast.ClassDef(name=name, bases=[_, *_] as bases):
                # What a class inherits goes by its name too.
                self._bound.add(name)
                for base in bases:
                    for other in _written(base):
                        self._others.setdefault(other, set()).add(name)
            case ast.Assign(targets=targets, value=value):
                self._take(targets, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._take([target], value)
            case ast.NamedExpr(target=target, value=value):
                self._take([target], value)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._take([target], value)

    def _take(self, targets: list[ast.expr], value: ast.expr) -> None:
        bound = {name for target in targets for name in _bound(target)}
        if bound:
            self._bound |= bound
            for name in _written(value):
                self._others.setdefault(name, set()).update(bound)


def _bound(target: ast.expr) -> Iterator[str]:
    for node in walk(target):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _names(function: ast.expr) -> Iterable[str]:
    """Yield the names by one of which a called expression must go."""
    if isinstance(function, ast.Name):
        return (function.id,)
    if isinstance(function, ast.Attribute):
        return (function.attr,)
    return set(_written(function))


def _written(value: ast.expr) -> Iterator[str]:
    """Yield the names in an expression, and the strings that may be names."""
    for node in walk(value):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.isidentifier()
        ):
            yield node.value
