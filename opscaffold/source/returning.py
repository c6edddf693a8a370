"""What a function gives back where its tests are known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from opscaffold.source.nodes import walk

Decide = Callable[[ast.expr], bool | None]


def returned(body: Sequence[ast.stmt], decide: Decide) -> ast.expr | None:
    """Return the expression that running a body surely returns; None where that is not sure.

    ``decide`` tells the truth of a test, None where it is not known.
    """
    found = _first(body, decide)
    return found.value if isinstance(found, ast.Return) else None


def statements_before(parent: ast.AST, node: ast.AST) -> Sequence[ast.stmt]:
    """Return the statements that run before one, in the same block of its parent."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and node in block:
            return block[: block.index(node)]
    return ()


def ends_where(statement: ast.stmt, decide: Decide) -> bool:
    """Say whether an ``if`` is surely taken, and surely returns or raises where it is."""
    if not isinstance(statement, ast.If):
        return False
    answer = decide(statement.test)
    if answer is None:
        return False
    last = (statement.body if answer else statement.orelse)[-1:]
    return bool(last) and isinstance(last[0], (ast.Return, ast.Raise))


def _first(body: Sequence[ast.stmt], decide: Decide) -> ast.stmt | None:
    """Return the first statement that surely ends the body, or may end it in a way unknown."""
    for statement in body:
        match statement:
            case ast.Return() | ast.Raise():
                return statement
            case ast.If(test=test, body=then, orelse=otherwise):
                answer = decide(test)
                if answer is None:
                    if _may_end(statement):
                        return statement
                    continue
                ended = _first(then if answer else otherwise, decide)
            case ast.With(body=inner):
                ended = _first(inner, decide)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case _:
                ended = statement if _may_end(statement) else None
        if ended is not None:
            return ended
    return None


def _may_end(statement: ast.stmt) -> bool:
    return any(isinstance(node, (ast.Return, ast.Raise)) for node in walk(statement))
