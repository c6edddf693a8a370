"""Applying the changes of one file to its text."""

from __future__ import annotations

from bisect import bisect_left

import libcst as cst

from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.import_torch import with_torch_import
from opscaffold.migrate.pieces import Piece
from opscaffold.migrate.rewrite import Rewriter
from opscaffold.migrate.syntax import Syntax

# Nodes whose spans take in all that is in them. A decorator stands ahead of its function.
_CLOSED = (cst.SimpleStatementLine, cst.BaseSmallStatement, cst.BaseExpression)


def rewrite(syntax: Syntax, edits: FileEdits) -> str:
    """Return the text of a file with its changes applied; all else stays as it is.

    Only the pieces that change are taken apart and printed. ``refuse_unreadable`` says whether
    that can be done.
    """
    if _takes_from_class(syntax, edits):
        return rewrite(syntax.whole, edits)
    large, small = _touched(syntax, edits)
    trees = {index: syntax.tree(index).visit(_Narrow(syntax, edits)) for index in large}
    if edits.import_torch:
        index, tree = with_torch_import(syntax, trees)
        trees[index] = tree
    made = [(syntax.pieces[index], tree) for index, tree in trees.items()]
    made += [(piece, tree.visit(_Narrow(syntax, edits))) for piece, tree in small]
    text = syntax.rewritten(made)
    return rewrite(syntax.whole, edits) if text is None else text


def refuse_unreadable(syntax: Syntax, edits: FileEdits) -> None:
    """Read what is rewritten for these changes.

    Raises SyntaxMismatchError where libcst does not do for it.
    """
    if _takes_from_class(syntax, edits):
        refuse_unreadable(syntax.whole, edits)
        return
    for index in _touched(syntax, edits)[0]:
        syntax.tree(index)
    if edits.import_torch:
        with_torch_import(syntax)


def _touched(syntax: Syntax, edits: FileEdits) -> tuple[set[int], list[tuple[Piece, cst.Module]]]:
    """The pieces that change, and the statements of others that do and can be read alone."""
    if edits.import_torch:
        return {syntax.index(key) for key in edits.places()}, []
    # What stands above these may go with them.
    large = {syntax.index(k) for k in (*edits.statements, *edits.removed, *edits.behind)}
    small: dict[int, tuple[int, tuple[Piece, cst.Module]]] = {}
    for key in edits.places():
        index = syntax.index(key)
        statement = None if index in large else syntax.statement(key)
        if statement is None:
            large.add(index)
        else:
            small[statement[0].start] = index, statement
    return large, [statement for index, statement in small.values() if index not in large]


def _takes_from_class(syntax: Syntax, edits: FileEdits) -> bool:
    """Whether a class that is read in parts loses a statement, and may be left with none."""
    return any(syntax.pieces[syntax.index(key)].inner for key in edits.removed)


class _Narrow(Rewriter):
    """Passes over what holds no change, which is most of a function."""

    def __init__(self, syntax: Syntax, edits: FileEdits) -> None:
        super().__init__(syntax, edits)
        parts = [part for template in edits.expressions.values() for part in template.parts]
        self._places = sorted(start for start, _ in (*edits.places(), *parts))

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Go into what holds a change, or may."""
        inside = super().on_visit(node)
        if not isinstance(node, _CLOSED):
            return inside
        start, end = self.key(node)
        at = bisect_left(self._places, start)
        return inside and at < len(self._places) and self._places[at] <= end
