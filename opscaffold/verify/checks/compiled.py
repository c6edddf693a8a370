"""A program around the op comes out alike in eager mode and traced: fake kernel, schema, writes.

Source: torch.library, "the contract of custom operators"; FACTS S1, S2, S9 and section 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import (
    CALLS_MIXED_UP,
    COMPILE_FAILS,
    COMPILED_DIFFERS,
    GENERATOR_NOT_COMPILED,
    RETURNED_ALIAS_LOST,
)
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation, same
from opscaffold.verify.differential import Departure, Expected, choose, departures, expected
from opscaffold.verify.op import Op
from opscaffold.verify.programs import (
    AFTER,
    PLAIN,
    READING,
    UNUSED,
    WRITING,
    Program,
    Run,
    arguments,
    on_locals,
    outcomes,
)
from opscaffold.verify.sample import Sample

BACKEND = "aot_eager"
MOST_SAMPLES = 6
# What dynamo says of an argument that it has no way to trace.
_PROXY = "Failed to convert args/kwargs to proxy"
# What Inductor says of an op that it cannot tell from another (FACTS section 2, mutable ops).
_LEFT_OUT = "getitem> is not an OpOverload"
_LEFT_OUT_MEANS = (
    ": it takes no op that writes an argument which may be None, is left out, and stands beside "
    "a returned tensor; split the op in two"
)


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Trace all programs on a few samples; then the one that every tagged op departs on."""
    chosen = choose(op, samples, MOST_SAMPLES)
    found = departures(op, eager(op, chosen, programs(op)), BACKEND)
    for each in found:
        yield observation(each, BACKEND)
    if not found:
        yield from _with_sizes(op, chosen)
        yield from _returned_alias(op, chosen)


def _given(sample: Sample) -> list[Any]:
    return [*sample.args, *sample.kwargs.values()]


def _is_generator(value: Any) -> bool:
    return isinstance(value, torch.Generator)


def programs(op: Op) -> list[Program]:
    """The programs in which a sound op of that kind comes out as in eager mode."""
    written = [on_locals(op)] if op.contract.mutated else []
    # What in-place and out= ops return is no longer the argument: a limit, which is seen apart.
    writing = [] if op.kind in (Kind.INPLACE, Kind.OUT) else [WRITING]
    return [READING, UNUSED, *written, *writing]


def eager(op: Op, samples: Sequence[Sample], around: Sequence[Program]) -> list[Expected]:
    """How each program comes out in eager mode on each sample that it can be run on."""
    found = [expected(op, program, sample) for sample in samples for program in around]
    return [each for each in found if each is not None]


def observation(departure: Departure, backend: str) -> Observation:
    """What is to be told of a departure."""
    promise = COMPILED_DIFFERS if departure.error is None else COMPILE_FAILS
    sample = departure.run.sample
    if _PROXY in str(departure.error) and any(map(_is_generator, _given(sample))):
        return Observation(GENERATOR_NOT_COMPILED, GENERATOR_NOT_COMPILED.summary, sample)
    if departure.together:
        return Observation(CALLS_MIXED_UP, CALLS_MIXED_UP.summary, sample)
    message = f"{departure.run.program.name}, compiled with {backend}, {departure.told}"
    if _LEFT_OUT in str(departure.error):
        message += _LEFT_OUT_MEANS
    subject = departure.what.removesuffix(AFTER)
    return Observation(promise, message, departure.run.sample, subject)


def _with_sizes(op: Op, samples: Sequence[Sample]) -> Iterator[Observation]:
    """Trace one call with symbolic sizes."""
    first = expected(op, PLAIN, samples[0]) if samples else None
    if first is not None:
        for each in departures(op, [first], BACKEND, dynamic=True):
            told = observation(each, f"{BACKEND} and dynamic=True")
            yield Observation(told.promise, told.message, told.sample, f"dynamic {told.subject}")


def _returned_alias(op: Op, samples: Sequence[Sample]) -> Iterator[Observation]:
    """Add to what a tagged op returns: the argument should change with it, and does not."""
    if op.kind not in (Kind.INPLACE, Kind.OUT) or not samples:
        return
    wanted = expected(op, WRITING, samples[0])
    if wanted is None or not wanted.repeatable:
        return
    untouched = outcomes(op, [Run(READING, samples[0])])[0].values
    lost = []
    for each in departures(op, [wanted], BACKEND):
        if each.error is None and same(each.found, untouched.get(each.what)):
            lost.append(each)
        else:
            yield observation(each, BACKEND)
    named = [name for name, _ in arguments(op, samples[0])]
    if lost:
        what = next((each.what for each in lost if each.what in named), lost[0].what)
        message = f"compiled, what is written to the return of {op.qualname} leaves {what} alone"
        yield Observation(RETURNED_ALIAS_LOST, message, samples[0], what)


CHECK = Check("aot_eager", Cost.OPCHECK, run)
