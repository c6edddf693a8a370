"""Searches for calls that an op takes, and among them for few that run all of its kernel.

First one that is accepted: tensors alike, then one argument changed at a time, led by how far the
kernel got; then tensors in all relations to the first; then at random. From there each argument
is changed, and what runs a line for the first time, or makes a test come out otherwise, is kept.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from opscaffold.contract.model import Kind, Parameter
from opscaffold.verify.op import Op
from opscaffold.verify.samples.choices import Choices, is_list, is_optional
from opscaffold.verify.samples.coverage import elements, fewest, is_doubtful, is_rank
from opscaffold.verify.samples.fakes import is_described
from opscaffold.verify.samples.points import RELATIONS, Given, Point
from opscaffold.verify.samples.reading import clues_of
from opscaffold.verify.samples.recipes import STRIDED, TRANSPOSED, Shape
from opscaffold.verify.samples.trial import Outcome, kernels_of
from opscaffold.verify.samples.trials import Accepted, Budget, Trials
from opscaffold.verify.samples.watch import Watch

_PRODUCT = 60
"""Combinations of relations that are tried on one leading shape."""
_DTYPES = (
    *(torch.int64, torch.float16, torch.bfloat16, torch.float64),
    *(torch.int32, torch.bool, torch.complex64, torch.complex128),
)
_FRUITLESS = 100
"""Calls at random in a row that show nothing new, after which the search ends."""
_MORE = 250
"""Calls to cover the kernel with, beside those that found the first."""


@dataclass
class Found:
    """What a search found: the calls to keep, simplest first, and how many were tried."""

    kept: list[Accepted] = field(default_factory=list)
    tried: int = 0
    accepted: int = 0
    error: BaseException | None = None
    """Why the op refused the call that got furthest, where none was accepted."""
    refused_lines: set[tuple[str, int]] = field(default_factory=set)


def search(op: Op, watch: Watch, budget: Budget | None = None) -> Found:
    """Search for calls of an op."""
    return _Search(op, watch, budget or Budget()).run()


class _Search:
    def __init__(self, op: Op, watch: Watch, budget: Budget) -> None:
        self._trials = Trials(op, watch, budget)
        self._choices = Choices(
            op, clues_of(kernels_of(op), [p.name for p in op.contract.parameters])
        )
        self._random = random.Random(0)  # noqa: S311 -- the same calls each time
        self._fallback: Accepted | None = None
        self._changes_of: dict[Point, list[list[Point]]] = {}
        self._best: tuple[int, Point, Outcome] | None = None

    def run(self) -> Found:
        first = self._first()
        trials = self._trials
        kept = [] if first is None else self._covering(first)
        error = None if first is not None or self._best is None else self._best[2].error
        return Found(kept, trials.tried, trials.accepted, error, trials.refused.lines)

    # The first call that is accepted.

    def _first(self) -> Accepted | None:
        after = 0
        for point in self._openings():
            found = self._attempt(point)
            if found is not None and self._is_meant(found):
                return found
            # A buffer that is written in part may be too large, and a call that the fake kernel
            # does not know may be one that nobody meant; or the op is at fault.
            self._fallback = self._fallback or found
            after += self._fallback is not None
            if self._trials.spent or after > _PRODUCT:
                break
        return self._fallback

    def _passed_by(self, first: Accepted) -> Accepted | None:
        """The call that was passed by for not being described, where its tensors are as usual."""
        passed = self._fallback
        if passed is None or set(filter(is_rank, elements(passed))) - elements(first):
            return None
        return passed

    def _is_meant(self, found: Accepted) -> bool:
        op = self._trials.op
        return self._trials.is_filled_whole(found) and is_described(op, found.sample)

    def _attempt(self, point: Point) -> Accepted | None:
        """The point, or what becomes of it by the corrections that its error asks for."""
        tried = self._trials.attempt(point)
        for _ in range(4):
            if tried is None:
                return None
            found, outcome = tried
            if found is None:
                self._remember(point, outcome)
            elif not self._is_ill_sized(outcome):
                return found
            tried, corrections = None, 0
            for corrected in self._trials.corrections(point, outcome):
                corrections += 1
                again = self._trials.attempt(corrected)
                if again is None:
                    continue
                if again[0] is not None and not self._is_ill_sized(again[1]):
                    return again[0]
                if tried is None and _differs(again[1], outcome):
                    point, tried = corrected, again
            if found is not None:
                # The call with a buffer of the right size is known already.
                return None if corrections else found
        return None

    def _is_ill_sized(self, outcome: Outcome) -> bool:
        return outcome.ill_sized or (bool(outcome.resized) and self._trials.op.kind is Kind.OUT)

    def _remember(self, point: Point, outcome: Outcome) -> None:
        progress = len(outcome.seen.lines)
        if self._best is None or progress > self._best[0]:
            self._best = progress, point, outcome

    def _openings(self) -> Iterator[Point]:
        leads = self._leads()
        # A matrix product takes vectors too, but shows more of itself on matrices.
        yield self._start(leads[0])
        yield from self._of_one_dtype(leads[0])
        yield from itertools.islice(self._product(leads[0]), _PRODUCT // 2)
        for lead in leads[1:]:
            yield self._start(lead)
        # Counts that multiply go beyond small sizes.
        yield from map(self._start, ((24,), (24, 3)))
        yield from map(self._start, self._sized_leads(leads[0]))
        yield from self._climb()
        for lead in leads:
            yield from itertools.islice(self._product(lead), _PRODUCT)
        while True:
            yield self._at_random(leads)

    def _leads(self) -> list[Shape]:
        leads = self._choices.leads()
        first = next(iter(self._required()), None)
        rank = self._choices.clues.rank_of.get(first.name) if first is not None else None
        return sorted(leads, key=lambda lead: rank is not None and len(lead) != rank)

    def _required(self) -> list[Parameter]:
        parameters = self._choices.parameters.values()
        return [
            p
            for p in parameters
            if p.is_tensor_like and not is_optional(p) and p.default is None and not is_list(p)
        ]

    def _start(self, lead: Shape) -> Point:
        """All tensors alike, but for those whose rank the kernel names."""
        point = self._choices.start(lead)
        for parameter in self._required():
            relation = self._relations(parameter, lead)[0]
            point = point.with_value(parameter.name, self._choices.tensor(parameter, relation))
        return point

    def _of_one_dtype(self, lead: Shape) -> Iterator[Point]:
        """All tensors alike in another dtype, buffers too: to change one by one leads nowhere."""
        start = self._start(lead)
        for dtype in _DTYPES:
            yield start.mapped(partial(_cast, dtype=dtype))

    def _relations(self, parameter: Parameter, lead: Shape) -> list[str]:
        """The relations that exist for a leading shape; those of the rank looked for first."""
        own = self._choices.tensor(parameter).relation
        rank = self._choices.clues.rank_of.get(parameter.name)
        found: list[tuple[bool, str]] = []
        for name in dict.fromkeys([own, *RELATIONS]):
            try:
                shape = RELATIONS[name](lead)
            except ValueError:
                continue
            found.append((rank is not None and len(shape) != rank, name))
        return [name for _, name in sorted(found, key=lambda each: each[0])] or ["same"]

    def _climb(self) -> Iterator[Point]:
        """Change one argument at a time of what got furthest, until nothing gets further."""
        while self._best is not None:
            before = self._best
            for move in self._moves(before[1]):
                yield move
                if self._best[0] > before[0]:
                    break
            else:
                return

    def _moves(self, point: Point) -> Iterator[Point]:
        for parameter in self._choices.parameters.values():
            value = point.get(parameter.name)
            if isinstance(value, Given):
                for given in self._tensors(parameter, value, point.lead):
                    yield point.with_value(parameter.name, given)
            for other in self._choices.others(parameter, point):
                yield point.with_value(parameter.name, other)

    def _tensors(self, parameter: Parameter, value: Given, lead: Shape) -> Iterator[Given]:
        for relation in self._relations(parameter, lead):
            yield replace(value, relation=relation, shape=None)
        for dtype in (torch.int64, torch.bool, torch.int32, torch.float64):
            yield replace(value, dtype=dtype, index=not dtype.is_floating_point)
            yield replace(value, dtype=dtype, relation="first", index=True, shape=None)

    def _product(self, lead: Shape) -> Iterator[Point]:
        """The required tensors but the first in all relations to it, the likely ones first."""
        start = self._start(lead)
        others = [p for p in self._required() if not self._is_buffer(p)][1:]
        names = [self._relations(p, lead) for p in others]
        orders = itertools.product(
            *(range(min(len(each), 12 if names[2:] else 24)) for each in names)
        )
        for order in sorted(orders, key=sum) if len(names) < 4 else ():
            point = start
            for parameter, number, relations in zip(others, order, names, strict=True):
                given = self._choices.tensor(parameter, relations[number])
                point = point.with_value(parameter.name, given)
            yield point

    def _is_buffer(self, parameter: Parameter) -> bool:
        return parameter.mutated and parameter.kw_only

    def _at_random(self, leads: list[Shape]) -> Point:
        pick = self._random
        if self._best is not None and pick.random() < 0.5:
            point = self._best[1]
        else:
            point = self._start(pick.choice(leads))
        for parameter in self._choices.parameters.values():
            value = point.get(parameter.name)
            if isinstance(value, Given) and pick.random() < 0.6:
                tensors = list(self._tensors(parameter, value, point.lead))
                point = point.with_value(parameter.name, pick.choice(tensors))
            elif pick.random() < 0.3:
                others = list(self._choices.others(parameter, point))
                point = point.with_value(parameter.name, pick.choice(others)) if others else point
        return point

    # More calls, to run what the first does not.

    def _covering(self, first: Accepted) -> list[Accepted]:
        self._trials.allow(_MORE)
        known: set[Hashable] = set()
        kept: list[Accepted] = []

        def keep(found: Accepted | None) -> None:
            if found is None:
                return
            new = elements(found) - known
            # What is unusual, and runs the kernel as before, must be a call that was meant.
            further = not all(map(is_doubtful, new))
            if new and (further or is_described(self._trials.op, found.sample)):
                known.update(new)
                kept.append(found)

        keep(first)
        keep(self._passed_by(first))
        for number in itertools.count():
            if number == len(kept) or self._trials.spent or (number and not self._is_open(kept)):
                break
            for alternatives in self._changes(kept[number].point):
                keep(next(filter(None, map(self._attempt, alternatives)), None))
        fruitless = 0
        while fruitless < _FRUITLESS and not self._trials.spent and self._is_open(kept):
            before = len(kept)
            keep(self._attempt(self._changed_at_random(self._random.choice(kept).point)))
            fruitless = 0 if len(kept) > before else fruitless + 1
        return fewest(kept)

    def _is_open(self, kept: list[Accepted]) -> bool:
        """Whether lines were not run, or tests came out one way alone."""
        watch = self._trials.watch
        run = {line for each in kept for line in each.outcome.seen.lines}
        if watch.executable() - run - watch.refusing() - self._trials.refused.lines:
            return True
        told: dict[tuple[str, int, int], set[str]] = {}
        truths = set(self._trials.refused.truths)
        for path, line, column, truth in truths.union(*(k.outcome.seen.truths for k in kept)):
            told.setdefault((path, line, column), set()).add(truth)
        return any(len(each) < 2 for each in told.values())

    def _changes(self, point: Point) -> Iterator[list[Point]]:
        """Calls that differ in one respect, each as the ways to go about it, the likely first."""
        for parameter in self._choices.parameters.values():
            for other in self._choices.others(parameter, point):
                ways = [point.with_value(parameter.name, other)]
                if isinstance(other, Given) and not isinstance(point.get(parameter.name), Given):
                    # What was left out may have another shape than the rest.
                    tensors = self._tensors(parameter, other, point.lead)
                    ways += [point.with_value(parameter.name, given) for given in tensors]
                yield ways
            yield from self._other_ranks(parameter, point)
        for lead in self._other_leads(point.lead):
            yield [point.with_lead(lead)]
        for changed in self._other_tensors(point):
            yield [changed]

    def _other_ranks(self, parameter: Parameter, point: Point) -> Iterator[list[Point]]:
        """A tensor in each number of dimensions that it does not have."""
        value = point.get(parameter.name)
        if not isinstance(value, Given) or self._is_buffer(parameter):
            return
        ways: dict[int, list[Point]] = {}
        for relation in self._relations(parameter, point.lead):
            other = replace(value, relation=relation, shape=None)
            rank = len(other.shape_in(point.lead))
            ways.setdefault(rank, []).append(point.with_value(parameter.name, other))
        with contextlib.suppress(ValueError):
            ways.pop(len(value.shape_in(point.lead)), None)
        yield from ways.values()

    def _other_leads(self, lead: Shape) -> Iterator[Shape]:
        yield from self._choices.leads()
        if lead:
            yield (0, *lead[1:])
            yield (*lead[:-1], 1)
            yield (1, *lead[1:])
        yield from self._sized_leads(lead)

    def _sized_leads(self, lead: Shape) -> Iterator[Shape]:
        """Shapes with sizes about the numbers that the kernel names."""
        for size in self._choices.clues.integers:
            if lead and 1 < size <= 128:
                for near in (size, size + 1, size - 1, 2 * size):
                    yield (*lead[:-1], near)
                    yield (near, *lead[1:])

    def _other_tensors(self, point: Point) -> Iterator[Point]:
        common = (torch.float64, torch.bfloat16, torch.int64)
        dtypes = dict.fromkeys([*self._choices.clues.dtypes, *common])
        written = self._trials.op_written
        for dtype in dtypes:
            yield point.mapped(partial(_of_dtype, dtype=dtype))
        for layout in (TRANSPOSED, STRIDED):
            yield point.mapped(partial(_laid_out, layout=layout, kept=written))
        for name in point.tensors():
            for dtype in self._choices.clues.dtypes:
                yield point.mapped(partial(_of_dtype, dtype=dtype, only=name))
            kept = written | (point.tensors().keys() - {name})
            yield point.mapped(partial(_laid_out, layout=TRANSPOSED, kept=kept))

    def _changed_at_random(self, point: Point) -> Point:
        for _ in range(self._random.choice((2, 2, 3))):
            changes = self._changes_of.get(point)
            if changes is None:
                changes = self._changes_of[point] = list(self._changes(point))
            if changes:
                point = self._random.choice(self._random.choice(changes))
        return point


def _differs(one: Outcome, other: Outcome) -> bool:
    told = (str(one.error), one.seen.truths, one.seen.lines)
    return told != (str(other.error), other.seen.truths, other.seen.lines)


def _of_dtype(name: str, given: Given, dtype: torch.dtype, only: str = "") -> Given:
    if given.index if not only else name != only:
        return given
    return replace(given, dtype=dtype)


def _laid_out(name: str, given: Given, layout: str, kept: AbstractSet[str]) -> Given:
    return given if name in kept else replace(given, layout=layout)


def _cast(name: str, given: Given, dtype: torch.dtype) -> Given:
    del name
    return replace(given, dtype=dtype)
