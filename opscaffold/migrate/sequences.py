"""Adding to and removing from comma-separated lists without losing their layout or comments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

Item = TypeVar("Item", bound=cst.CSTNode)

_TRAILING = {"Arg": "whitespace_after_arg", "Param": "whitespace_after_param"}


def remove_at(items: Sequence[Item], index: int) -> list[Item]:
    """Drop one item. What stood behind the last item stays behind the new last one."""
    rest = [*items[:index], *items[index + 1 :]]
    if index == len(items) - 1 and rest:
        rest[-1] = _as_last(rest[-1], items[-1])
    return rest


def append(items: Sequence[Item], item: Item) -> list[Item]:
    """Add an item at the end, laid out as the ones before it."""
    return insert_after(items, len(items) - 1, item)


def insert_after(items: Sequence[Item], index: int, item: Item) -> list[Item]:
    """Add an item behind the one at ``index`` (-1: at the head of an empty list)."""
    if not items:
        return [item]
    before = items[index]
    if index < len(items) - 1:
        placed = item.with_changes(comma=_plain(_comma(before), items))
        return [*items[: index + 1], placed, *items[index + 1 :]]
    last = _as_last(item, before)
    return [*items[:-1], _as_inner(before, items), last]


def _comma(item: cst.CSTNode) -> cst.Comma | cst.MaybeSentinel:
    comma: cst.Comma | cst.MaybeSentinel = item.comma  # type: ignore[attr-defined]
    return comma


def _separator(items: Sequence[Item]) -> cst.Comma:
    """The comma between items of this list."""
    for item in items[:-1]:
        comma = _comma(item)
        if isinstance(comma, cst.Comma):
            return _without_comment(comma)
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _without_comment(comma: cst.Comma) -> cst.Comma:
    space = comma.whitespace_after
    if isinstance(space, cst.ParenthesizedWhitespace):
        first = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
        return cst.Comma(whitespace_after=space.with_changes(first_line=first, empty_lines=()))
    return comma


def _plain(comma: cst.Comma | cst.MaybeSentinel, items: Sequence[Item]) -> cst.Comma:
    return _without_comment(comma) if isinstance(comma, cst.Comma) else _separator(items)


def _as_inner(item: Item, items: Sequence[Item]) -> Item:
    """The formerly last item, with the comma of an inner one; its comment stays with it."""
    separator = _separator(items)
    comma = _comma(item)
    if isinstance(comma, cst.Comma):
        space, inner = comma.whitespace_after, separator.whitespace_after
        if isinstance(space, cst.ParenthesizedWhitespace) and space.first_line.comment:
            last_line = (
                inner.last_line
                if isinstance(inner, cst.ParenthesizedWhitespace)
                else cst.SimpleWhitespace("    ")
            )
            separator = comma.with_changes(whitespace_after=space.with_changes(last_line=last_line))
    changes: dict[str, object] = {"comma": separator}
    field = _TRAILING.get(type(item).__name__)
    if field is not None:
        changes[field] = cst.SimpleWhitespace("")
    return item.with_changes(**changes)


def _as_last(item: Item, last: Item) -> Item:
    """The item laid out as the last one of its list was; its own comment stays with it."""
    comma, mine = _comma(last), _comma(item)
    commented = False
    if isinstance(mine, cst.Comma):
        own = mine.whitespace_after
        if isinstance(own, cst.ParenthesizedWhitespace) and own.first_line.comment:
            commented = True
            closing = _closing_space(last)
            comma = mine.with_changes(
                whitespace_after=own.with_changes(last_line=closing, empty_lines=())
            )
    if not commented and isinstance(comma, cst.Comma):
        # A comment belongs to the item it was written behind.
        comma = _without_comment(comma)
    changes: dict[str, object] = {"comma": comma}
    field = _TRAILING.get(type(item).__name__)
    if field is not None:
        changes[field] = cst.SimpleWhitespace("") if commented else getattr(last, field)
    return item.with_changes(**changes)


def _closing_space(last: cst.CSTNode) -> cst.SimpleWhitespace:
    """The indentation before the closing bracket."""
    for space in (
        getattr(getattr(last, "comma", None), "whitespace_after", None),
        getattr(last, _TRAILING.get(type(last).__name__, ""), None),
    ):
        if isinstance(space, cst.ParenthesizedWhitespace):
            return space.last_line
    return cst.SimpleWhitespace("")
