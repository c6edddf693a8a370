"""What is to change in one file, by the positions of its nodes."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from opscaffold.migrate.syntax import Key


class CallForm(enum.Enum):
    """What a call becomes: one that allocates, one that writes, or a choice at run time."""

    FRESH = "fresh"
    GIVEN = "given"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class CallEdit:
    """How one call changes.

    ``argument`` is the index of the buffer's argument in the call as written. ``function`` is
    the expression that the out= op is called by. ``keywords`` are the parameter names of the
    positional arguments behind the buffer: with ``in_order`` they become keyword arguments, so
    that everything is still evaluated in the written order; without it the buffer moves to the
    end. ``test_name`` is the name to bind the buffer to while it is tested, where it is no plain
    name itself. ``parenthesised`` says that a conditional needs parentheses where it stands,
    ``column`` where that is in its line, ``one_line`` that it may not be broken (in an f-string).
    """

    form: CallForm
    argument: int
    buffer: str
    function: str = ""
    keywords: tuple[str, ...] = ()
    in_order: bool = False
    test_name: str = ""
    parenthesised: bool = True
    column: int = 0
    one_line: bool = False


@dataclass(frozen=True, slots=True)
class ImportEdit:
    """A name to import beside the one an import statement has."""

    name: str
    asname: str | None


@dataclass(slots=True)
class FileEdits:
    """All changes to one file.

    ``statements`` replace a function definition by several; ``lambdas`` an expression by another;
    ``literals`` a string literal's text; ``imports`` and ``exports`` add a name behind the one
    at that position; ``elements`` are dropped from their tuple or list. ``import_torch`` asks
    for ``import torch`` among the file's imports.
    """

    statements: dict[Key, Sequence[cst.BaseStatement]] = field(default_factory=dict)
    lambdas: dict[Key, cst.Lambda] = field(default_factory=dict)
    removed: set[Key] = field(default_factory=set)
    calls: dict[Key, CallEdit] = field(default_factory=dict)
    imports: dict[Key, list[ImportEdit]] = field(default_factory=dict)
    exports: dict[Key, list[str]] = field(default_factory=dict)
    literals: dict[Key, str] = field(default_factory=dict)
    elements: set[Key] = field(default_factory=set)
    import_torch: bool = False

    def spans(self) -> list[Key]:
        """The spans whose text changes or moves as a whole."""
        return [*self.statements, *self.lambdas, *self.removed]

    def points(self) -> list[Key]:
        """The spans of the smaller changes."""
        return [*self.calls, *self.imports, *self.exports, *self.literals, *self.elements]

    def conflicts(self, other: FileEdits) -> bool:
        """Whether two sets of changes cannot be applied in one pass."""
        mine, theirs = (self.spans(), self.points()), (other.spans(), other.points())
        return (
            any(_overlap(a, b) for a in mine[0] for b in (*theirs[0], *theirs[1]))
            or any(_overlap(a, b) for a in theirs[0] for b in mine[1])
            or bool(self.calls.keys() & other.calls.keys())
            or bool(self.literals.keys() & other.literals.keys())
        )

    def update(self, other: FileEdits) -> None:
        """Take over another set of changes that does not conflict."""
        self.statements.update(other.statements)
        self.lambdas.update(other.lambdas)
        self.removed |= other.removed
        self.elements |= other.elements
        self.calls.update(other.calls)
        self.literals.update(other.literals)
        _extend(self.imports, other.imports)
        _extend(self.exports, other.exports)
        self.import_torch = self.import_torch or other.import_torch

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.spans() or self.points() or self.import_torch)


def _overlap(a: Key, b: Key) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _extend(mine: dict[Key, list[ImportEdit]] | dict[Key, list[str]], theirs: Mapping) -> None:  # type: ignore[type-arg]
    for key, values in theirs.items():
        present = mine.setdefault(key, [])
        present.extend(v for v in values if v not in present)
