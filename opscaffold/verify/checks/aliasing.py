"""No return shares memory with an input, another return, or what the call before returned.

Source: torch.library.custom_op, "the outputs must not alias"; FACTS S2 and S3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import RETURN_KEPT, RETURN_SHARES_MEMORY
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation, call
from opscaffold.verify.memory import share_memory
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample, tensors_in


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Compare the addresses of each return with those of all else."""
    for sample in samples:
        first, second = call(op, sample), call(op, sample)
        if first.error is not None or second.error is not None:
            continue
        returned = _named(first.returned)
        given = [
            (f"the argument {name}", tensor)
            for name, value in op.arguments(first.sample).items()
            for tensor in tensors_in(value)
        ]
        for position, (what, tensor) in enumerate(returned):
            for other, there in [*given, *returned[:position]]:
                if share_memory(tensor, there):
                    message = f"{what} shares memory with {other}"
                    yield Observation(RETURN_SHARES_MEMORY, message, sample, f"{what} {other}")
        for what, tensor in returned:
            for _, there in _named(second.returned):
                if share_memory(tensor, there):
                    message = f"{what} shares memory with what the call before returned"
                    yield Observation(RETURN_KEPT, message, sample, what)


def _named(returned: Sequence[object]) -> list[tuple[str, Tensor]]:
    single = len(returned) == 1
    return [
        ("the return" if single else f"return {number}", tensor)
        for number, value in enumerate(returned)
        for tensor in tensors_in(value)
    ]


def _returns_fresh(op: Op) -> bool:
    # In-place and out= ops return what they are given.
    return op.kind in (Kind.FUNCTIONAL, Kind.MUTABLE) and bool(op.contract.returns)


CHECK = Check("aliasing", Cost.CALLS, run, _returns_fresh)
