"""What an op computes depends on the elements of its arguments, not on where they lie.

Each sample with an unusual layout is called again on contiguous copies. No schema declares a
layout, so a kernel that reads raw memory, or writes to what ``contiguous()`` gave it, must not
change its result with the strides of what it is passed. Random ops are left out: they draw their
numbers in the order of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import DEPENDS_ON_LAYOUT
from opscaffold.verify.checks.base import (
    SEED,
    Bench,
    Check,
    Cost,
    Observation,
    call,
    first_difference,
    same,
)
from opscaffold.verify.checks.determinism import differs, filled
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample, describe, tensors_in

MOST_SAMPLES = 12


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Call each sample as it is and on contiguous copies."""
    unusual = [sample for sample in samples if any(map(_is_unusual, tensors_in([*_all(sample)])))]
    if op.kind is Kind.OUT:
        # No sample has such buffers, since torch.compile takes none: an eager call does.
        unusual = [*(_with_strided_buffers(op, sample) for sample in samples[:1]), *unusual]
    with filled():
        for sample in unusual[:MOST_SAMPLES]:
            yield from _compared(op, sample)


def _with_strided_buffers(op: Op, sample: Sample) -> Sample:
    given = op.arguments(sample)
    for name in op.contract.mutated:
        buffer = given.get(name)
        if isinstance(buffer, Tensor) and buffer.dim():
            memory = buffer.new_zeros(*buffer.shape[:-1], 2 * buffer.shape[-1])
            given[name] = memory[..., ::2].copy_(buffer)
    return op.with_arguments(sample, given, f"{sample.label}, strided buffers")


def _compared(op: Op, sample: Sample) -> Iterator[Observation]:
    here, there = call(op, sample), call(op, _contiguous(sample))
    if here.error is not None or there.error is not None:
        return
    names = [parameter.name for parameter in op.written]
    left, right = op.arguments(here.sample), op.arguments(there.sample)
    pairs = [(f"the argument {n}", left[n], right[n]) for n in names if n in left]
    single = len(here.returned) == 1
    pairs += [
        ("the return" if single else f"return {number}", one, other)
        for number, (one, other) in enumerate(zip(here.returned, there.returned, strict=True))
    ]
    for what, one, other in pairs:
        if same(one, other):
            continue
        if differs(op, sample, SEED) or differs(op, sample, SEED + 1):
            return
        place = _where(one, other)
        message = f"{what} is another on contiguous copies of the same arguments{place}"
        yield Observation(DEPENDS_ON_LAYOUT, message, sample, what)


def _where(one: Any, other: Any) -> str:
    """The first element that differs, in words; the whole value where there is none."""
    found = first_difference(one, other)
    if found is None:
        return f": {describe(one)} here, {describe(other)} there"
    return f": element {found[0]} is {found[1]} here and {found[2]} there"


def _contiguous(sample: Sample) -> Sample:
    args = tuple(map(_dense, sample.args))
    kwargs = {name: _dense(value) for name, value in sample.kwargs.items()}
    return replace(sample, args=args, kwargs=kwargs)


def _dense(value: Any) -> Any:
    if isinstance(value, Tensor) and _is_unusual(value):
        with torch.no_grad():
            copy = value.clone(memory_format=torch.contiguous_format)
        return copy.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_dense, value))
    return value


def _is_unusual(tensor: Tensor) -> bool:
    if tensor.layout != torch.strided:
        return False
    return not tensor.is_contiguous() or tensor.storage_offset() != 0


def _all(sample: Sample) -> Iterator[Any]:
    yield from sample.args
    yield from sample.kwargs.values()


CHECK = Check("layouts", Cost.CALLS, run)
