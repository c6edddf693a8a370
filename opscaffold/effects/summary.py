"""What a kernel does, in three values: which arguments it mutates, what its returns alias."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable

from opscaffold.effects.buffers import Argument, start_value
from opscaffold.effects.helpers import statements_of
from opscaffold.effects.paths import follow_paths
from opscaffold.effects.trace import MUTATIONS, Effect, Event, FunctionNode, Names, Returned, Trace
from opscaffold.effects.values import UNSEEN, Ref, Value
from opscaffold.records import dataclass


class Answer(enum.Enum):
    """Whether something happens."""

    NEVER = "never"
    SOMETIMES = "sometimes"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Mutation:
    """How one argument is mutated, with the places where it is.

    ``perhaps`` says that on some inputs only a copy of it is written to.
    """

    argument: str
    answer: Answer
    events: tuple[Event, ...]
    perhaps: bool = False


@dataclass(frozen=True, slots=True)
class Aliasing:
    """How one return shares memory.

    ``index`` is the place in a returned tuple, None for a single return. ``root`` is the memory:
    ``param:x``, ``global:name``, or a ``fresh:`` one that is kept beyond the call. ``exact`` says
    that it is that object, ``perhaps`` that on some inputs it is a copy, ``hidden`` that PyTorch's
    own check cannot see it. ``places`` are the returns concerned (or, where a body just ends, the
    function).
    """

    index: int | None
    root: str
    answer: Answer
    exact: bool
    perhaps: bool
    hidden: bool
    places: tuple[ast.AST, ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """A return of which two parts share memory; ``same`` says that they are one tensor."""

    place: ast.AST
    answer: Answer
    same: bool


@dataclass(frozen=True, slots=True)
class Effects:
    """All of it. ``opaque`` are the arguments that code out of sight was given, with the calls."""

    trace: Trace
    mutations: dict[str, Mutation]
    aliases: tuple[Aliasing, ...]
    overlaps: tuple[Overlap, ...]
    opaque: dict[str, tuple[ast.AST, ...]]

    def mutates(self, argument: str) -> Answer:
        """Whether an argument is mutated, as far as the code is in sight."""
        found = self.mutations.get(argument)
        return Answer.NEVER if found is None else found.answer


def effects_of(
    function: FunctionNode | ast.Lambda,
    arguments: Iterable[Argument],
    names: Names,
    devices: frozenset[str] = frozenset(),
) -> Effects:
    """Follow a kernel with everything that it may be given.

    ``devices`` are the types of device it is registered for, empty where that is not known.
    """
    arguments = list(arguments)
    start = {a.name: start_value(a) for a in arguments}
    trace = follow_paths(statements_of(function), start, names, devices)
    mutations = {}
    opaque: dict[str, tuple[ast.AST, ...]] = {}
    for argument in arguments:
        root = f"param:{argument.name}"
        events = trace.on(root)
        written = tuple(e for e in events if e.effect in MUTATIONS and e.known)
        if written:
            everywhere = all(root in r.mutated for r in trace.returns)
            answer = Answer.ALWAYS if everywhere and trace.returns else Answer.SOMETIMES
            perhaps = all(e.perhaps for e in written)
            mutations[argument.name] = Mutation(argument.name, answer, written, perhaps)
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


def _aliases(trace: Trace, function: ast.AST) -> Iterable[Aliasing]:
    kept = {e.root for e in trace.events if e.effect is Effect.KEEP and e.root[:6] == "fresh:"}
    found: dict[tuple[int | None, str], list[tuple[Returned, Ref, bool]]] = {}
    for returned in trace.returns:
        for index, part in returned.value.parts():
            refs = part.all_refs()
            only = len({r.root for r in refs}) == 1 and UNSEEN not in refs
            for ref in refs:
                lasting = ref.root.startswith(("param:", "global:")) or ref.root in kept
                if lasting and not ref.guess:
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


def _overlaps(trace: Trace, function: ast.AST) -> Iterable[Overlap]:
    """Returns of which two parts share memory that the call allocated."""
    for returned in trace.returns:
        leaves = [_allocated(leaf, trace) for leaf in returned.value.leaves()]
        met: list[tuple[Ref, Ref, bool]] = [
            (ref, ref, len(refs) == 1)
            for refs in leaves
            for ref in refs
            if ref.several and not ref.exact
        ]
        for i, left in enumerate(leaves):
            for right in leaves[i + 1 :]:
                # Where either is one of many, the two may well be chosen apart.
                if min(len(left), len(right)) == 1:
                    sure = len(left) == len(right) == 1
                    met += [(a, b, sure) for a in left for b in right if _may_meet(a, b)]
        if met:
            always = any(sure and not (a.perhaps or b.perhaps) for a, b, sure in met)
            yield Overlap(
                returned.node or function,
                Answer.ALWAYS if always else Answer.SOMETIMES,
                any(a.exact and b.exact for a, b, _ in met),
            )


def _may_meet(one: Ref, other: Ref) -> bool:
    """Whether two parts may stand on one memory: of two dtypes, at most one is no copy."""
    return one.root == other.root and (one.dtype == other.dtype or not (one.dtype and other.dtype))


def _allocated(value: Value, trace: Trace) -> list[Ref]:
    return [
        ref
        for ref in value.refs
        if ref.root.startswith("fresh:") and not ref.guess and ref.root not in trace.repeated
    ]
