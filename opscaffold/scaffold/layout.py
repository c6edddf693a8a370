"""Python laid out as ``ruff format`` leaves it, for names and signatures of any length.

Whatever does not fit on its line is put one item a line with a trailing comma, which the
formatter keeps. What has no such form raises TooWideError, and a wider line length is tried.
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

INDENT = "    "
# Ruff takes no line length above the last.
WIDTHS = (100, 160, 240, 320)


class TooWideError(Exception):
    """A line cannot be made to fit."""


@dataclass(frozen=True, slots=True)
class Group:
    """Items in brackets: a call, a tuple, a set. ``bare`` ones have brackets only when split."""

    before: str
    items: tuple[str | Group, ...]
    after: str
    bare: bool = False
    # One item and a comma: (x,)
    lone_comma: bool = False

    def flat(self) -> str:
        """The group on one line."""
        inner = ", ".join(i if isinstance(i, str) else i.flat() for i in self.items)
        if self.bare:
            return inner
        return f"{self.before}{inner}{',' if self.lone_comma else ''}{self.after}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Lays statements out for one line length."""

    width: int = field(default=WIDTHS[0])

    def line(self, text: str, depth: int = 1) -> list[str]:
        """A statement without brackets that could be split."""
        return [self._fitting(INDENT * depth + text)]

    def statement(self, prefix: str, group: Group, suffix: str = "", depth: int = 1) -> list[str]:
        """``prefix`` + the group + ``suffix``, split where it does not fit."""
        indent = INDENT * depth
        flat = f"{indent}{prefix}{group.flat()}{suffix}"
        if len(flat) <= self.width or not group.items:
            return [self._fitting(flat)]
        lines = [self._fitting(f"{indent}{prefix}{group.before}")]
        for item in group.items:
            if isinstance(item, str):
                lines += self.line(f"{item},", depth + 1)
            else:
                lines += self.statement("", item, ",", depth + 1)
        return [*lines, self._fitting(f"{indent}{group.after}{suffix}")]

    def define(self, name: str, parameters: Sequence[str], returns: str) -> list[str]:
        """The head of a function."""
        # A star cannot be followed by a trailing comma alone, and never is: something follows.
        group = Group("(", tuple(parameters), f") -> {returns}:")
        return self.statement(f"def {name}", group, depth=0)

    def call(
        self, prefix: str, function: str, arguments: Sequence[str | Group], depth: int = 1
    ) -> list[str]:
        """``prefix`` + a call."""
        return self.statement(prefix, Group(f"{function}(", tuple(arguments), ")"), depth=depth)

    def call_with_text(
        self, function: str, text: str, arguments: Sequence[str | Group], depth: int = 1
    ) -> list[str]:
        """A call whose first argument is a string, on as many lines as that needs."""
        whole = Group(f"{function}(", (quote(text), *arguments), ")")
        if len(INDENT) * depth + len(whole.flat()) <= self.width:
            return self.statement("", whole, depth=depth)
        room = self.width - len(INDENT) * (depth + 1) - len(",")
        parts = [""]
        for word in re.findall(r"[^ ]* |[^ ]+", text):
            if parts[-1] and len(quote(parts[-1] + word)) > room:
                parts.append("")
            parts[-1] += word
        lines = self.line(whole.before, depth)
        for part in parts[:-1]:
            lines += self.line(quote(part), depth + 1)
        lines += self.line(f"{quote(parts[-1])},", depth + 1)
        for item in arguments:
            group = item if isinstance(item, Group) else Group("", (item,), "", bare=True)
            lines += self.statement("", group, ",", depth + 1)
        return lines + self.line(whole.after, depth)

    def returning(self, values: Sequence[str], depth: int = 1) -> list[str]:
        """A return of one value or of a tuple."""
        if len(values) == 1:
            return self.line(f"return {values[0]}", depth)
        return self.statement("return ", Group("(", tuple(values), ")", bare=True), depth=depth)

    def import_from(self, module: str, names: Iterable[str]) -> list[str]:
        """``from module import names``, sorted and split as ruff's import sorter does."""
        ordered = sorted(names, key=natural_key)
        group = Group("(", tuple(ordered), ")", bare=True)
        return self.statement(f"from {module} import ", group, depth=0)

    def adding(
        self, target: str, terms: Sequence[str], annotation: str = "", depth: int = 1
    ) -> list[str]:
        """Statements that assign the sum of ``terms`` to ``target``."""
        declared = f"{target}: {annotation}" if annotation else target
        if len(terms) == 1 and terms[0].startswith("(") and " if " in terms[0]:
            # The formatter takes off parentheses around a whole conditional.
            terms = [terms[0].removeprefix("(").removesuffix(")")]
        whole = f"{declared} = {' + '.join(terms) if len(terms) > 1 else _bare(terms[0])}"
        if len(INDENT) * depth + len(whole) <= self.width:
            return self.line(whole, depth)
        lines = self.line(f"{declared} = {_bare(terms[0])}", depth)
        for term in terms[1:]:
            lines += self.line(f"{target} = {target} + {term}", depth)
        return lines

    def comment(self, text: str, depth: int = 1) -> list[str]:
        """A comment, wrapped."""
        indent = INDENT * depth
        return [f"{indent}# {line}" for line in self._wrapped(text, len(indent) + 2)]

    def prose(self, text: str, depth: int = 0, hang: str = "") -> list[str]:
        """Lines of a docstring; ``hang`` indents all but the first further."""
        indent = INDENT * depth
        lines = self._wrapped(text, len(indent) + len(hang))
        return [indent + (hang if n else "") + line for n, line in enumerate(lines)]

    def _wrapped(self, text: str, used: int) -> list[str]:
        # Long names must stay whole; text may be narrower than code but not wider.
        width = max(min(self.width, WIDTHS[0]) - used, 20)
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)

    def _fitting(self, text: str) -> str:
        if len(text) > self.width:
            raise TooWideError(text)
        return text


def _bare(term: str) -> str:
    """A term without the brackets around all of it, which the formatter would take away."""
    depth = 0
    for position, character in enumerate(term):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            whole = position == len(term) - 1 and term.startswith("(")
            return term[1:-1] if whole else term
    return term


def natural_key(name: str) -> tuple[Any, Any]:
    """Ruff's order of imported names where case and kind do not count: ``op2`` before ``op10``."""
    order = functools.cmp_to_key(_natural_order)
    return order(name.lower()), order(name)


def _natural_order(one: str, other: str) -> int:
    parts, others = (re.findall(r"\d+|\D", name) for name in (one, other))
    for left, right in zip(parts, others, strict=False):
        if left == right:
            continue
        if left.isdigit() and right.isdigit():
            # Numbers go by value, but digit by digit as soon as one starts with a zero.
            by_value = "0" not in (left[0], right[0])
            found = (int(left) > int(right)) - (int(left) < int(right)) if by_value else 0
            return found or (1 if left > right else -1)
        return 1 if left[0] > right[0] else -1
    return (len(parts) > len(others)) - (len(parts) < len(others))


def quote(text: str) -> str:
    """A Python string literal in double quotes: the way ruff writes it, and proof against text."""
    if '"' in text and "'" not in text:
        return repr(text)
    body = repr(text)
    if body.startswith("'"):
        body = '"' + body[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    return body
