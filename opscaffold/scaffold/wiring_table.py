"""Rows put into the table of ops in an author's README."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from opscaffold.scaffold.wiring_error import WiringError

_RULE = re.compile(r"\s{0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_FENCE = re.compile(r"\s{0,3}(?P<mark>`{3,}|~{3,})")
_BAR = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table: what its columns are called, and its rows, from line ``first`` up to ``end``."""

    columns: tuple[str, ...]
    first: int
    end: int
    lines: tuple[str, ...]

    def keys(self) -> list[str]:
        """The first cell of each row."""
        at = self.columns.index(_KEY) if _KEY in self.columns else 0
        return [_cell(line, at) for line in self.lines]


_KEY = "op"


def wire_table(text: str, before: str, after: str) -> str:
    """Put the rows that ``after`` has over ``before`` into the table of ops of ``text``.

    The table is known by its head: a column ``op``, and the rows of ops that are known. A column
    of the author's own stays empty in new rows. Raises WiringError where there is no such table,
    or more than one.
    """
    end = "\r" if "\r\n" in text else ""
    old, new = _ops_table(before), _ops_table(after)
    if new is None:
        raise WiringError("the text generated for it has no table of ops")
    known = old.keys() if old is not None else []
    rows = dict(zip(new.keys(), new.lines, strict=True))
    added = [key for key in rows if key not in known]
    if not added:
        return text
    by_hand = "\n".join(rows[key] for key in added)
    table = _chosen(text, [key for key in rows if key in known], by_hand)
    lines = text.split("\n")
    order = list(rows)
    keys = table.keys()
    body = lines[table.first : table.end]
    for key in added:
        if key in keys:
            raise WiringError(
                f"its table has a row for {key} already", by_hand, table.first + keys.index(key) + 1
            )
        at = _place(keys, key, order)
        row = _row(rows[key], new.columns, table.columns)
        body.insert(at, row + end)
        keys.insert(at, key)
    if end and table.end == len(lines):
        # The row that was the file's last had no end of line.
        body = [row if row.endswith(end) else row + end for row in body]
    return "\n".join([*lines[: table.first], *body, *lines[table.end :]])


def _place(keys: Sequence[str], key: str, order: Sequence[str]) -> int:
    at = order.index(key)
    for earlier in reversed(order[:at]):
        if earlier in keys:
            return keys.index(earlier) + 1
    for later in order[at + 1 :]:
        if later in keys:
            return keys.index(later)
    return len(keys)


def _row(line: str, columns: Sequence[str], wanted: Sequence[str]) -> str:
    """A row for the columns of the author's table."""
    if tuple(wanted) == tuple(columns):
        return line
    cells = {name: _cell(line, number, last=len(columns)) for number, name in enumerate(columns)}
    return f"| {' | '.join(cells.get(name, '') for name in wanted)} |"


def _chosen(text: str, known: Sequence[str], by_hand: str) -> _Table:
    tables = [table for table in _tables(text) if _KEY in table.columns]
    if not tables:
        raise WiringError("its table of ops, with a column 'op', is gone", by_hand)
    if len(tables) > 1:
        holding = [table for table in tables if set(known) & set(table.keys())]
        if len(holding) != 1:
            raise WiringError(
                f"it has {len(tables)} tables with a column 'op', and which one lists the ops "
                "cannot be told",
                by_hand,
                tables[0].first - 1,
            )
        return holding[0]
    return tables[0]


def _ops_table(text: str) -> _Table | None:
    return next((table for table in _tables(text) if _KEY in table.columns), None)


def _tables(text: str) -> list[_Table]:
    """The tables of a Markdown text, those in blocks of code left out."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    found: list[_Table] = []
    fence = ""
    number = 0
    while number < len(lines):
        line = lines[number]
        opening = _FENCE.match(line)
        if fence:
            if opening and opening["mark"].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif opening:
            fence = opening["mark"]
        elif number + 1 < len(lines) and "|" in line and _RULE.fullmatch(lines[number + 1]):
            end = number + 2
            while end < len(lines) and lines[end].strip() and "|" in lines[end]:
                end += 1
            columns = tuple(cell.strip("`*_ ").lower() for cell in _cells(line))
            found.append(_Table(columns, number + 2, end, tuple(lines[number + 2 : end])))
            number = end
            continue
        number += 1
    return found


def _cells(line: str) -> list[str]:
    inner = line.strip()
    inner = inner.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip() for cell in _BAR.split(inner)]


def _cell(line: str, number: int, last: int | None = None) -> str:
    """One cell. The last of ``last`` columns takes what bars may stand in it."""
    cells = _cells(line)
    if last is not None and number == last - 1:
        return " | ".join(cells[number:])
    return cells[number] if number < len(cells) else ""
