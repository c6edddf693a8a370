"""The call sites that a repair changes, as a reviewer sees them: the lines before and after."""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TypeVar

from opscaffold.migrate.documents import Snippet, read_document
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.rewrite_file import rewrite
from opscaffold.migrate.syntax import Key, Syntax
from opscaffold.source.model import Module

_LINE_END = re.compile(r"\r\n|\r|\n")
_E = TypeVar("_E")

# Of calls that stand next to one another, so many are told apart: each takes a rewrite of its own.
_ALONE = 40


@dataclass(frozen=True, slots=True, order=True)
class CallSite:
    """One call that changes. ``line`` is that of the file as it is on the disk now.

    ``before`` and ``after`` are the whole lines it stands on, without common indentation.
    """

    path: Path
    line: int
    before: str
    after: str


def call_sites(
    syntax: Syntax,
    module: Module,
    edits: FileEdits,
    new: str,
    snippet: Snippet | None,
    now: bytes,
    disk: bytes | None,
) -> tuple[CallSite, ...]:
    """The calls of the op that edits change, in a module whose text becomes ``new``.

    ``snippet`` is given where the module is prose. ``now`` is what its file holds in memory, and
    ``disk`` on the disk, where that is something else.
    """
    keys = sorted({*edits.calls, *edits.voids, *edits.elements})
    if not keys:
        return ()
    host = module.path if snippet is None else snippet.host
    there = None if disk is None else Moved(_lines_of(host, now), _lines_of(host, disk))
    spots = _Spots(module.source.text, new)
    rows = {key: spots.rows(key) for key in keys}
    shared = Counter(row[2:] for row in rows.values())
    alone = [key for key, row in rows.items() if shared[row[2:]] > 1][:_ALONE]
    found: dict[int, CallSite] = {}
    for key in keys:
        own = spots
        if key in alone:
            single = FileEdits(calls=_of(edits.calls, key), voids=_of(edits.voids, key))
            single.elements = edits.elements & {key}
            own = _Spots(module.source.text, rewrite(syntax, single))
        line, before, after = own.texts(key)
        number = line if snippet is None else snippet.line_in_host(line)
        number = number if there is None else there.line(number)
        found.setdefault(line, CallSite(host, number, before, after))
    return tuple(found.values())


class _Spots:
    """Where spans of one text are in another."""

    def __init__(self, text: str, new: str) -> None:
        ends = [match.end() for match in _LINE_END.finditer(text)]
        if not text.isascii():
            ends = _byte_offsets(text, ends)
        self._starts = [0, *ends]
        self._old, self._new = _LINE_END.split(text), _LINE_END.split(new)
        self._moved = Moved(self._old, self._new)

    def rows(self, key: Key) -> tuple[int, int, int, int]:
        """The old lines (from 0) of a span, end excluded, and the new ones."""
        first, last = (bisect_right(self._starts, offset) - 1 for offset in key)
        return first, last + 1, *self._moved.span(first, last + 1)

    def texts(self, key: Key) -> tuple[int, str, str]:
        """The first line (from 1) of a span, its lines, and the new ones."""
        first, end, begin, stop = self.rows(key)
        before, after = "\n".join(self._old[first:end]), "\n".join(self._new[begin:stop])
        return first + 1, textwrap.dedent(before), textwrap.dedent(after)


def _byte_offsets(text: str, offsets: Sequence[int]) -> list[int]:
    found, at, size = [], 0, 0
    for offset in offsets:
        size += len(text[at:offset].encode())
        at = offset
        found.append(size)
    return found


def _of(edits: Mapping[Key, _E], key: Key) -> dict[Key, _E]:
    return {key: edits[key]} if key in edits else {}


class Moved:
    """Where the lines of one text are in another."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        head = 0
        while head < min(len(old), len(new)) and old[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        inner = SequenceMatcher(
            None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False
        )
        self._blocks = [
            (0, head, 0, head),
            *((i + head, j + head, k + head, m + head) for _, i, j, k, m in inner.get_opcodes()),
            (len(old) - tail, len(old), len(new) - tail, len(new)),
        ]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The lines that stand for old lines (from 0, end excluded)."""
        begin, stop = -1, 0
        for i, j, k, m in self._blocks:
            if i == j or j <= start or i >= end:
                continue
            same = j - i == m - k
            here = k + max(start - i, 0) if same else k
            upto = k + min(end, j) - i if same else m
            begin = here if begin < 0 else begin
            stop = upto
        return max(begin, 0), max(stop, begin, 0)

    def line(self, number: int) -> int:
        """The line (from 1) that stands for an old one."""
        return self.span(number - 1, number)[0] + 1


def _lines_of(path: Path, data: bytes) -> list[str]:
    source = read_document(path, data)
    return [] if source is None else _LINE_END.split(source.text)
