"""A registered vmap rule does what a loop over the batch does, wherever the batch stands.

Source: torch.library.register_vmap; FACTS S13 and section 4. opcheck never runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import WRONG_VMAP
from opscaffold.verify.checks.base import (
    SEED,
    Bench,
    Check,
    Cost,
    Observation,
    first_line,
    quiet,
    same,
)
from opscaffold.verify.differential import unlike
from opscaffold.verify.op import Op, results
from opscaffold.verify.programs import shown
from opscaffold.verify.refusal import refused
from opscaffold.verify.sample import Sample, tensors_in
from opscaffold.verify.variants import variants

BATCH = 3
MOST_SAMPLES = 6

Dims = tuple[int | None, ...]
"""Where each tensor has the batch; None where it has none."""


@dataclass(frozen=True)
class _Batch:
    """The tensors of a call, and what each is for each item of the batch."""

    op: Op
    given: Sample
    sample: Sample
    """The call without its tensors."""
    names: tuple[str, ...]
    items: tuple[tuple[Tensor, ...], ...]
    """For each tensor, its ``BATCH`` versions."""
    written: tuple[bool, ...]

    def call(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Call the op on these, and return what it returns and then what it wrote."""
        left = iter(tensors)
        args = tuple(_filled(value, left) for value in self.sample.args)
        kwargs = {name: _filled(value, left) for name, value in self.sample.kwargs.items()}
        returned = list(tensors_in(results(self.op.overload(*args, **kwargs))))
        # In-place ops return what they wrote.
        wrote = [t for t, written in zip(tensors, self.written, strict=True) if written]
        return (returned if self.op.kind is not Kind.INPLACE else []) + wrote


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Batch the tensors of a call in several ways."""
    plain = [each for each in samples if not (each.inference or each.grad_mode)]
    made = [each for sample in plain[:1] for each in variants(op, sample)]
    with quiet(), torch.no_grad():
        for sample in unlike(op, [*plain, *made])[:MOST_SAMPLES]:
            batch = _batched(op, sample)
            for dims in _placements(batch) if batch is not None else ():
                found = _departure(batch, dims) if batch is not None else None
                if found is not None:
                    yield found


def _departure(batch: _Batch, dims: Dims) -> Observation | None:
    loop = _loop(batch, dims)
    if loop is None:
        return None
    told = ", ".join(f"{name} {dim}" for name, dim in zip(batch.names, dims, strict=True))
    where = f"with in_dims {told}"
    subject = " ".join("None" if dim is None else "batched" for dim in dims)
    try:
        got = _vmapped(batch, dims)
    except Exception as error:  # noqa: BLE001 -- rules raise what they like
        if refused(error):
            return None
        message = f"under vmap {where} the op raises {first_line(error)}"
        return Observation(WRONG_VMAP, message, batch.given, f"raises {subject}")
    for number, (one, other) in enumerate(zip(loop, got, strict=True)):
        if not same(one, other):
            message = (
                f"under vmap {where} result {number} is {shown(other)}, by a loop {shown(one)}"
            )
            return Observation(WRONG_VMAP, message, batch.given, subject)
    return None


def _loop(batch: _Batch, dims: Dims) -> list[Tensor] | None:
    """What calls of the op one by one leave, stacked; None where the op refuses one."""
    rows = []
    try:
        for item in range(BATCH):
            torch.manual_seed(SEED)
            tensors = [
                versions[0 if dim is None else item].clone()
                for versions, dim in zip(batch.items, dims, strict=True)
            ]
            rows.append(batch.call(tensors))
        return [torch.stack(column) for column in zip(*rows, strict=True)]
    except Exception:  # noqa: BLE001 -- the op refuses the call, or its shapes hang on values
        return None


def _vmapped(batch: _Batch, dims: Dims) -> list[Tensor]:
    tensors = [
        versions[0].clone() if dim is None else torch.stack(versions, dim)
        for versions, dim in zip(batch.items, dims, strict=True)
    ]
    torch.manual_seed(SEED)
    mapped: Any = torch.func.vmap(lambda *each: tuple(batch.call(each)), in_dims=dims)
    return list(mapped(*tensors))


def _placements(batch: _Batch) -> Iterator[Dims]:
    """First all at the front, then all at the back, then one without, then mixed."""
    number = len(batch.names)
    yield (0,) * number
    yield (-1,) * number
    for at in range(number if number > 1 else 0):
        # What is written for each item cannot be one for all.
        if not batch.written[at]:
            yield tuple(None if n == at else 0 for n in range(number))
    if number > 1:
        yield tuple(0 if n % 2 else -1 for n in range(number))


@dataclass(frozen=True)
class _Hole:
    """Marks where a tensor was."""


def _batched(op: Op, sample: Sample) -> _Batch | None:
    names: list[str] = []
    items: list[tuple[Tensor, ...]] = []
    written: list[bool] = []

    def cut(value: Any, name: str, parameter: str) -> Any:
        if isinstance(value, Tensor):
            names.append(name)
            items.append(_versions(value))
            written.append(parameter in op.contract.mutated)
            return _Hole()
        if isinstance(value, (list, tuple)):
            return [cut(each, f"{name}[{n}]", parameter) for n, each in enumerate(value)]
        return value

    given = {name: cut(value, name, name) for name, value in op.arguments(sample).items()}
    if not items:
        return None
    holed = op.with_arguments(sample, given, sample.label)
    return _Batch(op, sample, holed, tuple(names), tuple(items), tuple(written))


def _versions(tensor: Tensor) -> tuple[Tensor, ...]:
    """Tensors of the same kind that hold the same numbers in another order, and larger."""
    plain = tensor.detach().clone(memory_format=torch.contiguous_format)
    found = []
    for item in range(BATCH):
        version = plain.flatten().roll(item).reshape(plain.shape)
        # Indices stay within bounds; what is positive stays so.
        scale = 1 + item / 4
        found.append(version * scale if version.is_floating_point() else version)
    return tuple(found)


def _filled(value: Any, left: Iterator[Tensor]) -> Any:
    if isinstance(value, _Hole):
        return next(left)
    if isinstance(value, list):
        return [_filled(each, left) for each in value]
    return value


def _has_rule(op: Op) -> bool:
    # No rule for an out= op works in torch 2.13: its buffer is not unwrapped (FACTS section 4).
    random = torch.Tag.nondeterministic_seeded in op.overload.tags
    return op.kind is not Kind.OUT and not random and op.has_kernel("FuncTorchBatched")


CHECK = Check("vmap", Cost.CALLS, run, _has_rule)
