"""Following a function once for each way its tests can come out together.

``if flag: y = x.clone()`` and, further down, ``if flag: y.add_(1)`` are one choice, not two: of
paths that are joined in between, only some can be taken.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import product

from opscaffold.effects.follow import follow
from opscaffold.effects.terms import equality
from opscaffold.effects.trace import MUTATIONS, Effect, Names, Trace
from opscaffold.effects.values import Value

_TESTS = 6  # tests told apart at most, the ones that are met most often first
_RUNS = 24  # times that one function is followed at most


def follow_paths(
    body: list[ast.stmt],
    values: Mapping[str, Value],
    names: Names,
    devices: frozenset[str] = frozenset(),
) -> Trace:
    """Follow a body; where arguments are written to or shared, path by path.

    ``devices`` are the types of device that the arguments stand on, empty where that is not known.
    """
    trace = follow(body, values, names, devices=devices)
    if not _at_stake(trace):
        return trace
    ways = list(_ways(trace))
    if len(ways) < 2:
        return trace
    return _merged([follow(body, values, names, devices=devices, assumed=way) for way in ways])


def _at_stake(trace: Trace) -> bool:
    """Whether anything was seen that depends on which paths there are."""
    lasting = ("param:", "global:")
    if any(
        e.effect in MUTATIONS | {Effect.KEEP} and e.root.startswith((*lasting, "fresh:"))
        for e in trace.events
        if e.effect is Effect.KEEP or e.root.startswith(lasting)
    ):
        return True
    for returned in trace.returns:
        roots = [ref.root for leaf in returned.value.leaves() for ref in leaf.all_refs()]
        if any(root.startswith(lasting) for root in roots) or len(set(roots)) < len(roots):
            return True
    return False


def _ways(trace: Trace) -> Iterator[dict[str, bool]]:
    """The ways in which the tests that were met can come out together."""
    often = sorted(trace.asked, key=lambda term: (-len(trace.asked[term]), term))
    subjects: dict[str, list[str]] = {}
    for term in often[:_TESTS]:
        compared = equality(term)
        subjects.setdefault(term if compared is None else compared[0] + " ==", []).append(term)
    choices: list[list[dict[str, bool]]] = []
    runs = 1
    for terms in subjects.values():
        # What equals one constant equals no other one.
        each = [{t: t == chosen for t in terms} for chosen in terms]
        each.append(dict.fromkeys(terms, False))
        if runs * len(each) > _RUNS:
            continue
        runs *= len(each)
        choices.append(each)
    for way in product(*choices):
        yield {term: answer for part in way for term, answer in part.items()}


def _merged(traces: list[Trace]) -> Trace:
    result = Trace()
    for trace in traces:
        result.events += trace.events
        result.returns += trace.returns
        for mine, theirs in ((result.tests, trace.tests), (result.nulls, trace.nulls)):
            for node, answers in theirs.items():
                mine.setdefault(node, set()).update(answers)
        for choice, answers in trace.chosen.items():
            result.chosen.setdefault(choice, set()).update(answers)
        result.absent_outs |= trace.absent_outs
        result.repeated |= trace.repeated
        result.undefined |= trace.undefined
    result.events = list(dict.fromkeys(result.events))
    result.returns = list(dict.fromkeys(result.returns))
    return result
