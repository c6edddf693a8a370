"""Ignore comments: ``# opscaffold: ignore[CODE, CODE]``, and which lines each is about."""

from __future__ import annotations

import io
import re
import tokenize

from opscaffold.patterns import pattern
from opscaffold.records import dataclass, field, replace

_COMMENT = pattern(r"#\s*opscaffold\s*:\s*ignore(?![\w-])\s*(?:\[([^\]#]*)\])?", re.IGNORECASE)
_NEWLINE = pattern(r"\r\n?")
_BETWEEN = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT})
MARK = b"opscaffold"
"""What a file holds, in lower case, that has such a comment."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """One comment. ``words`` are what stands in its brackets: none for a bare one.

    It is about the logical line that it stands in or behind, ``first`` to ``last``: a statement,
    a decorator, or the head of a definition, over as many lines as that is written on. ``alone``
    says that there is none: only the comment stands on its line. ``end`` is the column behind it.
    """

    line: int
    column: int
    words: tuple[str, ...]
    first: int
    last: int
    alone: bool = field(default=False, compare=False)
    end: int | None = field(default=None, compare=False)


def read_ignores(text: str) -> list[Ignore]:
    """Return the ignore comments of a Python source, in order.

    Only comments count: what looks like one in a string is none. Of a source that is no Python,
    those before the place where it ends to be.
    """
    lines = io.StringIO(_NEWLINE.sub("\n", text))
    found: list[Ignore] = []
    waiting: list[Ignore] = []
    first: int | None = None
    try:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.COMMENT:
                words = _words(token.string)
                if words is None:
                    continue
                line, column, end = token.start[0], token.start[1] + 1, token.end[1] + 1
                alone = first is None
                ignore = Ignore(line, column, words, line, line, alone, end)
                (found if alone else waiting).append(ignore)
            elif token.type == tokenize.NEWLINE:
                for ignore in waiting:
                    start = first or ignore.line
                    found.append(replace(ignore, first=start, last=token.start[0]))
                waiting, first = [], None
            elif first is None and token.type not in _BETWEEN:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass
    return sorted(found, key=lambda ignore: (ignore.line, ignore.column))


def _words(comment: str) -> tuple[str, ...] | None:
    match = _COMMENT.search(comment)
    if match is None:
        return None
    return tuple(dict.fromkeys(w for w in re.split(r"[,\s]+", match[1] or "") if w))
