"""How a kernel treats an Optional buffer: followed once with it omitted, once with it given."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Mapping

from opscaffold.effects.follow import follow
from opscaffold.effects.helpers import statements_of
from opscaffold.effects.leftovers import leftover_of
from opscaffold.effects.trace import MUTATIONS, Effect, Event, FunctionNode, Names, Trace
from opscaffold.effects.values import NONE, UNSEEN, Ref, Value, parameter
from opscaffold.records import dataclass

_LOOKS = frozenset({Effect.READ, Effect.UPDATE, Effect.OPAQUE})


class Handed(enum.Enum):
    """What a kernel hands back when it was given the buffer."""

    BUFFER = "the buffer itself"
    VIEW = "a view of the buffer"
    OTHER = "something else"
    MIXED = "the buffer on some paths only"
    UNSEEN = "what code out of sight returned"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Argument:
    """What is declared of one parameter of a kernel."""

    name: str
    tensor: bool
    optional: bool = False
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class BufferUse:
    """How one Optional buffer is treated.

    ``given`` and ``omitted`` are the traces of the two ways to call. ``written`` are the events
    that surely write to the buffer, ``looks`` those that may see its old contents, ``reshapes``
    those that change its shape or storage. ``leftover`` is a place that leaves parts of a given
    buffer as they were where, with it omitted, they would hold a value that the kernel put there.
    """

    argument: Argument
    given: Trace
    omitted: Trace
    handed: Handed
    written: tuple[Event, ...]
    looks: tuple[Event, ...]
    reshapes: tuple[Event, ...]
    tested: bool
    fresh_when_omitted: bool
    leftover: ast.AST | None = None

    @property
    def root(self) -> str:
        """The memory of the buffer, as traces name it."""
        return f"param:{self.argument.name}"

    @property
    def is_output(self) -> bool:
        """Whether the kernel uses it as a place for a result at all."""
        return bool(self.written) or self.handed in {Handed.BUFFER, Handed.VIEW, Handed.MIXED}

    def other_mutations(self) -> tuple[Event, ...]:
        """Mutations of other parameters, in either way to call."""
        events = (*self.given.events, *self.omitted.events)
        return tuple(
            e
            for e in events
            if e.effect in MUTATIONS
            and e.sure
            and e.root.startswith("param:")
            and e.root != self.root
        )


def use_of_buffer(
    function: FunctionNode | ast.Lambda,
    arguments: Iterable[Argument],
    buffer: str,
    names: Names,
    others: Mapping[str, Value] | None = None,
) -> BufferUse:
    """Follow a kernel with the named Optional argument omitted, then given."""
    arguments = list(arguments)
    start = {a.name: start_value(a) for a in arguments} | dict(others or {})
    argument = next(a for a in arguments if a.name == buffer)
    body = statements_of(function)
    uses = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == buffer]
    omitted = follow(body, start | {buffer: NONE}, names, ask=uses)
    given = follow(body, start | {buffer: parameter(buffer)}, names)
    return use_in(function, argument, given, omitted)


def use_in(
    function: FunctionNode | ast.Lambda, argument: Argument, given: Trace, omitted: Trace
) -> BufferUse:
    """How a kernel treats a buffer, as the traces of both ways to call show it."""
    buffer = argument.name
    root = f"param:{buffer}"
    events = given.on(root)
    # Work on memory whose contents are undefined cannot mean to see old contents.
    undefined = {event.node for event in omitted.events if event.root in omitted.undefined}
    return BufferUse(
        argument=argument,
        given=given,
        omitted=omitted,
        handed=_handed(given, root),
        written=tuple(e for e in events if e.effect in MUTATIONS and e.sure),
        looks=tuple(
            e for e in events if e.effect in _LOOKS and not e.covered and e.node not in undefined
        ),
        reshapes=tuple(e for e in events if e.effect is Effect.RESHAPE),
        tested=_tests_nullness(function, buffer),
        fresh_when_omitted=all(_is_fresh(r.value) for r in omitted.returns),
        leftover=leftover_of(function, given, omitted, root),
    )


def body_of(function: FunctionNode | ast.Lambda) -> list[ast.stmt]:
    """The statements of a function; a lambda's expression counts as a return."""
    return statements_of(function)


def start_value(argument: Argument) -> Value:
    """What is known of an argument when a kernel starts."""
    if not argument.tensor:
        null = None if argument.optional else False
        return Value(null=null, container=argument.is_list, term=argument.name)
    if argument.is_list:
        refs = frozenset({Ref(f"param:{argument.name}", exact=True)})
        null = None if argument.optional else False
        return Value(null=null, refs=refs, container=True, term=argument.name)
    return parameter(argument.name, null=None if argument.optional else False)


def _handed(trace: Trace, root: str) -> Handed:
    kinds = set()
    for returned in trace.returns:
        value = returned.value
        refs = value.all_refs()
        if value.null is True:
            kinds.add(Handed.NOTHING)
        elif value.items is None and refs and all(r.root == root and r.exact for r in refs):
            kinds.add(Handed.BUFFER)
        elif any(r.root == root and not r.guess for r in refs):
            # The buffer itself here means: on some paths only, for it is not all there is.
            part = value.items is not None or any(r.root == root and not r.exact for r in refs)
            known = Handed.VIEW if part else Handed.MIXED
            kinds.add(Handed.UNSEEN if UNSEEN in refs else known)
        else:
            unseen = UNSEEN in refs or any(r.root == root for r in refs)
            kinds.add(Handed.UNSEEN if unseen else Handed.OTHER)
    if not kinds:
        return Handed.NOTHING
    if len(kinds) == 1:
        return kinds.pop()
    if kinds & {Handed.BUFFER, Handed.VIEW, Handed.MIXED}:
        return Handed.MIXED
    return Handed.UNSEEN if Handed.UNSEEN in kinds else Handed.OTHER


def _is_fresh(value: Value) -> bool:
    refs = value.all_refs()
    return value.null is not True and bool(refs) and all(r.root.startswith("fresh:") for r in refs)


def _tests_nullness(function: FunctionNode | ast.Lambda, buffer: str) -> bool:
    for node in ast.walk(function):
        match node:
            case ast.Compare(left=ast.Name(id=name)) | ast.BoolOp(values=[ast.Name(id=name), *_]):
                if name == buffer:
                    return True
            case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
                if name == buffer:
                    return True
            case ast.If(test=ast.Name(id=name)) | ast.IfExp(test=ast.Name(id=name)):
                if name == buffer:
                    return True
    return False
