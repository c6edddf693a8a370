"""Under autocast an op still writes to its arguments, and computes what it does on cast inputs.

Source: torch.library.register_autocast; FACTS S6 and section 4. opcheck never runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from opscaffold.findings.promises import AUTOCAST_DIFFERS, AUTOCAST_LOSES_WRITE
from opscaffold.verify.checks.base import (
    SEED,
    Bench,
    Check,
    Cost,
    Observation,
    call,
    first_line,
    quiet,
    same,
)
from opscaffold.verify.memory import Snapshot
from opscaffold.verify.op import Op, results
from opscaffold.verify.programs import arguments
from opscaffold.verify.refusal import refused
from opscaffold.verify.sample import Sample, tensors_in

MOST_SAMPLES = 4
_DEVICES = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA", "xpu": "AutocastXPU"}


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Compare calls with and without autocast, on inputs that it casts."""
    asked = 0
    for sample in samples:
        device = _cast(op, sample)
        if device is None or asked == MOST_SAMPLES:
            continue
        asked += 1
        plain = call(op, sample)
        if plain.error is None:
            yield from _compared(op, sample, device, dict(arguments(op, plain.sample)))


def _compared(
    op: Op, sample: Sample, device: str, after: dict[str, Tensor]
) -> Iterator[Observation]:
    before = {name: Snapshot.of(tensor) for name, tensor in arguments(op, sample)}
    mine = sample.fresh()
    dtype = _dtype(op, device)
    try:
        with quiet(), torch.autocast(device, dtype):
            torch.manual_seed(SEED)
            returned = list(tensors_in(results(op(mine))))
    except Exception as error:  # noqa: BLE001 -- kernels raise what they like
        if not refused(error):
            message = f"under autocast to {_word(dtype)} the op raises {first_line(error)}"
            yield Observation(AUTOCAST_DIFFERS, message, sample, "raises")
        return
    for name, tensor in arguments(op, mine):
        if before[name].differs(after[name]) and not before[name].differs(tensor):
            message = f"under autocast {name} is not written, as it is without"
            yield Observation(AUTOCAST_LOSES_WRITE, message, sample, name)
    if not op.contract.mutated and torch.Tag.nondeterministic_seeded not in op.overload.tags:
        yield from _functional(op, sample, returned, device)


def _functional(
    op: Op, sample: Sample, returned: Sequence[Tensor], device: str
) -> Iterator[Observation]:
    """The same must come out as on inputs that were cast by hand, to one dtype or another."""
    dtype = _dtype(op, device)
    # Below custom_op nothing tells to which dtype is cast.
    unknown = [torch.bfloat16, torch.float16, torch.float32]
    candidates = unknown if op.definition is None else [dtype]
    for cast in candidates:
        by_hand = call(op, op.with_arguments(sample, _cast_to(op, sample, cast), sample.label))
        wanted = list(tensors_in(by_hand.returned))
        if by_hand.error is not None or same(wanted, returned):
            return
    message = f"under autocast the op returns another result than on inputs of {_word(dtype)}"
    yield Observation(AUTOCAST_DIFFERS, message, sample, "returns")


def _cast(op: Op, sample: Sample) -> str | None:
    """The device under whose autocast this call is cast; None where none is registered."""
    tensors = [tensor for _, tensor in arguments(op, sample)]
    if sample.grad_mode or sample.inference:
        return None
    for tensor in tensors:
        key = _DEVICES.get(tensor.device.type)
        if key is not None and tensor.dtype == torch.float32 and op.has_kernel(key):
            return tensor.device.type
    return None


def _dtype(op: Op, device: str) -> torch.dtype:
    known: dict[str, torch.dtype] = getattr(op.definition, "_autocast_dtype", {})
    return known.get(device) or torch.bfloat16


def _cast_to(op: Op, sample: Sample, dtype: torch.dtype) -> dict[str, Any]:
    def cast(value: Any) -> Any:
        # Autocast leaves float64 as it is (FACTS section 4).
        if isinstance(value, Tensor) and value.is_floating_point():
            return value if value.dtype == torch.float64 else value.to(dtype)
        return type(value)(map(cast, value)) if isinstance(value, (list, tuple)) else value

    return {name: cast(value) for name, value in op.arguments(sample).items()}


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _has_rule(op: Op) -> bool:
    return any(op.has_kernel(key) for key in _DEVICES.values())


CHECK = Check("autocast", Cost.CALLS, run, _has_rule)
