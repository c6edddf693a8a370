"""What following a function body yields: events on memory, returns, and decided tests."""

from __future__ import annotations

import ast
import enum
from typing import Protocol

from opscaffold.contract.model import OpContract
from opscaffold.effects.values import Value
from opscaffold.records import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Names(Protocol):
    """How names of one module resolve. Supplied by whoever knows the source tree."""

    def dotted(self, expr: ast.expr) -> str | None:
        """The dotted origin of an expression (``torch.library.custom_op``), or None."""

    def function(self, expr: ast.expr) -> tuple[FunctionNode, Names] | None:
        """The function definition that an expression denotes, with the names it sees."""

    def method(self, expr: ast.Attribute) -> tuple[FunctionNode, Names, bool] | None:
        """The method that an expression denotes, and whether it is given its object as well.

        ``apply`` of an ``autograd.Function`` runs ``forward``.
        """

    def op(self, expr: ast.expr) -> OpContract | None:
        """The declared contract of the op of the project that an expression denotes."""

    def outer(self, expr: ast.expr) -> Outer | None:
        """What a name or attribute that is not local to the function stands for, if in sight."""


@dataclass(frozen=True, slots=True)
class Outer:
    """A value made outside the function; ``null`` says that it may be None at times.

    ``constant`` is the value of a number or a string.
    """

    kind: OuterKind
    null: bool = False
    constant: object = None


class OuterKind(enum.Enum):
    """What lasts from one call to the next."""

    TENSOR = "tensor"
    CONTAINER = "container"
    CONSTANT = "constant"


class Effect(enum.Enum):
    """What happens to memory at one place."""

    READ = "reads"
    WRITE = "overwrites"
    WRITE_PART = "writes a part of"
    UPDATE = "reads and writes"
    RESHAPE = "changes the shape or storage of"
    OPAQUE = "hands to code out of sight"
    KEEP = "keeps beyond the call"
    TRUTH = "takes the truth of"


MUTATIONS = frozenset({Effect.WRITE, Effect.WRITE_PART, Effect.UPDATE, Effect.RESHAPE})


@dataclass(frozen=True, slots=True)
class Event:
    """One effect on one root of memory.

    ``node`` is the expression or statement in the function that is followed, also where the
    effect happens further down in a function it calls. ``covered`` says that every element was
    written before, on every path to here; ``sure`` that it is this memory and no other.
    ``known`` says that it is this memory on some path in sight, ``perhaps`` that on some inputs
    it is a copy; ``first`` that nothing was written to it before on any path, by any code.
    ``inside`` is the place itself, with the names seen there, where that is in a function called.
    """

    effect: Effect
    root: str
    node: ast.AST
    covered: bool
    sure: bool = True
    known: bool = True
    perhaps: bool = False
    first: bool = False
    inside: tuple[ast.AST, Names] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Returned:
    """One way out of the function: the return statement (None: the end of the body).

    ``mutated`` is the memory written to on every path that leads there, ``written`` that which
    is overwritten as a whole.
    """

    node: ast.Return | None
    value: Value
    mutated: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()


@dataclass(slots=True)
class Trace:
    """Everything seen on the way.

    ``tests`` holds, for each truth tested, the answers met (None: unknown); ``chosen`` likewise,
    for each ``a or b``, whether the left operand was the result. ``nulls`` records the nullness
    of expressions that were asked about. ``absent_outs`` are the arguments of ``out=`` of torch
    functions that were None at some time. ``repeated`` is memory allocated in a loop: one name for
    several tensors. ``undefined`` is memory allocated with undefined contents. ``asked`` holds
    the terms of tests that nothing in sight decides, with the places where they are met.
    """

    events: list[Event] = field(default_factory=list)
    returns: list[Returned] = field(default_factory=list)
    tests: dict[ast.expr, set[bool | None]] = field(default_factory=dict)
    chosen: dict[ast.BoolOp, set[bool | None]] = field(default_factory=dict)
    nulls: dict[ast.expr, set[bool | None]] = field(default_factory=dict)
    absent_outs: set[ast.expr] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    undefined: set[str] = field(default_factory=set)
    asked: dict[str, set[tuple[ast.AST, str]]] = field(default_factory=dict)

    def decided(self) -> dict[ast.expr, bool]:
        """The tests that came out one way every time."""
        return {
            node: answers == {True}
            for node, answers in self.tests.items()
            if answers in ({True}, {False})
        }

    def on(self, root: str) -> list[Event]:
        """The events on one root, in the order met."""
        return [event for event in self.events if event.root == root]
