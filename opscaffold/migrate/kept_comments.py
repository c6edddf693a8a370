"""Keeping the comments of a statement whose calls change.

A call is written anew in many ways, and each has gaps between its tokens that it drops. Whatever
comment is not in the new statement is put above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import libcst as cst

from opscaffold.migrate.sequences import comment_behind, lines_above
from opscaffold.migrate.syntax import code_of

_Lines = cst.ParenthesizedWhitespace


class KeptComments:
    """The comments of statements within one another, of which some calls change."""

    def __init__(self) -> None:
        self._frames: list[list[cst.Comment] | None] = []

    def enter(self) -> None:
        """Begin with a statement, or with those on the line of a compound one."""
        self._frames.append(None)

    def watch(self) -> None:
        """A call of the innermost statement changes.

        A lambda that is rewritten by itself is in no statement.
        """
        if self._frames:
            self._frames[-1] = self._frames[-1] or []

    def leave(self, old: cst.CSTNode, new: Any, made: int) -> Any:
        """What a statement became, with the comments above it that it has lost.

        ``made`` says how many statements stand in front of what is left of it.
        """
        above = self._frames.pop()
        if above is None or isinstance(new, cst.RemovalSentinel):
            return new
        above += _lost(old, new, made)
        if isinstance(old, cst.SimpleStatementSuite):
            # Nothing can stand above it: it is on the line of a compound statement.
            if above:
                self._frames[-1] = [*(self._frames[-1] or []), *above]
            return new
        return _with_comments_above(new, above) if above else new


def _lost(old: cst.CSTNode, new: Any, made: int) -> list[cst.Comment]:
    """The comments of a statement that are not in what it became.

    The blocks of a compound statement are left out: their statements are looked at by themselves.
    """
    nodes = list(new) if isinstance(new, cst.FlattenSentinel) else [new]
    simple = isinstance(old, cst.SimpleStatementLine | cst.SimpleStatementSuite)
    kept: Counter[str] = Counter()
    for index, node in enumerate(nodes):
        whole = simple or index < made
        kept.update(comment.value for comment in _comments(node, whole=whole))
    missing = []
    for comment in _comments(old, whole=simple):
        if kept[comment.value]:
            kept[comment.value] -= 1
        else:
            missing.append(comment)
    return missing


def _comments(node: cst.CSTNode, *, whole: bool) -> Iterator[cst.Comment]:
    """The comments of a node in order; those of the blocks in it only where ``whole``."""
    left = [node]
    while left:
        node = left.pop()
        if isinstance(node, cst.Comment):
            yield node
        elif whole or not isinstance(node, cst.BaseSuite):
            left += reversed(node.children)


def _with_comments_above(new: Any, comments: Iterable[cst.Comment]) -> Any:
    """What a statement became, with comments on lines of their own above it."""
    nodes = list(new) if isinstance(new, cst.FlattenSentinel) else [new]
    lines = [*nodes[0].leading_lines, *(cst.EmptyLine(comment=c) for c in comments)]
    nodes[0] = nodes[0].with_changes(leading_lines=lines)
    return cst.FlattenSentinel(nodes) if len(nodes) > 1 else nodes[0]


def is_commented_inside(parentheses: Sequence[cst.LeftParen | cst.RightParen]) -> bool:
    """Whether a comment stands inside parentheses, next to one of them."""
    return any(next(_comments(part, whole=True), None) for part in parentheses)


def without_commented_parentheses(value: cst.BaseExpression) -> cst.BaseExpression:
    """An expression that is written once more, without the comments around it."""
    if not is_commented_inside((*value.lpar, *value.rpar)):
        return value
    plain: dict[str, Any] = {"lpar": [], "rpar": []}
    bare = value.with_changes(**plain)
    if "\n" in code_of(bare):
        plain = {"lpar": [cst.LeftParen()], "rpar": [cst.RightParen()]}
    return value.with_changes(**plain)


def with_comments_of(call: cst.Call, old: cst.Call, index: int) -> cst.Call:
    """A call without one argument of the old call, with the argument's comments in its place.

    Where the next argument, or the closing bracket, is on the same line, there is no place.
    """
    opening, item = old.whitespace_before_args, old.args[index]
    above = lines_above(old.args, index)
    before: Any = opening
    if index:
        comma = old.args[index - 1].comma
        before = comma.whitespace_after if isinstance(comma, cst.Comma) else None
    elif isinstance(opening, _Lines):
        above = opening.empty_lines
    behind = comment_behind(item)
    if not call.args or not isinstance(before, _Lines):
        return call
    lines = list(above) if any(line.comment for line in above) else []
    if behind is not None:
        lines.append(cst.EmptyLine(whitespace=before.last_line, comment=behind.first_line.comment))
    if not lines:
        return call
    if index == 0:
        space = call.whitespace_before_args
        if isinstance(space, _Lines):
            space = space.with_changes(empty_lines=[*lines, *space.empty_lines])
        return call.with_changes(whitespace_before_args=space)
    args = list(call.args)
    comma = args[index - 1].comma
    gap = comma.whitespace_after if isinstance(comma, cst.Comma) else None
    if not isinstance(comma, cst.Comma) or not isinstance(gap, _Lines):
        return call
    gap = gap.with_changes(empty_lines=[*lines, *gap.empty_lines])
    args[index - 1] = args[index - 1].with_changes(comma=comma.with_changes(whitespace_after=gap))
    return call.with_changes(args=args)
