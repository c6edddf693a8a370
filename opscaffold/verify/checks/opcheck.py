"""What ``torch.library.opcheck`` says of an op, with all its utilities, without its blind alarms.

Some of what opcheck refuses is no fault of the op (torch 2.13): it cannot look at a device, a
sparse tensor or one of 8-bit floats; it compares NaN as unequal to itself; its two runs share one
``torch.Generator``; without dynamic shapes it cannot trace sizes that the data decides; it copies
arguments, so that those over the same memory are so no more. Such calls are kept from the utility
concerned. Tensors that require grad are tried for functional ops with autograd alone: it is red on
in-place and out= ops, and means nothing on mutable ones (FACTS section 1). What an op that draws
random numbers or keeps state returns cannot be compared: the check of determinism tells of those.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import OPCHECK, OPTIONAL_LIST_WRITTEN
from opscaffold.verify.checks.base import (
    SEED,
    Bench,
    Check,
    Cost,
    Observation,
    call,
    first_line,
    quiet,
)
from opscaffold.verify.checks.determinism import differs, filled
from opscaffold.verify.checks.values import distinct
from opscaffold.verify.memory import share_memory
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample, tensors_in

SCHEMA, AUTOGRAD, FAKE = "test_schema", "test_autograd_registration", "test_faketensor"
STATIC, DYNAMIC = "test_aot_dispatch_static", "test_aot_dispatch_dynamic"
STRUCTURES = 6
"""How many samples are shown to opcheck."""
TRACED = 3
"""How many of them are traced, which takes most of the time."""
SECONDS = 4.0
"""After so long no further sample is begun, by the clock of this process."""


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Run the utilities on the first sample of each structure, simplest first."""
    started = time.process_time()
    usable = [sample for sample in distinct(samples, len(samples)) if _usable(op, sample)]
    chosen = usable[:STRUCTURES]
    grad = next(_with_grad(op, chosen), None)
    traced = 0
    for sample in [*chosen[:1], *([grad] if grad is not None else []), *chosen[1:]]:
        if time.process_time() - started > SECONDS:
            return
        utilities = [SCHEMA, AUTOGRAD, FAKE]
        if traced < TRACED and _comparable(op, sample):
            utilities += [STATIC, DYNAMIC]
            traced += 1
        yield from _checked(op, sample, utilities)


def _checked(op: Op, sample: Sample, utilities: Sequence[str]) -> Iterator[Observation]:
    for utility in utilities:
        error = _error(op, sample, utility)
        if error is None or _blind(utility, error):
            continue
        if "'dict' object has no attribute 'append'" in str(error):
            # What becomes of a list[Optional[Tensor]] that is declared as mutated.
            message = "opcheck stops on the list of optional tensors that the op writes to"
            yield Observation(OPTIONAL_LIST_WRITTEN, message, sample)
            return
        message = f"torch.library.opcheck, {utility}: {_short(error)}"
        yield Observation(OPCHECK, message, sample, _subject(utility))
        if utility in (FAKE, STATIC):
            # The tracing that is left would say the same again.
            return


def _error(op: Op, sample: Sample, utility: str) -> BaseException | None:
    mine = sample.fresh()
    torch.manual_seed(SEED)
    with quiet():
        try:
            torch.library.opcheck(op.overload, mine.args, mine.kwargs, test_utils=utility)
        except Exception as error:  # noqa: BLE001 -- it passes on what kernels raise
            return error.__cause__ or error
    return None


def _subject(utility: str) -> str:
    return "aot_dispatch" if utility in (STATIC, DYNAMIC) else utility


def _short(error: BaseException) -> str:
    text = first_line(error)
    return text if len(text) <= 300 else f"{text[:297]}..."


def _blind(utility: str, error: BaseException) -> bool:
    """Whether it is the utility that fails, and not the op, which ran on this sample."""
    if "not implemented for '" in str(error):
        # Such as numbers of 8 bits, which the utility computes with.
        return True
    if utility == SCHEMA:
        return type(error) is not RuntimeError or _raised_in(error) != "schema_check_mode.py"
    return utility == STATIC and type(error).__name__ == "DynamicOutputShapeException"


def _raised_in(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename).name if frames else ""


def _usable(op: Op, sample: Sample) -> bool:
    """Whether opcheck can look at the sample as it is, and the op takes it."""
    tensors = _tensors(sample)
    if sample.inference or any(t.layout != torch.strided or t.is_inference() for t in tensors):
        return False
    if any(t.requires_grad for t in tensors) and not _differentiable(op):
        return False
    shared = (share_memory(one, other) for n, one in enumerate(tensors) for other in tensors[:n])
    return not any(shared) and call(op, sample).error is None


def _comparable(op: Op, sample: Sample) -> bool:
    """Whether two runs of the op can be compared: no noise, no NaN, no generator in common."""
    if any(isinstance(value, torch.Generator) for value in (*sample.args, *sample.kwargs.values())):
        return False
    if differs(op, sample, SEED):
        return False
    with filled():
        done = call(op, sample)
    left = [*done.returned, *_tensors(done.sample)]
    return not any(_has_nan(tensor) for tensor in tensors_in(left))


def _has_nan(tensor: Tensor) -> bool:
    inexact = tensor.is_floating_point() or tensor.is_complex()
    return inexact and bool(tensor.detach().isnan().any())


def _with_grad(op: Op, samples: Sequence[Sample]) -> Iterator[Sample]:
    """The first sample with tensors that can require grad, requiring it."""
    if not _differentiable(op):
        return
    for sample in samples:
        made = sample.fresh()
        floating = [tensor for tensor in _tensors(made) if tensor.is_floating_point()]
        if floating and not any(tensor.requires_grad for tensor in floating):
            for tensor in floating:
                tensor.requires_grad_()
            made = replace(made, grad_mode=True, label=f"{sample.label}, requiring grad")
            if call(op, made).error is None:
                yield made


def _differentiable(op: Op) -> bool:
    return op.kind is Kind.FUNCTIONAL and op.has_autograd


def _tensors(sample: Sample) -> list[Tensor]:
    values: list[Any] = [*sample.args, *sample.kwargs.values()]
    return list(tensors_in(values))


CHECK = Check("opcheck", Cost.OPCHECK, run)
