"""Adding to and removing from comma-separated lists without losing their layout or comments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

Item = TypeVar("Item", bound=cst.CSTNode)

_Lines = cst.ParenthesizedWhitespace
_TRAILING = {"Arg": "whitespace_after_arg", "Param": "whitespace_after_param"}


def remove_at(items: Sequence[Item], index: int) -> list[Item]:
    """Drop one item, with the comments above and behind it; all others keep theirs.

    What stood behind the last item stays behind the new last one.
    """
    rest = [*items[:index], *items[index + 1 :]]
    if rest and index == len(items) - 1:
        rest[-1] = _as_last(rest[-1], items[-1])
    elif index > 0:
        rest[index - 1] = _leading_to_next(items[index - 1], items[index])
    return rest


def append(items: Sequence[Item], item: Item) -> list[Item]:
    """Add an item at the end, laid out as the ones before it."""
    return insert_after(items, len(items) - 1, item)


def insert_after(items: Sequence[Item], index: int, item: Item) -> list[Item]:
    """Add an item behind the one at ``index`` (-1: at the head of an empty list)."""
    if not items:
        return [item]
    before = items[index]
    if index == len(items) - 1:
        return [*items[:-1], _as_inner(before, items), _as_last(item, before)]
    comma = _comma(before)
    if not isinstance(comma, cst.Comma):
        comma = _separator(items)
    # Comments above the next item stay above it.
    before = before.with_changes(comma=_with_space(comma, _only_behind(comma.whitespace_after)))
    placed = item.with_changes(comma=_with_space(comma, _only_above(comma.whitespace_after)))
    return [*items[:index], before, placed, *items[index + 1 :]]


def comments_of(items: Sequence[Item], index: int) -> bool:
    """Whether a comment stands above or behind an item that is not the first."""
    item, field = items[index], _TRAILING.get(type(items[index]).__name__, "")
    behind = (getattr(_comma(item), "whitespace_after", None), getattr(item, field, None))
    above = getattr(_comma(items[index - 1]), "whitespace_after", None) if index else None
    return any(isinstance(s, _Lines) and s.first_line.comment for s in behind) or (
        isinstance(above, _Lines) and any(line.comment for line in above.empty_lines)
    )


def lines_above(items: Sequence[Item], index: int) -> Sequence[cst.EmptyLine]:
    """The comment and blank lines above an item that is not the first."""
    space = getattr(_comma(items[index - 1]), "whitespace_after", None) if index else None
    return space.empty_lines if isinstance(space, _Lines) else ()


def without_lines_below(items: Sequence[Item]) -> list[Item]:
    """The items without the comment and blank lines between the last of them and what follows."""
    if not items or not isinstance(_comma(items[-1]), cst.Comma):
        return list(items)
    comma = cst.ensure_type(_comma(items[-1]), cst.Comma)
    last = items[-1].with_changes(comma=_with_space(comma, _only_behind(comma.whitespace_after)))
    return [*items[:-1], last]


def _comma(item: cst.CSTNode) -> cst.Comma | cst.MaybeSentinel:
    comma: cst.Comma | cst.MaybeSentinel = item.comma  # type: ignore[attr-defined]
    return comma


def _with_space(comma: cst.Comma, space: cst.BaseParenthesizableWhitespace) -> cst.Comma:
    return comma.with_changes(whitespace_after=space)


def _only_behind(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    """The space without the lines above what follows."""
    return space.with_changes(empty_lines=()) if isinstance(space, _Lines) else space


def _only_above(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    """The space without the comment behind what precedes."""
    if not isinstance(space, _Lines) or space.first_line.comment is None:
        return space
    first = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return space.with_changes(first_line=first)


def _separator(items: Sequence[Item]) -> cst.Comma:
    """The comma between items of this list, without any comment."""
    for item in items[:-1]:
        comma = _comma(item)
        if isinstance(comma, cst.Comma):
            return cst.Comma(whitespace_after=_only_behind(_only_above(comma.whitespace_after)))
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _leading_to_next(item: Item, removed: Item) -> Item:
    """The item before a removed one: the lines above the next item now follow it."""
    mine, its = _comma(item), _comma(removed)
    if not isinstance(mine, cst.Comma) or not isinstance(its, cst.Comma):
        return item
    own, following = mine.whitespace_after, its.whitespace_after
    lines = following.empty_lines if isinstance(following, _Lines) else ()
    if isinstance(own, _Lines):
        space: cst.BaseParenthesizableWhitespace = own.with_changes(empty_lines=lines)
    elif isinstance(following, _Lines) and any(line.comment for line in lines):
        space = _only_above(following)
    else:
        space = own
    return item.with_changes(comma=_with_space(mine, space))


def _as_inner(item: Item, items: Sequence[Item]) -> Item:
    """The formerly last item, with the comma of an inner one; its comment stays with it."""
    separator = _separator(items)
    comment = comment_behind(item)
    if comment is not None:
        inner = separator.whitespace_after
        if isinstance(inner, _Lines):
            last_line = inner.last_line
        else:
            last_line = cst.SimpleWhitespace("    ")
        space = comment.with_changes(last_line=last_line, empty_lines=())
        separator = separator.with_changes(whitespace_after=space)
    changes: dict[str, object] = {"comma": separator}
    field = _TRAILING.get(type(item).__name__)
    if field is not None:
        changes[field] = cst.SimpleWhitespace("")
    return item.with_changes(**changes)


def _as_last(item: Item, last: Item) -> Item:
    """The item laid out as the last one of its list was; its own comment stays with it."""
    comma = _comma(last)
    field = _TRAILING.get(type(item).__name__)
    behind = cst.SimpleWhitespace("") if field is None else getattr(last, field)
    closing = comma.whitespace_after if isinstance(comma, cst.Comma) else behind
    comment = comment_behind(item)
    if comment is not None:
        lines = closing.empty_lines if isinstance(closing, _Lines) else ()
        indent = closing.last_line if isinstance(closing, _Lines) else cst.SimpleWhitespace("")
        comma = cst.Comma(
            whitespace_after=comment.with_changes(empty_lines=lines, last_line=indent)
        )
        behind = cst.SimpleWhitespace("")
    elif isinstance(comma, cst.Comma):
        comma = _with_space(comma, _only_above(comma.whitespace_after))
    else:
        behind = _only_above(behind)
    changes: dict[str, object] = {"comma": comma}
    if field is not None:
        changes[field] = behind
    return item.with_changes(**changes)


def comment_behind(item: cst.CSTNode) -> cst.ParenthesizedWhitespace | None:
    """The space that holds the comment on the item's own line, if there is one."""
    field = _TRAILING.get(type(item).__name__, "")
    for space in (getattr(_comma(item), "whitespace_after", None), getattr(item, field, None)):
        if isinstance(space, _Lines) and space.first_line.comment is not None:
            return space
    return None
