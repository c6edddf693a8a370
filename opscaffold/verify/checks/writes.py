"""What is written is declared, and what is declared is written.

Arguments are compared bit for bit, on the given values, on random ones, with flags both ways, and
with bit patterns on which arithmetic that changes no number shows (FACTS S4). PyTorch's own count
of in-place writes tells of those that leave even the bits alone. An argument is convicted of never
being written only when no call, on any values, shows either. Source: torch.library.custom_op,
``mutates_args``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from opscaffold.findings.promises import (
    CHANGES_METADATA,
    CHECK_FAILED,
    DECLARED_NEVER_WRITTEN,
    UNDECLARED_WRITE,
)
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation
from opscaffold.verify.checks.values import distinct, flags, random_values, telling_bits
from opscaffold.verify.checks.watch import Given, Watched, watch
from opscaffold.verify.memory import share_memory
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample, tensors_in

STRUCTURES = 4
"""How many samples are tried on other values."""
FLAGS = 6
SECONDS = 2.0
"""After so long no further values are tried, by the clock of this process."""


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Watch what becomes of each argument."""
    could: dict[str, Sample] = {}
    written: set[str] = set()
    calls = 0
    for sample in _tried(op, samples):
        done = watch(op, sample)
        if not done.ran:
            continue
        calls += 1
        yield from _undeclared(done, sample)
        yield from _moved(done, sample)
        for given in done.given:
            if given.parameter.mutated and given.tensor.numel():
                could.setdefault(given.parameter.name, sample)
            if done.wrote_bytes(given) or done.wrote_in_place(given):
                written.add(given.parameter.name)
    if calls:
        yield from _idle(op, could, written, calls)


def _tried(op: Op, samples: Sequence[Sample]) -> Iterator[Sample]:
    """The samples as they are, and then other values for some."""
    yield from samples
    started = time.process_time()
    declared = {parameter.name for parameter in op.written}
    for sample in distinct(samples, STRUCTURES):
        arguments = op.arguments(sample)
        wide = {id(t) for name in declared for t in tensors_in(arguments.get(name))}
        bits = telling_bits(sample, 3)
        others = [random_values(sample, 1), random_values(sample, 2, wide)]
        others += [bits] if bits is not None else []
        for other in (*others, *flags(op, sample, FLAGS), *flags(op, others[0], FLAGS)):
            if time.process_time() - started > SECONDS:
                return
            yield other


def _undeclared(done: Watched, sample: Sample) -> Iterator[Observation]:
    for given in done.given:
        name = given.parameter.name
        if given.parameter.mutated or _overlaps(done, given):
            continue
        if done.wrote_bytes(given):
            message = (
                f"the op writes to the argument {given.name}, which its schema does not declare as "
                f"mutated{_example(given)}"
            )
        elif done.wrote_in_place(given):
            message = (
                f"the op writes to the argument {given.name} in place, with the values that it "
                "held on this call, and its schema does not declare it as mutated"
            )
        else:
            continue
        yield Observation(UNDECLARED_WRITE, message, sample, name)


def _overlaps(done: Watched, given: Given) -> bool:
    """Whether a write to another argument is one to this: then nothing tells which it was."""
    return any(
        other.parameter.name != given.parameter.name and share_memory(given.tensor, other.tensor)
        for other in done.given
    )


def _example(given: Given) -> str:
    """The first element that is another now."""
    tensor = given.tensor.detach()
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return ""
    before = given.before.bytes.view(tensor.dtype)
    now = tensor.reshape(-1).contiguous().cpu()
    size = tensor.element_size()
    same = (given.before.bytes == now.view(torch.uint8)).reshape(-1, size).all(1)
    index = int(same.logical_not().to(torch.int8).argmax())
    return f": element {index} was {before[index].item()!r} and is {now[index].item()!r}"


def _moved(done: Watched, sample: Sample) -> Iterator[Observation]:
    tracked = sample.grad_mode and any(
        given.before.metadata["requires_grad"] for given in done.given
    )
    for given in done.given:
        changes = given.before.changes(given.tensor)
        if tracked and given.parameter.mutated:
            # Writing what requires grad makes an argument require it: that is autograd's doing.
            changes.pop("requires_grad", None)
        address = changes.pop("address", None)
        if changes:
            told = ", ".join(f"{what} from {was} to {now}" for what, (was, now) in changes.items())
        elif address is not None:
            told = "memory: it has another block now"
        else:
            continue
        message = f"the op changes of the argument {given.name} the {told}"
        yield Observation(CHANGES_METADATA, message, sample, given.parameter.name)


def _idle(op: Op, could: dict[str, Sample], written: set[str], calls: int) -> Iterator[Observation]:
    for parameter in op.written:
        name = parameter.name
        if name in written:
            continue
        if name in could:
            message = (
                f"the argument {name} is declared as mutated, and none of {calls} calls, on given "
                "and other values, writes to it"
            )
            yield Observation(DECLARED_NEVER_WRITTEN, message, could[name], name)
        else:
            message = (
                f"whether the argument {name} is written was not seen: no sample passes a tensor "
                "with elements for it"
            )
            yield Observation(CHECK_FAILED, message, None, f"writes {name}")


CHECK = Check("writes", Cost.CALLS, run)
