"""One line of source as shown below a finding: readable on any terminal, the place marked."""

from __future__ import annotations

import unicodedata

from opscaffold.patterns import pattern

_WORD = pattern(r"\w+")
_TAB = "    "
_CUT = "..."
# Widths of the terminal on either side of the place.
_FAR = 4


def excerpt(line: str, column: int, width: int, end: int | None = None) -> tuple[str, str]:
    """Return a line of source and a line of carets below it, each at most ``width`` cells.

    ``column`` counts characters from 1; the carets mark what stands from there to ``end``, or
    the word that starts there. Indentation goes, a long line is cut around the place, tabs become
    spaces and control characters escapes.
    """
    start = min(max(column - 1, 0), len(line))
    word = _WORD.match(line, start)
    stop = word.end() if word else min(start + 1, len(line))
    if end is not None and end - 1 > start:
        stop = min(end - 1, len(line))
    # Of a line of millions of characters no more is looked at than can be shown.
    skipped = max(start - _FAR * max(width, 1), 0)
    line = line[skipped : start + 2 * _FAR * max(width, 1)]
    start, stop = start - skipped, min(stop - skipped, len(line))
    indent = min(len(line) - len(line.lstrip()), start)
    before, marked, after = (
        visible(part) for part in (line[indent:start], line[start:stop], line[stop:].rstrip())
    )
    room = max(width, 20)
    head = _head(marked, room - 2 * len(_CUT) - min(cells(before), room // 3))
    if head != marked:
        marked, after = head + _CUT, ""
    if cells(before) + cells(marked) > room - len(_CUT):
        # A third of the room for what stands before, the rest for what the finding is about.
        left = min(room // 3, room - cells(marked) - 2 * len(_CUT))
        before = _CUT + _tail(before, max(left, 0))
    left = room - cells(before) - cells(marked)
    if cells(after) > left:
        after = _head(after, left - len(_CUT)) + _CUT
    return before + marked + after, " " * cells(before) + "^" * max(cells(marked), 1)


def visible(text: str) -> str:
    """Return text with tabs as spaces and what would act on a terminal as escapes."""
    return "".join(
        _TAB if char == "\t" else char if char.isprintable() else _escaped(char) for char in text
    )


def cells(text: str) -> int:
    """Return how many columns of a terminal a visible text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _head(text: str, width: int) -> str:
    while text and cells(text) > width:
        text = text[: max(len(text) - max((cells(text) - width) // 2, 1), 0)]
    return text


def _tail(text: str, width: int) -> str:
    return _head(text[::-1], width)[::-1]
