"""What a call shows that another may not, and which few calls show it all."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from opscaffold.verify.samples.points import Given, Omitted, Several
from opscaffold.verify.samples.trials import Accepted

KEPT = 14
"""Made-up calls of one op, before they are varied."""


def elements(found: Accepted) -> set[Hashable]:
    """What a call shows that another may not: lines, how tests come out, kinds of arguments."""
    seen = found.outcome.seen
    told: set[Hashable] = {*seen.lines, *seen.outcomes}
    told |= {
        (name, "rank", len(given.shape_in(found.point.lead)))
        for name, tensors in found.point.tensors().items()
        for given in tensors
    }
    return told | {
        feature for name, value in found.point.values for feature in _features(name, value)
    }


def is_rank(element: Hashable) -> bool:
    """Whether an element says no more than how many dimensions a tensor has."""
    return isinstance(element, tuple) and element[1] == "rank"


def is_doubtful(element: Hashable) -> bool:
    """Whether it says no more than that, or that a number is 0 or negative."""
    sign = isinstance(element, tuple) and element[1] == "sign" and element[2] < 1
    return is_rank(element) or sign


def _features(name: str, value: Any) -> Iterator[Hashable]:
    if isinstance(value, Omitted) or value is None:
        yield name, type(value).__name__
        return
    yield name, "given"
    if isinstance(value, Several):
        yield name, "items", min(len(value.items), 2), None in value.items
    elif isinstance(value, bool):
        yield name, str(value)
    elif isinstance(value, (int, float)):
        yield name, "sign", (value > 0) - (value < 0)
    elif not isinstance(value, (Given, tuple, str)):
        yield name, repr(value)


def fewest(kept: list[Accepted]) -> list[Accepted]:
    """The first call and as few others as show all that all of them show."""
    chosen = kept[:1]
    left = set().union(*map(elements, kept)) - elements(kept[0])
    while left and len(chosen) < KEPT:
        best = max(kept, key=lambda each: len(elements(each) & left))
        left -= elements(best)
        chosen.append(best)
    return sorted(chosen, key=kept.index)
