"""An out= op fills any buffer of the right shape alike, and takes no other.

Prefills: the result of an op whose buffer holds anything must not depend on it.

Wrong buffers are tried one at a time: an empty one, one with a dimension more, one whose sizes are
larger. It is a breach when the op resizes a buffer, and PyTorch's own ops do so in silence when
they are given an empty ``out=``; when it writes behind the end of one; when it leaves elements of
one unwritten; and when it fills one by broadcasting although it refuses others. An op whose buffer
says what is to be computed, so that each shape is filled whole, takes no wrong one. Another dtype
is a cast, as in PyTorch's own ops, when the numbers are the right ones, and a breach when they are
not.

Source: DESIGN of generated packages, "out kernels check shape, dtype and device of the buffer
first"; FACTS section 2, "Only opcheck".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import ACCEPTS_WRONG_BUFFER, READS_BUFFER
from opscaffold.verify.checks.base import Bench, Call, Check, Cost, Observation, call, same
from opscaffold.verify.checks.values import distinct
from opscaffold.verify.checks.watch import call_after, call_on
from opscaffold.verify.memory import share_memory
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample, tensors_in

STRUCTURES = 4
"""How many samples are tried with wrong buffers."""
_OTHER_DTYPE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.float64: torch.float32,
    torch.int32: torch.int64,
    torch.int64: torch.int32,
    torch.complex64: torch.complex128,
    torch.complex128: torch.complex64,
}
_GUARD = 85
"""The byte behind a buffer. No op writes it there by chance and leaves all others alone."""


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Try prefills on every sample, and wrong buffers on some."""
    usable = [sample for sample in samples if _apart(op, sample)]
    unfilled: set[str] = set()
    for sample in usable:
        for observation in _prefills(op, sample):
            unfilled.add(observation.subject)
            yield observation
    for name in _buffers(op):
        if name not in unfilled:
            yield from _wrong(op, distinct(usable, STRUCTURES), name)


def _buffers(op: Op) -> list[str]:
    return [parameter.name for parameter in op.written]


def _apart(op: Op, sample: Sample) -> bool:
    """Whether no buffer is also something else: a prefill would change an input then."""
    given = op.arguments(sample)
    buffers = [given[name] for name in _buffers(op) if isinstance(given.get(name), Tensor)]
    others = [
        tensor
        for name, value in given.items()
        if name not in _buffers(op)
        for tensor in tensors_in(value)
    ]
    return not any(
        share_memory(buffer, other)
        for number, buffer in enumerate(buffers)
        for other in [*others, *buffers[:number]]
    )


def _prefills(op: Op, sample: Sample) -> Iterator[Observation]:
    finished = [_filled(op, sample, which) for which in (0, 1)]
    if any(done.error is not None for done in finished):
        return
    again = _filled(op, sample, 0)
    for name in _buffers(op):
        one, other, repeated = (op.arguments(done.sample).get(name) for done in (*finished, again))
        if not isinstance(one, Tensor) or same(one, other):
            continue
        if not same(one, repeated):
            # It is not the buffer that makes the difference.
            continue
        first, second = (_fill(one.dtype, which) for which in (0, 1))
        message = (
            f"what {name} holds after the call depends on what it held before ({first!r} or "
            f"{second!r}): {_how(one, other)}"
        )
        yield Observation(READS_BUFFER, message, sample, name)


def _filled(op: Op, sample: Sample, which: int) -> Call:
    def fill(mine: Sample) -> None:
        for name in _buffers(op):
            buffer = op.arguments(mine).get(name)
            if isinstance(buffer, Tensor) and buffer.layout == torch.strided:
                with torch.no_grad():
                    buffer.fill_(_fill(buffer.dtype, which))

    return call_after(op, sample, fill)


def _fill(dtype: torch.dtype, which: int) -> float:
    if dtype == torch.bool:
        return which == 0
    if dtype.is_floating_point or dtype.is_complex:
        return (float("nan"), 77.0)[which]
    return (55, 77)[which]


def _how(one: Tensor, other: Any) -> str:
    """Whether elements were left as they were, or the old ones entered the result."""
    if not isinstance(other, Tensor) or one.shape != other.shape:
        return "it has another shape"
    left = _holds(one, _fill(one.dtype, 0)) & _holds(other, _fill(one.dtype, 1))
    count = int(left.sum())
    if count:
        return f"{count} of {one.numel()} elements are left unwritten"
    return "the old elements enter the result"


def _holds(tensor: Tensor, value: float) -> Tensor:
    return tensor.isnan() if value != value else tensor == value


@dataclass(frozen=True)
class _Trial:
    """What became of one wrong buffer. ``breach`` says what the op did with it, if anything."""

    sample: Sample
    kind: str
    accepted: bool
    breach: str = ""


def _wrong(op: Op, samples: Sequence[Sample], name: str) -> Iterator[Observation]:
    trials = [trial for sample in samples for trial in _trials(op, sample, name)]
    # Where larger sizes are refused, the op knows which ones are right: others that it takes are
    # no choice of the caller's.
    knows = any(trial.kind == "sizes" and not trial.accepted for trial in trials)
    for trial in trials:
        told = trial.breach
        if not told and knows and trial.accepted and trial.kind in ("rank", "empty"):
            told = "and fills it by broadcasting" if trial.kind == "rank" else "and writes nothing"
        if told:
            message = f"the op accepts {_described(op, trial.sample, name)}, {told}"
            yield Observation(ACCEPTS_WRONG_BUFFER, message, trial.sample, name)


def _described(op: Op, sample: Sample, name: str) -> str:
    buffer = op.arguments(sample)[name]
    return f"a buffer {name} of shape {tuple(buffer.shape)} and {buffer.dtype}"


def _trials(op: Op, sample: Sample, name: str) -> Iterator[_Trial]:
    right = op.arguments(sample).get(name)
    done = call(op, sample)
    if not isinstance(right, Tensor) or right.layout != torch.strided or done.error is not None:
        return
    wanted = op.arguments(done.sample)[name]
    shapes = {"rank": (3, *right.shape)}
    if right.numel():
        shapes["empty"] = (0,)
    if any(size > 1 for size in right.shape):
        shapes["sizes"] = tuple(size + 1 if size > 1 else size for size in right.shape)
    for kind, shape in shapes.items():
        yield _tried(op, sample, name, kind, shape, right.dtype, wanted)
    other = _OTHER_DTYPE.get(right.dtype)
    if other is not None and right.numel():
        yield _tried(op, sample, name, "dtype", tuple(right.shape), other, wanted)


def _tried(
    op: Op,
    sample: Sample,
    name: str,
    kind: str,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    wanted: Tensor,
) -> _Trial:
    finished: list[Tensor] = []
    for which in (0, 1):
        buffer, guard = _guarded(shape, dtype, wanted)
        buffer.fill_(_fill(dtype, which))
        given = op.arguments(sample)
        wrong = op.with_arguments(
            sample, {**given, name: buffer}, f"{sample.label}, {name} of shape {shape} and {dtype}"
        )
        done = _called(op, wrong, name, buffer)
        if tuple(buffer.shape) != shape:
            resized = f"and resizes it to {tuple(buffer.shape)}"
            # It is told as it was.
            as_it_was = torch.empty(shape, dtype=dtype, device=wanted.device)
            wrong = op.with_arguments(sample, {**given, name: as_it_was}, wrong.label)
            return _Trial(wrong, kind, True, resized)
        if bool((guard != _GUARD).any()):
            return _Trial(wrong, kind, True, "and writes behind its end")
        if done.error is not None:
            return _Trial(wrong, kind, False)
        finished.append(buffer)
    return _Trial(wrong, kind, True, _miswritten(kind, finished, wanted))


def _miswritten(kind: str, finished: Sequence[Tensor], wanted: Tensor) -> str:
    one, other = finished
    if not same(one, other):
        return f"and fills it in part: {_how(one, other)}"
    if kind == "dtype":
        coarser = min(one, wanted, key=lambda tensor: tensor.element_size()).dtype
        if not same(one.to(coarser), wanted.to(coarser)):
            return "and writes other numbers to it"
    return ""


def _called(op: Op, wrong: Sample, name: str, buffer: Tensor) -> Call:
    """Call the op on fresh arguments, but on this very buffer."""

    def put(value: Any) -> Any:
        return buffer if isinstance(value, Tensor) and value is there else value

    mine = wrong.fresh()
    there = op.arguments(mine)[name]
    given = {key: put(value) for key, value in op.arguments(mine).items()}
    return call_on(op, op.with_arguments(mine, given, wrong.label))


def _guarded(shape: tuple[int, ...], dtype: torch.dtype, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """A buffer, and the memory behind it: a kernel that checks nothing must not write elsewhere.

    It is contiguous and starts at its storage's beginning, as buffers commonly do.
    """
    size = torch.empty((), dtype=dtype).element_size()
    length = torch.Size(shape).numel() * size
    slack = 8 * (wanted.numel() + 64) * max(size, wanted.element_size())
    memory = torch.full((length + slack,), _GUARD, dtype=torch.uint8, device=wanted.device)
    buffer = torch.empty(0, dtype=dtype, device=wanted.device)
    strides = torch.empty(shape, device="meta").stride()
    buffer.set_(memory.untyped_storage(), 0, shape, strides)
    return buffer, memory[length:]


CHECK = Check("buffers", Cost.CALLS, run, lambda op: op.kind is Kind.OUT)
