"""Adding ``import torch`` among the imports of a file."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from opscaffold.migrate.syntax import Syntax


def with_torch_import(
    syntax: Syntax, trees: Mapping[int, cst.Module] | None = None
) -> tuple[int, cst.Module]:
    """The piece of a file that ``import torch`` goes into, and the piece with it.

    That is behind the docstring, ``__future__`` and first import lines. ``trees`` are the pieces
    that changed already. Raises SyntaxMismatchError where libcst does not do for a piece before.
    """
    known = trees or {}
    place, at, seen = 0, 0, 0
    for index, piece in enumerate(syntax.pieces):
        tree = known[index] if index in known else syntax.tree(index)
        # What is put before a piece is one statement.
        first = 1 if piece.before else 0
        for number, statement in enumerate(tree.body[first:], start=first):
            if not _is_import(statement, first=seen == 0):
                return place, _with_line(known.get(place) or syntax.tree(place), at)
            place, at, seen = index, number + 1, seen + 1
    return place, _with_line(known.get(place) or syntax.tree(place), at)


def _is_import(statement: cst.CSTNode, *, first: bool) -> bool:
    """Whether a line imports; the first of a file may be a docstring as well."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    small = statement.body[0]
    return isinstance(small, cst.Import | cst.ImportFrom) or (first and isinstance(small, cst.Expr))


def _with_line(tree: cst.Module, at: int) -> cst.Module:
    line = cst.ensure_type(cst.parse_statement("import torch\n"), cst.SimpleStatementLine)
    return tree.with_changes(body=[*tree.body[:at], line, *tree.body[at:]])
