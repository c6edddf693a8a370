"""Where a given buffer keeps old contents that a kernel defines when the buffer is omitted.

An out= op decides every element of its out= argument. A kernel that allocates zeros and writes a
part of them does so only where it allocates: a buffer that it is given keeps the rest.
"""

from __future__ import annotations

import ast

from opscaffold.effects.trace import MUTATIONS, Effect, FunctionNode, Returned, Trace

_CHANGES = MUTATIONS | {Effect.OPAQUE}
_Path = tuple[tuple[ast.AST, str, int], ...]
# Statements that choose what runs, or how often.
_CHOICES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.With, ast.AsyncWith)


def leftover_of(
    function: FunctionNode | ast.Lambda, given: Trace, omitted: Trace, root: str
) -> ast.AST | None:
    """A place that leaves defined parts of a buffer as they were, or None where there is none."""
    partial = [
        r
        for r in given.returns
        if root not in r.written and any(ref.root == root for ref in r.value.all_refs())
    ]
    if not partial:
        return None
    common = {e.node for e in given.on(root) if e.effect in _CHANGES}
    filled = {e.root for e in omitted.events if e.effect in _CHANGES and e.node not in common}
    undefined = omitted.undefined - filled
    decided = given.decided().keys() & omitted.decided().keys()
    paths = _paths(function, decided)
    for returned in partial:
        same = [r for r in omitted.returns if _path(r, paths) == _path(returned, paths)]
        for other in same or omitted.returns:
            roots = {ref.root for ref in other.value.all_refs()}
            if not roots <= undefined:
                return _place(given, root, returned) or function
    return None


def _place(given: Trace, root: str, returned: Returned) -> ast.AST | None:
    """The first write that leaves something, or the return that nothing is written before."""
    writes = [e for e in given.on(root) if e.effect in _CHANGES]
    parts = [e.node for e in writes if e.effect is not Effect.WRITE]
    return next(iter([*parts, *(e.node for e in writes)]), returned.node)


def _path(returned: Returned, paths: dict[ast.AST, _Path]) -> _Path:
    return () if returned.node is None else paths.get(returned.node, ())


def _paths(function: ast.AST, decided: set[ast.expr]) -> dict[ast.AST, _Path]:
    """The choices on the way to each return, without the tests that the buffer decides."""
    found: dict[ast.AST, _Path] = {}

    def visit(node: ast.AST, path: _Path) -> None:
        if isinstance(node, ast.Return):
            found[node] = path
        chooses = isinstance(node, _CHOICES) and getattr(node, "test", None) not in decided
        for name, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            for number, child in enumerate(children):
                if isinstance(child, ast.AST):
                    arm = number if name in {"handlers", "cases"} else 0
                    visit(child, (*path, (node, name, arm)) if chooses else path)

    visit(function, ())
    return found
