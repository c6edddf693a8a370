"""Items put into a list, tuple, set or dict that stands in an author's file.

What fits stays on its line; what does not is put one item a line with a trailing comma, which is
how ``ruff format`` leaves it. Comments stay with the item that they stand at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import libcst as cst

INDENT = "    "

Collection = cst.List | cst.Tuple | cst.Set | cst.Dict
Item = cst.BaseElement | cst.BaseDictElement
Whitespace = cst.BaseParenthesizableWhitespace


@dataclass(frozen=True, slots=True)
class _Opened:
    """A collection taken apart: the space behind its bracket, its items, the space before the end.

    Behind each item stands a comma, with the space that follows it; only the last may have none.
    """

    start: Whitespace
    items: tuple[Any, ...]
    end: Whitespace


def code(node: cst.CSTNode) -> str:
    """The text of a node by itself."""
    return cst.Module(()).code_for_node(node)


def item_key(item: cst.CSTNode) -> str:
    """What tells an item apart: the text of a name or a key, whatever quotes it is written in."""
    node: cst.CSTNode = item
    if isinstance(item, cst.DictElement):
        node = item.key
    elif isinstance(item, (cst.Element, cst.StarredElement, cst.StarredDictElement)):
        node = item.value
    if isinstance(node, cst.SimpleString):
        value = node.evaluated_value
        return value if isinstance(value, str) else repr(value)
    return code(node)


def items_of(node: cst.CSTNode) -> tuple[Item, ...] | None:
    """The items of a collection, None for what is none or has no brackets."""
    if isinstance(node, cst.Tuple) and not node.lpar:
        return None
    return tuple(node.elements) if isinstance(node, Collection) else None


def with_items(
    node: Collection,
    added: Sequence[Item],
    order: Sequence[str],
    flat_fits: Callable[[Collection], bool],
) -> Collection:
    """The collection with further items, each behind the one that it follows in ``order``.

    Where the items there are sorted words, the new ones are sorted in. ``flat_fits`` says whether
    the statement with the collection, on one line, fits that line.
    """
    opened = _open(node)
    one_line = "\n" not in code(node) and "\r" not in code(node)
    for item in added:
        opened = _insert(opened, _place(opened.items, item, order), item, one_line=one_line)
    if one_line:
        flat = _closed(node, opened)
        if flat_fits(flat):
            return flat
        opened = _exploded(opened)
    return _closed(node, _trailing(opened))


def _place(items: Sequence[Item], item: Item, order: Sequence[str]) -> int:
    """Where among the items a new one goes."""
    keys = [item_key(each) for each in items]
    key = item_key(item)
    if isinstance(item, cst.Element) and keys and keys == sorted(keys):
        return sum(each < key for each in keys)
    at = order.index(key)
    for before in reversed(order[:at]):
        if before in keys:
            return keys.index(before) + 1
    for behind in order[at + 1 :]:
        if behind in keys:
            return keys.index(behind)
    return len(keys)


def _open(node: Collection) -> _Opened:
    items = tuple(node.elements)
    if isinstance(node, cst.List):
        return _Opened(node.lbracket.whitespace_after, items, node.rbracket.whitespace_before)
    if isinstance(node, cst.Tuple):
        return _Opened(node.lpar[-1].whitespace_after, items, node.rpar[0].whitespace_before)
    return _Opened(node.lbrace.whitespace_after, items, node.rbrace.whitespace_before)


def _closed(node: Collection, opened: _Opened) -> Collection:
    start, end = opened.start, opened.end
    if isinstance(node, cst.List):
        return node.with_changes(
            elements=opened.items,
            lbracket=node.lbracket.with_changes(whitespace_after=start),
            rbracket=node.rbracket.with_changes(whitespace_before=end),
        )
    if isinstance(node, cst.Tuple):
        return node.with_changes(
            elements=opened.items,
            lpar=[*node.lpar[:-1], node.lpar[-1].with_changes(whitespace_after=start)],
            rpar=[node.rpar[0].with_changes(whitespace_before=end), *node.rpar[1:]],
        )
    return node.with_changes(
        elements=opened.items,
        lbrace=node.lbrace.with_changes(whitespace_after=start),
        rbrace=node.rbrace.with_changes(whitespace_before=end),
    )


def _insert(opened: _Opened, at: int, item: Item, *, one_line: bool) -> _Opened:
    items = list(opened.items)
    if one_line:
        return replace(opened, items=_flat([*items[:at], item, *items[at:]], opened.items))
    if at == 0 or not items:
        near, far = _parted(opened.start)
        # With nothing behind it, the comma is followed by the end.
        comma = cst.Comma(whitespace_after=far if items else cst.SimpleWhitespace(""))
        items.insert(0, item.with_changes(comma=comma))
        return replace(opened, start=near, items=tuple(items))
    last = items[at - 1]
    if at < len(items):
        near, far = _parted(last.comma.whitespace_after)
        items[at - 1] = last.with_changes(comma=last.comma.with_changes(whitespace_after=near))
        items.insert(at, item.with_changes(comma=cst.Comma(whitespace_after=far)))
        return replace(opened, items=tuple(items))
    return _append(opened, item)


def _append(opened: _Opened, item: Item) -> _Opened:
    """Put an item behind the last one of a collection of several lines."""
    items = list(opened.items)
    last = items[-1]
    between = opened.start if len(items) == 1 else items[-2].comma.whitespace_after
    trailing = isinstance(last.comma, cst.Comma)
    end = opened.end
    if isinstance(between, cst.ParenthesizedWhitespace) and trailing:
        if isinstance(end, cst.ParenthesizedWhitespace):
            # What is written behind the last item, and on the lines below, stays above the new one.
            gap: Whitespace = between.with_changes(
                first_line=end.first_line, empty_lines=end.empty_lines
            )
            end = _parted(end)[1].with_changes(empty_lines=())
        else:
            gap = _parted(between)[1].with_changes(empty_lines=())
    elif isinstance(between, cst.ParenthesizedWhitespace):
        gap = _parted(between)[1].with_changes(empty_lines=())
    else:
        gap = between
    items[-1] = last.with_changes(comma=cst.Comma(whitespace_after=gap))
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace("")) if trailing else _NO_COMMA
    return replace(opened, items=(*items, item.with_changes(comma=comma)), end=end)


_NO_COMMA = cst.MaybeSentinel.DEFAULT


def _parted(space: Whitespace) -> tuple[Whitespace, Any]:
    """The space up to the end of its line, and that before what follows, comments with it."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space, space
    plain = cst.TrailingWhitespace(newline=space.first_line.newline)
    return space.with_changes(empty_lines=()), space.with_changes(first_line=plain)


def _trailing(opened: _Opened) -> _Opened:
    """Put a comma behind the last item where the bracket that follows has a line of its own."""
    if not isinstance(opened.end, cst.ParenthesizedWhitespace):
        return opened
    *firsts, last = opened.items
    if isinstance(last.comma, cst.Comma):
        return opened
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(""))
    return replace(opened, items=(*firsts, last.with_changes(comma=comma)))


def _flat(items: Sequence[Any], former: Sequence[Any]) -> tuple[Any, ...]:
    """Items on one line; the last has a comma where it had one before."""
    trailing = bool(former) and isinstance(former[-1].comma, cst.Comma) and len(former) > 1
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    last = cst.Comma(whitespace_after=cst.SimpleWhitespace("")) if trailing else _NO_COMMA
    spaced = [
        each
        if isinstance(each.comma, cst.Comma) and each in former and each is not former[-1]
        else each.with_changes(comma=comma)
        for each in items[:-1]
    ]
    return (*spaced, items[-1].with_changes(comma=last))


def _exploded(opened: _Opened) -> _Opened:
    def lines(indent: str) -> cst.ParenthesizedWhitespace:
        return cst.ParenthesizedWhitespace(
            first_line=cst.TrailingWhitespace(),
            indent=True,
            last_line=cst.SimpleWhitespace(indent),
        )

    *firsts, last = opened.items
    spaced = [each.with_changes(comma=cst.Comma(whitespace_after=lines(INDENT))) for each in firsts]
    final = last.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace("")))
    return _Opened(lines(INDENT), (*spaced, final), lines(""))
