"""Applying the changes of one file to its text."""

from __future__ import annotations

from bisect import bisect_left

import libcst as cst

from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.import_torch import with_torch_import
from opscaffold.migrate.rewrite import Rewriter
from opscaffold.migrate.syntax import Syntax


def rewrite(syntax: Syntax, edits: FileEdits) -> str:
    """Return the text of a file with its changes applied; all else stays as it is.

    Only the pieces that change are taken apart and printed. Raises SyntaxMismatchError where
    libcst does not do for one of them.
    """
    touched = {syntax.index(key) for key in edits.places()}
    text: str | None = None
    if not any(syntax.pieces[syntax.index(key)].inner for key in edits.removed):
        trees = {i: syntax.tree(i).visit(_Narrow(syntax, edits)) for i in touched}
        if edits.import_torch:
            index, tree = with_torch_import(syntax, trees)
            trees[index] = tree
        text = syntax.rewritten(trees)
    # A class that loses a statement may be left with none.
    return rewrite(syntax.whole(), edits) if text is None else text


class _Narrow(Rewriter):
    """Passes over the simple statements that hold no change, which are most of a function."""

    def __init__(self, syntax: Syntax, edits: FileEdits) -> None:
        super().__init__(syntax, edits)
        self._places = sorted(start for start, _ in edits.places())

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Go into what holds a change, or may."""
        inside = super().on_visit(node)
        if not isinstance(node, cst.SimpleStatementLine):
            return inside
        start, end = self.key(node)
        at = bisect_left(self._places, start)
        return inside and at < len(self._places) and self._places[at] <= end
