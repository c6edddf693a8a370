"""Tells once that the dispatcher lets None through for a Tensor argument (FACTS S13).

It is so for every op; it is told where the kernel does something with the None, and not where it
raises. Kernels that are out of sight are not tried: what compiled code makes of it is not safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from opscaffold.contract.model import BaseType
from opscaffold.findings.promises import NONE_FOR_TENSOR
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation, call
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Pass None for one argument of the first sample at a time."""
    sample = samples[0]
    given = op.arguments(sample)
    for parameter in op.contract.parameters:
        if not isinstance(parameter.type, BaseType) or parameter.mutated:
            continue
        if not isinstance(given.get(parameter.name), Tensor):
            continue
        label = f"{sample.label}, {parameter.name}=None"
        changed = op.with_arguments(sample, {**given, parameter.name: None}, label)
        if call(op, changed).error is None:
            message = f"None is accepted for the Tensor argument {parameter.name}"
            yield Observation(NONE_FOR_TENSOR, message, changed)
            return


CHECK = Check("None for a tensor", Cost.CALLS, run, lambda op: op.kernel is not None)
