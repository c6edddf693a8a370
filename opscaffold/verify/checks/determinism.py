"""Equal calls give equal results, unless a tag says that the op draws random numbers.

Two calls are compared that are seeded alike, and two that are not. Both run while PyTorch fills
memory that was not written: an op that returns part of ``torch.empty`` untouched returns noise,
which shows nothing that can be repeated. What differs, differs in a second comparison too. Only
what is computed by other means than rounding is counted: results are compared as closely as
``torch.testing`` asks of their dtype. Source: torch.Tag, ``nondeterministic_seeded``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from opscaffold.findings.promises import NOT_DETERMINISTIC
from opscaffold.verify.checks.base import SEED, Bench, Call, Check, Cost, Observation, same
from opscaffold.verify.checks.watch import call_on
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Call with equal arguments, seeded alike and not."""
    with filled():
        for sample in samples:
            told = differs(op, sample, SEED)
            if told:
                message = f"two equal calls, seeded alike, differ in {told}"
            elif told := differs(op, sample, SEED + 1):
                message = f"the op draws random numbers for {told}, and no tag says so"
            elif _seeds(op, sample):
                message = "the op seeds the global generator, so that all that draws later repeats"
            else:
                continue
            yield Observation(NOT_DETERMINISTIC, message, sample, "results")


def differs(op: Op, sample: Sample, seed: int) -> str:
    """What differs between a call and a later one with that seed, each time; empty for nothing."""
    told = ""
    for _ in range(2):
        first, second = _seeded(op, sample, SEED), _seeded(op, sample, seed)
        if first.error is not None or second.error is not None:
            return ""
        told = _difference(op, first, second)
        if not told:
            return ""
    return told


def _seeds(op: Op, sample: Sample) -> bool:
    """Whether the state of the global generator hangs on the call, and not on what it was."""
    states = []
    for seed in (SEED, SEED + 1):
        _seeded(op, sample, seed)
        states.append(torch.get_rng_state())
    return torch.equal(*states)


def _seeded(op: Op, sample: Sample, seed: int) -> Call:
    return call_on(op, sample.fresh(), seed)


def _difference(op: Op, first: Call, second: Call) -> str:
    for number, (one, other) in enumerate(zip(first.returned, second.returned, strict=False)):
        if not same(one, other):
            return "the return" if len(first.returned) == 1 else f"return {number}"
    left, right = op.arguments(first.sample), op.arguments(second.sample)
    for parameter in op.written:
        name = parameter.name
        if name in left and not same(left[name], right[name]):
            return f"what they write to {name}"
    return ""


@contextlib.contextmanager
def filled() -> Iterator[None]:
    """Have PyTorch fill what ``torch.empty`` gives, and refuse no op for its algorithm."""
    settings: Any = torch.utils.deterministic
    on = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    settings.fill_uninitialized_memory = True
    try:
        yield
    finally:
        settings.fill_uninitialized_memory = fills
        torch.use_deterministic_algorithms(on, warn_only=warn_only)


def _untagged(op: Op) -> bool:
    return torch.Tag.nondeterministic_seeded not in op.overload.tags


CHECK = Check("determinism", Cost.CALLS, run, _untagged)
