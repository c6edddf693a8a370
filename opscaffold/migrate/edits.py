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
    ``places`` are the ways in which an op that takes the buffer by position can be called, the
    better one first: the place of the buffer among the arguments, and for each argument in order
    the name that it is passed by (empty: by position). Where the argument is a flag that chose,
    ``flag`` is its value for which the new op is called; it is dropped in any form, and its index
    is -1 where the call leaves it out. ``more`` are the indexes of further arguments that a call
    that allocates is made without.
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
    places: tuple[tuple[int, tuple[str, ...]], ...] = ()
    flag: bool | None = None
    more: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VoidEdit:
    """What becomes of the value of a call whose op returns nothing now.

    The call becomes a statement in front of the one at ``statement``, of which only the first
    byte is named: two of these in one statement are no conflict of spans, but are made one after
    the other. ``values`` are the texts of what the value was, a tuple of them where ``many``.
    ``bound`` are arguments that need a name: the place in the call as written, the name, and
    whether the name is bound ahead of the call. ``picked`` is a subscript around the call with
    the element it takes. ``kept`` are the elements that an assignment still assigns, where it is
    not the whole. Of a choice between two calls, ``first`` says that the one whose test holds
    returns nothing, and not the other; where it is not all of its statement, it is made in front
    of that and binds ``name`` to the value, which stands in the call's place.
    """

    statement: Key
    values: tuple[str, ...]
    many: bool = False
    bound: tuple[tuple[int, str, bool], ...] = ()
    picked: tuple[Key, int] | None = None
    kept: tuple[int, ...] | None = None
    first: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class ImportEdit:
    """A name to import beside the one an import statement has."""

    name: str
    asname: str | None


@dataclass(frozen=True, slots=True)
class Template:
    """What an expression becomes: ``code``, in which ``_0``, ``_1`` ... stand for its ``parts``.

    The parts are expressions at or inside the one that changes, by position.
    """

    code: str
    parts: tuple[Key, ...] = ()


@dataclass(slots=True)
class FileEdits:
    """All changes to one file.

    ``statements`` replace a function definition by several; ``lambdas`` an expression by another;
    ``voids`` say, beside ``calls``, what becomes of the value of a call that has none any more;
    ``literals`` a string literal's text; ``imports`` and ``exports`` add a name behind the one
    at that position; ``elements`` are dropped from their tuple or list. ``expressions`` change an
    expression, ``keywords`` are added to a call, by name, and ``behind`` are statements that
    follow a function or the line of a simple statement. ``import_torch`` asks for
    ``import torch`` among the file's imports.
    """

    statements: dict[Key, Sequence[cst.BaseStatement]] = field(default_factory=dict)
    lambdas: dict[Key, cst.Lambda] = field(default_factory=dict)
    removed: set[Key] = field(default_factory=set)
    calls: dict[Key, CallEdit] = field(default_factory=dict)
    voids: dict[Key, VoidEdit] = field(default_factory=dict)
    imports: dict[Key, list[ImportEdit]] = field(default_factory=dict)
    exports: dict[Key, list[str]] = field(default_factory=dict)
    literals: dict[Key, str] = field(default_factory=dict)
    elements: set[Key] = field(default_factory=set)
    expressions: dict[Key, Template] = field(default_factory=dict)
    keywords: dict[Key, dict[str, str]] = field(default_factory=dict)
    behind: dict[Key, list[cst.BaseStatement]] = field(default_factory=dict)
    import_torch: bool = False

    def spans(self) -> list[Key]:
        """The spans whose text changes or moves as a whole."""
        return [*self.statements, *self.lambdas, *self.removed]

    def points(self) -> list[Key]:
        """The spans of the smaller changes."""
        small = (self.calls, self.imports, self.exports, self.literals, self.elements)
        added = (self.expressions, self.keywords, self.voids)
        ends = [(end, end) for _, end in self.behind]
        return [*(key for group in (*small, *added) for key in group), *ends]

    def places(self) -> set[Key]:
        """The spans of all nodes that change, or that something is put behind."""
        return {*self.spans(), *self.points(), *self.behind}

    def _statements(self) -> set[Key]:
        return {edit.statement for edit in self.voids.values()}

    def conflicts(self, other: FileEdits) -> bool:
        """Whether two sets of changes cannot be applied in one pass."""
        mine, theirs = (self.spans(), self.points()), (other.spans(), other.points())
        return (
            any(_overlap(a, b) for a in mine[0] for b in (*theirs[0], *theirs[1]))
            or any(_overlap(a, b) for a in theirs[0] for b in mine[1])
            or bool(self.calls.keys() & other.calls.keys())
            or bool(self._statements() & other._statements())
            or bool(self.literals.keys() & other.literals.keys())
            or bool(self.keywords.keys() & other.keywords.keys())
            or any(_overlap(a, b) for a in self.expressions for b in other.expressions)
        )

    def update(self, other: FileEdits) -> None:
        """Take over another set of changes that does not conflict."""
        self.statements.update(other.statements)
        self.lambdas.update(other.lambdas)
        self.removed |= other.removed
        self.elements |= other.elements
        self.calls.update(other.calls)
        self.voids.update(other.voids)
        self.literals.update(other.literals)
        self.expressions.update(other.expressions)
        self.keywords.update(other.keywords)
        for key, statements in other.behind.items():
            present = self.behind.setdefault(key, [])
            present.extend(s for s in statements if s not in present)
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
