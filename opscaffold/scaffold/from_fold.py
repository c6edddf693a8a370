"""A function as it is in one way to call it: the tests folded that the way decides."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import Any

from opscaffold.effects.trace import Trace
from opscaffold.scaffold.from_spec import CLONE, DROP, KEEP


def folded(
    function: ast.FunctionDef, trace: Trace, absent: Sequence[str], results: Sequence[str]
) -> str:
    """The text of a function without the ``absent`` parameters, and with what it returns.

    ``results`` says what becomes of each result: one that is dropped is not returned, one that
    is cloned is returned as a clone. Comments are lost: this is for deriving a fake kernel.
    """
    made = _Folder(trace.decided(), trace, frozenset(absent)).fold(function)
    made.decorator_list = []
    made.args = without(function.args, absent)
    made.returns = None
    _Returns(results).visit(made)
    return ast.unparse(ast.fix_missing_locations(made))


def without(spec: ast.arguments, absent: Sequence[str]) -> ast.arguments:
    """Parameters without some of them, annotations and defaults left away."""
    names = [a.arg for a in spec.args if a.arg not in absent]
    keywords = [a.arg for a in spec.kwonlyargs if a.arg not in absent]
    return ast.arguments(
        [],
        [ast.arg(n) for n in names],
        None,
        [ast.arg(n) for n in keywords],
        [None for _ in keywords],
        None,
        [],
    )


class _Folder:
    """Copies statements, and leaves out the branches that are not taken."""

    def __init__(
        self, decided: Mapping[ast.expr, bool], trace: Trace, absent: frozenset[str]
    ) -> None:
        self.decided = decided
        self.trace = trace
        self.absent = absent

    def fold(self, function: ast.FunctionDef) -> ast.FunctionDef:
        made = copy.copy(function)
        made.body = self.block(function.body) or [ast.Pass()]
        return made

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for node in body:
            found += self.statement(node)
            if found and isinstance(found[-1], ast.Return | ast.Raise):
                break
        return found

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.If):
            outcome = self.decided.get(node.test)
            if outcome is not None and self._is_about_absent(node.test):
                return self.block(node.body if outcome else node.orelse)
        made: Any = copy.copy(node)
        for key, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(made, key, self.block(value) or [ast.Pass()])
            elif isinstance(value, list):
                setattr(made, key, [self.part(v) for v in value])
            else:
                setattr(made, key, self.part(value))
        return [made]

    def part(self, value: Any) -> Any:
        if isinstance(value, ast.expr):
            return self.expression(value)
        if isinstance(value, ast.AST):
            made: Any = copy.copy(value)
            for key, inner in ast.iter_fields(value):
                parts = (
                    [self.part(v) for v in inner] if isinstance(inner, list) else self.part(inner)
                )
                setattr(made, key, parts)
            return made
        return value

    def expression(self, node: ast.expr) -> Any:
        if isinstance(node, ast.IfExp) and self._is_about_absent(node.test):
            outcome = self.decided.get(node.test)
            if outcome is not None:
                return self.expression(node.body if outcome else node.orelse)
        if isinstance(node, ast.BoolOp) and len(node.values) == 2:
            chosen = self.trace.chosen.get(node)
            first = node.values[0]
            named = isinstance(first, ast.Name) and first.id in self.absent
            if named and chosen is not None and chosen == {False}:
                return self.expression(node.values[1])
        if isinstance(node, ast.BoolOp):
            # What is settled plays no part among the other operands.
            neutral = isinstance(node.op, ast.And)
            left = [v for v in node.values if not self._is_settled(v, neutral)]
            if left and len(left) < len(node.values):
                rest = ast.copy_location(ast.BoolOp(node.op, left), node)
                return self.expression(left[0] if len(left) == 1 else rest)
        made: Any = copy.copy(node)
        if isinstance(node, ast.Call):
            # To torch, ``out=None`` is no buffer.
            made.keywords = [
                k
                for k in node.keywords
                if not (k.arg == "out" and k.value in self.trace.absent_outs)
            ]
        for key, value in ast.iter_fields(made):
            if isinstance(value, list):
                setattr(made, key, [self.part(v) for v in value])
            elif isinstance(value, ast.AST):
                setattr(made, key, self.part(value))
        return made

    def _is_settled(self, operand: ast.expr, outcome: bool) -> bool:
        """Whether the way to call makes an operand come out so, each time."""
        about = any(isinstance(n, ast.Name) and n.id in self.absent for n in ast.walk(operand))
        return about and self.decided.get(operand) is outcome

    def _is_about_absent(self, test: ast.expr) -> bool:
        """Whether the way to call settles a test: one that is always so is left as it stands."""
        return any(isinstance(n, ast.Name) for n in ast.walk(test)) and bool(self.absent)


class _Returns(ast.NodeTransformer):
    """Returns what the op does."""

    def __init__(self, results: Sequence[str]) -> None:
        self.results = results

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Look into the function itself alone."""
        node.body = [self.visit(s) if isinstance(s, ast.stmt) else s for s in node.body]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """A lambda returns nothing of the function's."""
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """Leave out what is dropped, and clone what is cloned."""
        value = node.value
        if value is None or all(r == KEEP for r in self.results):
            return node
        if len(self.results) == 1:
            return ast.Return(_cloned(value) if self.results[0] == CLONE else value)
        if not isinstance(value, ast.Tuple) or len(value.elts) != len(self.results):
            return node
        parts = [
            _cloned(part) if action == CLONE else part
            for part, action in zip(value.elts, self.results, strict=True)
            if action != DROP
        ]
        return ast.Return(parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load()))


def _cloned(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(value, "clone", ast.Load()), [], [])
