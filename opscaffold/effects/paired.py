"""Optional buffers that are given together or not at all: how a kernel treats them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from opscaffold.effects.buffers import Argument, BufferUse, start_value, use_in
from opscaffold.effects.follow import follow
from opscaffold.effects.helpers import statements_of
from opscaffold.effects.trace import FunctionNode, Names, Trace
from opscaffold.effects.values import NONE, UNSEEN, Value, parameter
from opscaffold.records import dataclass, replace

_N = TypeVar("_N")

# Every combination of them is followed.
_MOST = 4


@dataclass(frozen=True, slots=True)
class PairedUse:
    """How buffers are treated that are given together or not at all.

    ``uses`` has one entry for each; all have the same two traces. ``beside_given`` and
    ``beside_omitted`` say how tests came out in all other ways to call, those that give only some
    of the buffers included. ``order`` are the buffers in the order in which they are returned,
    where every return is all of them and nothing else. ``separate`` says that without buffers it
    returns as many tensors, each in memory of its own. ``mixed`` says that a call with only some
    of the buffers may return.
    """

    uses: tuple[BufferUse, ...]
    beside_given: Trace
    beside_omitted: Trace
    order: tuple[str, ...] | None
    separate: bool
    mixed: bool

    @property
    def given(self) -> Trace:
        """What is seen where all are given."""
        return self.uses[0].given

    @property
    def omitted(self) -> Trace:
        """What is seen where none is given."""
        return self.uses[0].omitted

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, in the order in which they were asked for."""
        return tuple(use.argument.name for use in self.uses)


def use_of_pair(
    function: FunctionNode | ast.Lambda,
    arguments: Iterable[Argument],
    buffers: Sequence[str],
    names: Names,
) -> PairedUse | None:
    """Follow a kernel with every combination of buffers; None where these are too many."""
    if not 2 <= len(buffers) <= _MOST:
        return None
    arguments = list(arguments)
    start = {a.name: start_value(a) for a in arguments}
    body = statements_of(function)
    asked = [
        n for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id in set(buffers)
    ]
    traces: dict[tuple[bool, ...], Trace] = {}
    for ways in itertools.product((False, True), repeat=len(buffers)):
        passed = {b: parameter(b) if w else NONE for b, w in zip(buffers, ways, strict=True)}
        traces[ways] = follow(body, start | passed, names, ask=asked)
    none, every = (False,) * len(buffers), (True,) * len(buffers)
    given, omitted = traces[every], traces[none]
    by_name = {a.name: a for a in arguments}
    return PairedUse(
        tuple(use_in(function, by_name[b], given, omitted) for b in buffers),
        _beside(given, [t for w, t in traces.items() if w != every]),
        _beside(omitted, [t for w, t in traces.items() if w != none]),
        _order(given, buffers),
        bool(omitted.returns) and all(_is_separate(r.value, len(buffers)) for r in omitted.returns),
        any(t.returns for w, t in traces.items() if w not in (none, every)),
    )


def _beside(trace: Trace, others: Sequence[Trace]) -> Trace:
    return replace(
        trace,
        tests=_merged([t.tests for t in others]),
        nulls=_merged([t.nulls for t in others]),
        chosen=_merged([t.chosen for t in others]),
    )


def _merged(found: Iterable[Mapping[_N, AbstractSet[bool | None]]]) -> dict[_N, set[bool | None]]:
    merged: dict[_N, set[bool | None]] = {}
    for answers in found:
        for node, values in answers.items():
            merged.setdefault(node, set()).update(values)
    return merged


def _order(given: Trace, buffers: Sequence[str]) -> tuple[str, ...] | None:
    orders = set()
    for returned in given.returns:
        items = returned.value.items
        if items is None or returned.value.container or returned.value.keys is not None:
            return None
        orders.add(tuple(_parameter(item) for item in items))
    if len(orders) != 1:
        return None
    (order,) = orders
    return tuple(map(str, order)) if sorted(map(str, order)) == sorted(buffers) else None


def _parameter(value: Value) -> str | None:
    """The parameter that a value is for sure."""
    refs = value.all_refs()
    if value.items is not None or value.container or len(refs) != 1:
        return None
    (ref,) = refs
    odd = ref.perhaps or ref.hidden or ref.guess or ref.array or ref.several
    if odd or not ref.exact or not ref.root.startswith("param:"):
        return None
    return ref.root.removeprefix("param:")


def _is_separate(value: Value, count: int) -> bool:
    """Whether a value is a tuple of so many new tensors that share no memory."""
    if value.items is None or value.container or len(value.items) != count:
        return False
    seen: set[str] = set()
    for item in value.items:
        refs = item.all_refs()
        roots = {ref.root for ref in refs}
        plain = item.items is None and not item.container and item.null is not True
        if not plain or not refs or UNSEEN in refs or roots & seen:
            return False
        if not all(root.startswith("fresh:") for root in roots):
            return False
        seen |= roots
    return True
