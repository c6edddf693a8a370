"""Why a function cannot be wrapped as an op, or what has to be said before it can."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from opscaffold.errors import UserError


@dataclass(frozen=True, slots=True)
class Place:
    """One line of the code that was read, and what happens there."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        """``file:line: what``."""
        return f"{self.path}:{self.line}: {self.what}"


class FromError(UserError):
    """A function that is left alone: where, why, what would do, and what shows it.

    ``place`` is ``file:line``. The text holds all of it; pieces of evidence stand on lines of
    their own below the first.
    """

    def __init__(
        self,
        path: str,
        node: ast.AST | int | None,
        reason: str,
        remedy: str,
        evidence: Iterable[Place] = (),
    ) -> None:
        line = node if isinstance(node, int) else getattr(node, "lineno", None)
        self.place = path if line is None else f"{path}:{line}"
        self.reason = reason
        self.remedy = remedy
        self.evidence = tuple(evidence)
        shown = "".join(f"\n  {place}" for place in self.evidence)
        super().__init__(f"{self.place}: {reason}; {remedy}{shown}")


class UndecidedError(FromError):
    """What the code in sight leaves open, and an answer to ``keys`` settles."""

    def __init__(
        self,
        path: str,
        node: ast.AST | int | None,
        reason: str,
        remedy: str,
        keys: tuple[str, ...],
        evidence: Iterable[Place] = (),
    ) -> None:
        super().__init__(path, node, reason, remedy, evidence)
        self.keys = keys
