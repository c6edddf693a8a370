"""Strings of which only parts may be known."""

from __future__ import annotations

import ast
import re

from opscaffold.patterns import pattern
from opscaffold.records import dataclass

_SCHEMA = pattern(r"schema|signature", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Text:
    """A string in pieces. A piece that is not known is a hole that shows its source."""

    pieces: tuple[tuple[str, bool], ...] = ()

    @property
    def value(self) -> str | None:
        """The string, or None where part of it is not known."""
        return (
            "".join(p for p, _ in self.pieces) if all(known for _, known in self.pieces) else None
        )

    @property
    def hint(self) -> str:
        """The string with ``{source}`` for what is not known."""
        return "".join(piece if known else f"{{{piece}}}" for piece, known in self.pieces)

    @property
    def start(self) -> str:
        """What is known of the string before the first hole."""
        known = ""
        for piece, sure in self.pieces:
            if not sure:
                break
            known += piece
        return known

    def before(self, mark: str) -> Text:
        """Return what stands before the first mark that is known, without space around it."""
        kept: list[tuple[str, bool]] = []
        for piece, sure in self.pieces:
            if sure and mark in piece:
                kept.append((piece.partition(mark)[0].rstrip(), True))
                break
            kept.append((piece, sure))
        if kept and kept[0][1]:
            kept[0] = (kept[0][0].lstrip(), True)
        return Text(tuple(kept))

    def has(self, mark: str) -> bool:
        """Say whether a mark stands in what is known."""
        return any(sure and mark in piece for piece, sure in self.pieces)

    def name_of_schema(self) -> Text:
        """Return the op's name that a schema string starts with.

        Where the parenthesis behind it is not in sight, a hole that must hold it ends the name:
        the last before an arrow that is known, or one that is called a schema.
        """
        if self.has("("):
            return self.before("(")
        ends = len(self.pieces)
        for number, (piece, sure) in enumerate(self.pieces):
            following = self.pieces[number + 1 : number + 2]
            arrow = any(known and text.lstrip().startswith("->") for text, known in following)
            if number and not sure and (arrow or _SCHEMA.search(piece)):
                ends = number
                break
        return Text(self.pieces[:ends]).before("(")

    def __add__(self, other: Text) -> Text:
        """Join two strings."""
        return Text(self.pieces + other.pieces)


def known(text: str) -> Text:
    """Return a string that is fully known."""
    return Text(((text, True),))


def unknown(node: ast.AST) -> Text:
    """Return a string of which only the source is known."""
    try:
        return Text(((ast.unparse(node) if isinstance(node, ast.expr) else "?", False),))
    except RecursionError:
        return Text((("...", False),))
