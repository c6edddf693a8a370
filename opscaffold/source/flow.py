"""Which of several bindings of a name a use of it can see."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from opscaffold.source.scopes import Binding, How, Kind, Scope, Scopes, Step

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_DEFINING = frozenset({How.FUNCTION, How.CLASS, How.IMPORT, How.FROM_IMPORT})


def reaching(
    scopes: Scopes, owner: Scope, bindings: Sequence[Binding], use: ast.AST
) -> list[Binding]:
    """Return the bindings of a name in ``owner`` that may hold where ``use`` reads it.

    Empty where none can: the name is then unbound there, or, in a class body, one from outside.
    """
    bindings = [binding for binding in bindings if binding.how is not How.DECLARED]
    scope = scopes.of(use)
    if scope is None or _runs_later(scope, owner):
        # What is no node of the module, such as a quoted annotation, is read at any time.
        return settled(bindings)
    at = (getattr(use, "lineno", 0), getattr(use, "col_offset", 0))
    path = scopes.path(use, owner.node)
    live: list[Binding] = []
    for binding in bindings:
        again = _share_loop(binding.path, path)
        if binding.elsewhere or again:
            live.append(binding)
        elif binding.position <= at and not _exclusive(binding.path, path):
            if path[: len(binding.path)] == binding.path:
                # It always runs on the way to the use: nothing bound earlier is left.
                live = [b for b in live if b.elsewhere or _share_loop(b.path, path)]
            live.append(binding)
    return live


def settled(bindings: Sequence[Binding]) -> list[Binding]:
    """Return the bindings that a reader outside the scope's own flow may see.

    A definition or import that always runs replaces what came before it. A plain assignment
    does not count as such: who reads the name, and when, is not known.
    """
    live: list[Binding] = []
    for binding in bindings:
        if not binding.path and not binding.elsewhere and binding.how in _DEFINING:
            live = [b for b in live if b.elsewhere]
        live.append(binding)
    return live


def _runs_later(scope: Scope, owner: Scope) -> bool:
    current: Scope | None = scope
    while current is not None and current is not owner:
        if current.kind is Kind.FUNCTION:
            return True
        current = current.parent
    return False


def _share_loop(one: tuple[Step, ...], other: tuple[Step, ...]) -> bool:
    for (node, branch), step in zip(one, other, strict=False):
        if step != (node, branch):
            return False
        if isinstance(node, _LOOPS) and branch == "body":
            return True
    return False


def _exclusive(one: tuple[Step, ...], other: tuple[Step, ...]) -> bool:
    """Say whether two places stand in branches of one statement that never both run."""
    for (node, branch), (other_node, other_branch) in zip(one, other, strict=False):
        if node is not other_node:
            return False
        if branch == other_branch:
            continue
        if isinstance(node, (ast.If, ast.IfExp, ast.Match)):
            return True
        # Of a try, the body runs before any of its handlers and before its else.
        return isinstance(node, ast.Try) and "body" not in (branch, other_branch)
    return False
