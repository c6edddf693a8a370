"""How a kernel treats a flag: followed once with it set, once with it unset."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from opscaffold.effects.buffers import Argument, BufferUse, Handed, start_value
from opscaffold.effects.follow import follow
from opscaffold.effects.helpers import statements_of
from opscaffold.effects.trace import MUTATIONS, Effect, Event, FunctionNode, Names, Trace
from opscaffold.effects.values import UNSEEN, Value
from opscaffold.records import dataclass


@dataclass(frozen=True, slots=True)
class FlagUse:
    """A flag that decides whether a kernel returns an argument or new memory.

    ``argument`` is the argument that is returned, wherever the flag is ``when``: ``inplace`` is the
    trace of that way to call, ``functional`` of the other. ``written`` are the events that write
    to it. ``rebound`` is a place that gives the flag's name another value. ``fresh`` says that the
    other way to call returns nothing but memory that it allocated in sight.
    """

    flag: Argument
    argument: str
    when: bool
    inplace: Trace
    functional: Trace
    written: tuple[Event, ...]
    rebound: ast.AST | None
    fresh: bool

    def other_mutations(self) -> tuple[Event, ...]:
        """Mutations of other parameters, in either way to call."""
        events = (*self.inplace.events, *self.functional.events)
        return tuple(
            e
            for e in events
            if e.effect in MUTATIONS
            and e.known
            and e.root.startswith("param:")
            and e.root != f"param:{self.argument}"
        )

    def as_buffer(self) -> BufferUse:
        """The flag as a buffer that is omitted where the kernel returns new memory."""
        return _as_buffer(self.flag, self.inplace, self.functional, self.written)


def use_of_flag(
    function: FunctionNode | ast.Lambda,
    arguments: Iterable[Argument],
    flag: str,
    names: Names,
    *,
    declared: frozenset[str] = frozenset(),
    devices: frozenset[str] = frozenset(),
    stand_in: bool = False,
) -> FlagUse | None:
    """How a kernel treats a flag; None where the flag does not decide what is returned.

    It decides where one of its values makes every return one plain Tensor argument, which is
    written to, and the other value makes none of them that argument, which is left alone.
    ``declared`` are the arguments that the op says it mutates: handing one of them to code out of
    sight counts as writing to it. A ``stand_in``, such as a fake kernel, need write to nothing.
    """
    arguments = list(arguments)
    traces = {
        value: _trace(function, arguments, flag, names, value, devices) for value in (True, False)
    }
    for value in (True, False):
        inplace, functional = traces[value], traces[not value]
        argument = _returned(inplace, arguments)
        if argument is None or not functional.returns or _may_return(functional, argument):
            continue
        written = _written(inplace, functional, argument, argument in declared)
        if not stand_in and (not written or _known_writes(functional, argument)):
            continue
        return FlagUse(
            next(a for a in arguments if a.name == flag),
            argument,
            value,
            inplace,
            functional,
            written,
            _rebound(function, flag),
            all(_is_fresh(r.value) for r in functional.returns),
        )
    return None


def flag_as_buffer(
    function: FunctionNode | ast.Lambda,
    arguments: Iterable[Argument],
    flag: str,
    names: Names,
    *,
    when: bool,
) -> tuple[BufferUse, ast.AST | None]:
    """A flag that need decide nothing as a buffer, which is given where the flag is ``when``.

    Also gives a place that binds the flag's name again, if there is one.
    """
    arguments = list(arguments)
    inplace, functional = (
        _trace(function, arguments, flag, names, value, frozenset()) for value in (when, not when)
    )
    argument = next(a for a in arguments if a.name == flag)
    return _as_buffer(argument, inplace, functional, ()), _rebound(function, flag)


def _as_buffer(
    flag: Argument, inplace: Trace, functional: Trace, written: tuple[Event, ...]
) -> BufferUse:
    return BufferUse(
        argument=flag,
        given=inplace,
        omitted=functional,
        handed=Handed.BUFFER,
        written=written,
        looks=(),
        reshapes=(),
        tested=True,
        fresh_when_omitted=all(_is_fresh(r.value) for r in functional.returns),
    )


def _trace(
    function: FunctionNode | ast.Lambda,
    arguments: list[Argument],
    flag: str,
    names: Names,
    value: bool,
    devices: frozenset[str],
) -> Trace:
    """What is seen where the flag has this value."""
    start = {a.name: start_value(a) for a in arguments}
    start[flag] = Value(null=False, truth=value, term=flag)
    assumed = {flag: value, f"{flag} == =1": value, f"{flag} == =0": not value}
    trace = follow(statements_of(function), start, names, devices=devices, assumed=assumed)
    for node in ast.walk(function):
        match node:
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Is() | ast.Eq() | ast.IsNot() | ast.NotEq() as op],
                comparators=[ast.Constant(value=bool(constant))],
            ) if name == flag and node in trace.tests:
                equal = value is constant
                trace.tests[node] = {equal is isinstance(op, ast.Is | ast.Eq)}
    return trace


def _returned(trace: Trace, arguments: list[Argument]) -> str | None:
    """The one plain Tensor argument that every return is, if there is one."""
    plain = {f"param:{a.name}" for a in arguments if a.tensor and not (a.optional or a.is_list)}
    found: set[str] = set()
    for returned in trace.returns:
        value = returned.value
        refs = value.all_refs()
        if value.items is not None or value.container or len(refs) != 1:
            return None
        (ref,) = refs
        odd = ref.perhaps or ref.hidden or ref.guess or ref.array or ref.several
        if not ref.exact or odd or ref.root not in plain:
            return None
        found.add(ref.root.removeprefix("param:"))
    return found.pop() if len(found) == 1 else None


def _may_return(trace: Trace, argument: str) -> bool:
    """Whether memory of an argument is returned on some path in sight."""
    return any(
        ref.root == f"param:{argument}" and not ref.guess
        for returned in trace.returns
        for ref in returned.value.all_refs()
    )


def _known_writes(trace: Trace, argument: str) -> tuple[Event, ...]:
    events = trace.on(f"param:{argument}")
    return tuple(e for e in events if e.effect in MUTATIONS and e.known)


def _written(inplace: Trace, functional: Trace, argument: str, declared: bool) -> tuple[Event, ...]:
    """What writes to an argument; of code out of sight, what is given its place to fill."""
    known = _known_writes(inplace, argument)
    if known:
        return known
    handed = [e for e in inplace.on(f"param:{argument}") if e.effect is Effect.OPAQUE]
    if declared:
        return tuple(handed)
    results = {r.root for way in functional.returns for r in way.value.all_refs()}
    filled = {e.node for e in functional.events if e.effect is Effect.OPAQUE and e.root in results}
    return tuple(e for e in handed if e.node in filled)


def _is_fresh(value: Value) -> bool:
    refs = value.all_refs()
    own = all(ref != UNSEEN and ref.root.startswith("fresh:") for ref in refs)
    return value.null is not True and bool(refs) and own


def _rebound(function: FunctionNode | ast.Lambda, flag: str) -> ast.AST | None:
    """A place inside a function that binds the flag's name, or makes it another one's."""
    own = set(ast.walk(function.args))
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name == flag:
                return node
            case ast.arg(arg=name) if name == flag and node not in own:
                return node
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if name == flag:
                return node
            case ast.Global(names=names) | ast.Nonlocal(names=names) if flag in names:
                return node
            case ast.alias() if flag == (node.asname or node.name):
                return node
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) if name == flag:
                return node
    return None
