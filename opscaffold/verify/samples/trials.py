"""The trials of one search: each call is made once, within a budget of calls and of time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from opscaffold.contract.model import Kind
from opscaffold.verify.checks.base import quiet, same
from opscaffold.verify.op import Op, results
from opscaffold.verify.sample import Sample
from opscaffold.verify.samples.choices import buffers_of
from opscaffold.verify.samples.points import RELATIONS, Given, Point
from opscaffold.verify.samples.recipes import made
from opscaffold.verify.samples.trial import (
    SECONDS,
    Outcome,
    attempt,
    dtypes_named,
    shapes_named,
)
from opscaffold.verify.samples.watch import Seen, TooLongError, Watch

CPU = torch.device("cpu")
SYNTHESISED = "synthesised"
_LARGEST = 128


@dataclass(frozen=True)
class Accepted:
    """A call that the op takes."""

    point: Point
    sample: Sample
    outcome: Outcome


@dataclass
class Budget:
    """How far a search may go."""

    calls: int = 400
    seconds: float = 10.0


class Trials:
    """Tries points on one op, and keeps count."""

    def __init__(self, op: Op, watch: Watch, budget: Budget) -> None:
        self.op = op
        self.watch = watch
        self.tried = 0
        self._asked = 0
        self.accepted = 0
        self._calls = budget.calls
        self._seconds = SECONDS
        self._until = time.monotonic() + budget.seconds
        self._known: dict[str, tuple[Accepted | None, Outcome]] = {}
        self._sibling = functional_sibling(op)
        self.refused = Seen()

    @property
    def spent(self) -> bool:
        """Whether the budget is used up."""
        asked_enough = self._asked >= 8 * self._calls
        return asked_enough or self.tried >= self._calls or time.monotonic() > self._until

    def allow(self, calls: int) -> None:
        """Allow so many calls more."""
        self._calls = self.tried + calls
        self._asked = 0

    def attempt(self, point: Point) -> tuple[Accepted | None, Outcome] | None:
        """What comes of a point; None where it cannot be made, or was tried before."""
        if self.spent:
            return None
        self._asked += 1
        try:
            point = self._fitted(point)
            recipes = point.recipes()
        except (ValueError, IndexError):
            return None
        key = repr(sorted(recipes.items()))
        if key in self._known:
            return None
        given = {name: made(value, CPU) for name, value in recipes.items()}
        sample = self.op.with_arguments(Sample((), {}, "", SYNTHESISED), given, "")
        outcome = attempt(self.op, sample, self.watch, self._seconds)
        self.tried += 1
        if isinstance(outcome.error, TooLongError):
            self._seconds = max(self._seconds / 2, 0.05)
        found = None
        if outcome.accepted:
            self.accepted += 1
            found = Accepted(point, sample, outcome)
        else:
            self.refused.lines |= outcome.seen.lines
            self.refused.truths |= outcome.seen.truths
        self._known[key] = found, outcome
        return found, outcome

    def is_filled_whole(self, accepted: Accepted) -> bool:
        """Whether what an out= op leaves in its buffers does not depend on what they held."""
        buffers = [p.name for p in buffers_of(self.op)]
        if not buffers or accepted.outcome.error is not None:
            return True
        left: list[list[Any]] = []
        for fill in (3, 1):
            mine = accepted.sample.fresh()
            arguments = self.op.arguments(mine)
            written = [arguments[name] for name in buffers if arguments.get(name) is not None]
            with quiet():
                try:
                    for tensor in written:
                        tensor.fill_(fill)
                    self.op(mine)
                except Exception:  # noqa: BLE001 -- kernels raise what they like
                    return False
            left.append(written)
        return same(left[0], left[1], exact=True)

    def corrections(self, point: Point, outcome: Outcome) -> Iterator[Point]:
        """The same call with what is written made as the call or its error says."""
        yield from _as_wanted(point, outcome)
        written = [p.name for p in self.op.written]
        is_out = self.op.kind is Kind.OUT or outcome.ill_sized
        wanted = dict(outcome.resized) if is_out else {}
        for name, shape in wanted.items():
            value = point.get(name)
            if isinstance(value, Given):
                yield point.with_value(name, _of_shape(value, shape))
        if outcome.error is None:
            return
        shapes, dtypes = shapes_named(outcome.error), dtypes_named(outcome.error)
        for name in written:
            value = point.get(name)
            if not isinstance(value, Given):
                continue
            for shape in shapes:
                yield point.with_value(name, _of_shape(value, shape))
            for dtype in dtypes:
                yield point.with_value(name, _of_dtype(value, dtype))

    def _fitted(self, point: Point) -> Point:
        """The point with buffers as the functional op of that name says, where there is one."""
        buffers = buffers_of(self.op)
        given = [point.get(p.name) for p in buffers]
        if self._sibling is None or not all(isinstance(value, Given) for value in given):
            return point
        reads = {n: made(v, CPU) for n, v in point.recipes().items() if n not in self.op_written}
        with quiet(), torch.no_grad():
            try:
                returned = results(self._sibling(**reads))
            except Exception:  # noqa: BLE001 -- kernels raise what they like
                return point
        tensors = [value for value in returned if isinstance(value, torch.Tensor)]
        if len(tensors) != len(buffers):
            return point
        for parameter, value, tensor in zip(buffers, given, tensors, strict=True):
            fitted = _of_dtype(_of_shape(value, tuple(tensor.shape)), tensor.dtype)
            point = point.with_value(parameter.name, fitted)
        return point

    @property
    def op_written(self) -> set[str]:
        """The names of the arguments that are written."""
        return {p.name for p in self.op.written}


def functional_sibling(op: Op) -> Any:
    """The functional op that an out= op is a form of, by its name; None if there is none."""
    if op.kind is not Kind.OUT:
        return None
    namespace = getattr(torch.ops, op.contract.namespace)
    reads = [p.name for p in op.contract.parameters if not p.mutated]
    names = [op.contract.name] if op.contract.overload else []
    names += [op.contract.name.removesuffix("_out")]
    for name in names:
        try:
            found = getattr(namespace, name).default
        except AttributeError:
            continue
        schema = found._schema
        if not schema.is_mutable and [a.name for a in schema.arguments] == reads:
            return found
    return None


def _as_wanted(point: Point, outcome: Outcome) -> Iterator[Point]:
    """The call with a tensor made as the kernel's last comparisons would have it."""
    if outcome.error is None:
        return
    names = [name for name, _ in point.values]
    for name, what, dimension, value in reversed(outcome.seen.wanted[-8:]):
        given = point.get(name) if name in names else None
        if not isinstance(given, Given):
            continue
        try:
            shape = given.shape_in(point.lead)
        except ValueError:
            continue
        if what == "dtype" and isinstance(value, torch.dtype):
            yield point.with_value(name, _of_dtype(given, value))
        elif what == "shape" and isinstance(value, tuple) and max(value, default=0) <= _LARGEST:
            yield point.with_value(name, _of_shape(given, tuple(map(int, value))))
        elif what == "rank" and isinstance(value, int):
            for relation in RELATIONS:
                other = Given(relation, given.dtype, given.number, given.layout, given.index)
                if _rank(other, point.lead) == value:
                    yield point.with_value(name, other)
        elif (
            what == "size"
            and isinstance(value, int)
            and 0 <= value <= _LARGEST
            and -len(shape) <= dimension < len(shape)
        ):
            sizes = list(shape)
            sizes[dimension] = value
            yield point.with_value(name, _of_shape(given, tuple(sizes)))


def _rank(given: Given, lead: tuple[int, ...]) -> int:
    try:
        return len(given.shape_in(lead))
    except ValueError:
        return -1


def _of_shape(value: Given, shape: tuple[int, ...]) -> Given:
    return Given(value.relation, value.dtype, value.number, value.layout, value.index, shape)


def _of_dtype(value: Given, dtype: torch.dtype) -> Given:
    return Given(value.relation, dtype, value.number, value.layout, value.index, value.shape)
