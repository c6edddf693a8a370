"""A program around the op comes out alike in eager mode and compiled by Inductor.

Inductor plans memory and drops calls by what schema and fake kernel say. Where it would call an
out= overload in place of the op, it is kept from it here: the lowering check looks at that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from opscaffold.contract.model import base_name
from opscaffold.findings.promises import CLONE_REMOVED, FLOAT_AMONG_RETURNS
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation
from opscaffold.verify.checks.compiled import eager, observation, programs
from opscaffold.verify.differential import Departure, choose, departures, expected
from opscaffold.verify.op import Op
from opscaffold.verify.outvariant import without_lowering
from opscaffold.verify.programs import WRITING, Program, copied
from opscaffold.verify.sample import Sample

BACKEND = "inductor"
MOST_SAMPLES = 3


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Compile all programs on a few samples as one; then what Inductor gets wrong for every op."""
    chosen = choose(op, samples, MOST_SAMPLES)
    with without_lowering():
        # That a write to a return reaches an argument shows before code is generated.
        around = [program for program in programs(op) if program is not WRITING]
        found = departures(op, eager(op, chosen, around), BACKEND)
        for each in found:
            if _is_float_among_returns(op, each):
                message = f"{op.qualname} returns a float beside other values"
                yield Observation(FLOAT_AMONG_RETURNS, message, each.run.sample)
            else:
                yield observation(each, BACKEND)
        if not found and chosen:
            yield from _clone_removed(op, chosen[0])


def _is_float_among_returns(op: Op, departure: Departure) -> bool:
    """Whether Inductor gave up on what it can compile of no op."""
    returns = op.contract.returns
    a_float = len(returns) > 1 and any(base_name(each.type) == "float" for each in returns)
    return a_float and "output type <class 'float'>" in str(departure.error)


def _clone_removed(op: Op, sample: Sample) -> Iterator[Observation]:
    """Pass a clone of what is read for what is written (FACTS section 10)."""
    pair = _alike(op, sample)
    if pair is None:
        return
    written, given = pair
    program = _with_clone(op, sample, written, given)
    wanted = expected(op, program, sample)
    if wanted is None or not wanted.repeatable:
        return
    if any(each.error is None for each in departures(op, [wanted], BACKEND)):
        message = (
            f"Inductor leaves out the clone in {written} = {given}.clone(); "
            f"{op.qualname}(..., {written}, {given}): the kernel then reads what it writes"
        )
        yield Observation(CLONE_REMOVED, message, sample, written)


def _alike(op: Op, sample: Sample) -> tuple[str, str] | None:
    """A written argument, and one that is read and could be cloned for it."""
    tensors = {n: v for n, v in op.arguments(sample).items() if isinstance(v, Tensor)}
    mutated = op.contract.mutated
    for written in (name for name in tensors if name in mutated):
        for given, value in tensors.items():
            here = tensors[written]
            if given not in mutated and (value.shape, value.dtype) == (here.shape, here.dtype):
                return written, given
    return None


def _with_clone(op: Op, sample: Sample, written: str, given: str) -> Program:
    names = list(op.arguments(sample))
    passed = len(sample.args)

    def body(overload: Any, args: Any, kwargs: Any) -> Any:
        values = [*args, *[kwargs[name] for name in names[passed:]]]
        # Inductor leaves the clone of an argument of the program alone.
        values[names.index(given)] = copied(values[names.index(given)])
        values[names.index(written)] = values[names.index(given)].clone()
        named = dict(zip(names[passed:], values[passed:], strict=True))
        overload(*values[:passed], **named)
        return None, [copied(values[names.index(written)])]

    return Program(f"a program that passes a clone of {given} for {written}", body)


CHECK = Check("inductor", Cost.INDUCTOR, run)
