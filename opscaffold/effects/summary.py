"""What a kernel does, in three values: which arguments it mutates, what its returns alias."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable
from dataclasses import dataclass

from opscaffold.effects.buffers import Argument, body_of, start_value
from opscaffold.effects.follow import follow
from opscaffold.effects.trace import MUTATIONS, Effect, Event, FunctionNode, Names, Returned, Trace
from opscaffold.effects.values import UNSEEN, Ref, Value


class Answer(enum.Enum):
    """Whether something happens."""

    NEVER = "never"
    SOMETIMES = "sometimes"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Mutation:
    """How one argument is mutated, with the places where it is."""

    argument: str
    answer: Answer
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Aliasing:
    """How one return shares memory.

    ``index`` is the place in a returned tuple, None for a single return. ``root`` is the memory:
    ``param:x``, ``global:name``. ``exact`` says it is that object, ``perhaps`` that on some
    inputs it is a copy, ``hidden`` that PyTorch's own check cannot see it. ``places`` are the
    returns concerned (or, where a body just ends, the function).
    """

    index: int | None
    root: str
    answer: Answer
    exact: bool
    perhaps: bool
    hidden: bool
    places: tuple[ast.AST, ...]


@dataclass(frozen=True, slots=True)
class Effects:
    """All of it. ``opaque`` are the arguments that code out of sight was given, with the calls."""

    trace: Trace
    mutations: dict[str, Mutation]
    aliases: tuple[Aliasing, ...]
    overlaps: tuple[ast.AST, ...]
    opaque: dict[str, tuple[ast.AST, ...]]

    def mutates(self, argument: str) -> Answer:
        """Whether an argument is mutated, as far as the code is in sight."""
        found = self.mutations.get(argument)
        return Answer.NEVER if found is None else found.answer


def effects_of(
    function: FunctionNode | ast.Lambda, arguments: Iterable[Argument], names: Names
) -> Effects:
    """Follow a kernel with everything that it may be given."""
    arguments = list(arguments)
    trace = follow(body_of(function), {a.name: start_value(a) for a in arguments}, names)
    mutations = {}
    opaque: dict[str, tuple[ast.AST, ...]] = {}
    for argument in arguments:
        events = trace.on(f"param:{argument.name}")
        written = tuple(e for e in events if e.effect in MUTATIONS and e.sure)
        if written:
            root = f"param:{argument.name}"
            everywhere = all(root in r.mutated for r in trace.returns)
            answer = Answer.ALWAYS if everywhere and trace.returns else Answer.SOMETIMES
            mutations[argument.name] = Mutation(argument.name, answer, written)
        handed = tuple(e.node for e in events if e.effect is Effect.OPAQUE)
        if handed:
            opaque[argument.name] = handed
    return Effects(
        trace,
        mutations,
        tuple(_aliases(trace, function)),
        tuple(_overlaps(trace, function)),
        opaque,
    )


def _parts(value: Value) -> list[tuple[int | None, Value]]:
    if value.items is None:
        return [(None, value)]
    return list(enumerate(value.items))


def _aliases(trace: Trace, function: ast.AST) -> Iterable[Aliasing]:
    found: dict[tuple[int | None, str], list[tuple[Returned, Ref, bool]]] = {}
    for returned in trace.returns:
        for index, part in _parts(returned.value):
            refs = part.all_refs()
            only = len({r.root for r in refs}) == 1 and UNSEEN not in refs
            for ref in refs:
                if ref.root.startswith(("param:", "global:")):
                    found.setdefault((index, ref.root), []).append((returned, ref, only))
    total = len(trace.returns)
    for (index, root), hits in found.items():
        met = [ref for _, ref, _ in hits]
        returns = {id(r) for r, _, _ in hits}
        perhaps = all(ref.perhaps for ref in met)
        always = len(returns) == total and all(only for *_, only in hits) and not perhaps
        places = [r.node or function for r, _, _ in hits]
        yield Aliasing(
            index,
            root,
            Answer.ALWAYS if always else Answer.SOMETIMES,
            any(ref.exact for ref in met),
            perhaps,
            all(ref.hidden for ref in met),
            tuple(dict.fromkeys(places)),
        )


def _overlaps(trace: Trace, function: ast.AST) -> Iterable[ast.AST]:
    """Returns of which two parts surely share memory."""
    for returned in trace.returns:
        roots = [
            {r.root for r in part.all_refs() if r.root.startswith("fresh:") and not r.perhaps}
            for _, part in _parts(returned.value)
        ]
        if any(a & b for i, a in enumerate(roots) for b in roots[i + 1 :]):
            yield returned.node or function
