"""A gradient through what the op writes is right, or refused; PyTorch does neither (FACTS S5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import GRADIENT_LOST, WRONG_GRADIENT
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation, quiet
from opscaffold.verify.derivatives import Agreement, Mismatch, Slots, disprove, slots
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample, tensors_in

MOST_POINTS = 2


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Go backward from what was written, where it was no leaf of the graph before the call."""
    asked = 0
    for sample in samples:
        call = None if sample.inference else slots(op, sample, frozenset())
        if call is None or asked == MOST_POINTS or not any(x.numel() for x in call.inputs):
            continue
        asked += 1
        found = _gradient(op, call)
        if isinstance(found, Mismatch):
            name = call.names[found.index]
            written = " and ".join(op.contract.mutated)
            message = f"the gradient of {written} by {name} is {found.told}, without an error"
            # Only who works below custom_op can register a formula for what is written.
            promise = WRONG_GRADIENT if op.has_autograd else GRADIENT_LOST
            yield Observation(promise, message, sample)


def _gradient(op: Op, call: Slots) -> Mismatch | Agreement:
    def written(*inputs: Tensor) -> tuple[Tensor, ...]:
        # A leaf that requires grad may not be written to; what is computed from it may.
        given = call.filled([each * 1 for each in inputs])
        call.returned(given)
        return tuple(_written(op, given))

    try:
        with quiet():
            return disprove(written, call.inputs)
    except Exception:  # noqa: BLE001 -- it is refused
        return Agreement.UNKNOWN


def _written(op: Op, sample: Sample) -> Iterator[Tensor]:
    arguments: dict[str, Any] = op.arguments(sample)
    for name in op.contract.mutated:
        for tensor in tensors_in(arguments.get(name)):
            if tensor.is_floating_point() or tensor.is_complex():
                yield tensor


CHECK = Check("lost gradient", Cost.GRADIENTS, run, lambda op: op.kind is not Kind.FUNCTIONAL)
