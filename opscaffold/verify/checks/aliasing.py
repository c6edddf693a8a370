"""No return shares memory with an input, another return, or what the calls before returned.

Source: torch.library.custom_op, "the outputs must not alias"; FACTS S2 and S3. Where custom_op
itself refuses a result after the kernel ran, its message names PyTorch's own module and no
argument: the kernel is run once more by itself to see what it shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import RETURN_KEPT, RETURN_SHARES_MEMORY
from opscaffold.verify.checks.base import Bench, Call, Check, Cost, Observation, call
from opscaffold.verify.checks.watch import (
    Returned,
    kernel_returns,
    named,
    named_returns,
    promised,
    shares_by_error,
    viewed,
)
from opscaffold.verify.memory import Snapshot, share_memory
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample

CALLS = 3
"""Equal calls of each sample; two buffers that take turns show at the third."""


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Compare the addresses of each return with those of all else."""
    for sample in samples:
        first = call(op, sample)
        if first.error is not None:
            if shares_by_error(first.error):
                yield from _refused(op, sample)
            continue
        yield from _shared(op, sample, first)
        yield from _kept(op, sample, first)


def _refused(op: Op, sample: Sample) -> Iterator[Observation]:
    """What PyTorch refused, with the names that its message leaves out."""
    where = f"{op.position.path}:{op.position.line}"
    seen = False
    for observation in _shared(op, sample, kernel_returns(op, sample), by_storage=True):
        message = (
            f"{observation.message}: PyTorch refuses the call once the kernel at {where} has run"
        )
        seen = True
        yield Observation(RETURN_SHARES_MEMORY, message, sample, observation.subject)
    if not seen:
        message = (
            "a return shares memory with an argument or another return: PyTorch refuses the call "
            f"once the kernel at {where} has run"
        )
        yield Observation(RETURN_SHARES_MEMORY, message, sample, "return")


def _shared(
    op: Op, sample: Sample, done: Call, *, by_storage: bool = False
) -> Iterator[Observation]:
    """What the returns share memory with; ``by_storage`` as PyTorch sees it, bytes or none."""
    returned = _fresh(op, done)
    may = viewed(op)
    for position, each in enumerate(returned):
        allowed = may[each.number] if each.number < len(may) else frozenset()
        others = [
            (f"the argument {name}", tensor)
            for parameter, value in op.arguments(done.sample).items()
            if parameter not in allowed
            for name, tensor in named(parameter, value)
        ]
        others += [(there.what, there.tensor) for there in returned[:position]]
        for other, there in others:
            if each.tensor is there and (by_storage or there.numel()):
                message = f"{each.what} is {other} itself"
            elif share_memory(each.tensor, there):
                message = f"{each.what} shares memory with {other}"
            elif by_storage and _one_storage(each.tensor, there):
                message = f"{each.what} has one storage with {other}"
            else:
                continue
            yield Observation(RETURN_SHARES_MEMORY, message, sample, f"{each.what} {other}")


def _one_storage(one: Tensor, other: Tensor) -> bool:
    if one.layout != torch.strided or other.layout != torch.strided:
        return False
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


def _kept(op: Op, sample: Sample, first: Call) -> Iterator[Observation]:
    """What the op keeps between calls: results, arguments, and what it writes to later."""
    held = [(each, Snapshot.of(each.tensor)) for each in _fresh(op, first)]
    calls = [first]
    for _ in range(CALLS - 1):
        done = call(op, sample)
        if done.error is not None:
            return
        for each in _fresh(op, done):
            for earlier in calls:
                there = _shared_with(op, each, earlier)
                if there:
                    message = f"{each.what} shares memory with {there}"
                    yield Observation(RETURN_KEPT, message, sample, each.what)
                    return
        for each, before in held:
            if before.differs(each.tensor):
                message = f"a later call writes to what an earlier one returned ({each.what})"
                yield Observation(RETURN_KEPT, message, sample, each.what)
                return
        calls.append(done)


def _shared_with(op: Op, each: Returned, earlier: Call) -> str:
    """What of an earlier call a return shares memory with; empty for nothing."""
    if any(share_memory(each.tensor, there.tensor) for there in _fresh(op, earlier)):
        return "what an earlier call returned"
    for parameter, value in op.arguments(earlier.sample).items():
        for name, tensor in named(parameter, value):
            if share_memory(each.tensor, tensor):
                return f"the argument {name} of an earlier call"
    return ""


def _fresh(op: Op, done: Call) -> list[Returned]:
    """The returns that are promised to be no argument itself."""
    be = promised(op)
    return [
        each
        for each in named_returns(done.returned)
        if each.number >= len(be) or be[each.number] is None
    ]


def _returns_fresh(op: Op) -> bool:
    # In-place and out= ops return what they are given.
    return op.kind in (Kind.FUNCTIONAL, Kind.MUTABLE) and None in promised(op)


CHECK = Check("aliasing", Cost.CALLS, run, _returns_fresh)
