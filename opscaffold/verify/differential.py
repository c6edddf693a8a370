"""Holds compiled programs against eager mode, and narrows down what departs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opscaffold.contract.model import Kind
from opscaffold.verify.checks.base import SEED, first_difference, first_line, same
from opscaffold.verify.memory import share_memory
from opscaffold.verify.op import Op
from opscaffold.verify.programs import (
    SHOWN_WHOLE,
    Outcome,
    Program,
    Run,
    arguments,
    outcomes,
    shown,
)
from opscaffold.verify.sample import Sample, tensors_in
from opscaffold.verify.variants import pattern, variants

_MOST_ALONE = 4
"""Runs that are compiled again, each alone, to see whether they depart by themselves."""


@dataclass(frozen=True)
class Expected:
    """A run, and how it comes out in eager mode."""

    run: Run
    outcome: Outcome
    repeatable: bool = True
    """Whether eager mode itself gives the same numbers twice."""


@dataclass(frozen=True)
class Departure:
    """A run that comes out otherwise when it is compiled: it raises, or one value is another."""

    run: Run
    error: Exception | None = None
    what: str = ""
    wanted: Any = None
    found: Any = None
    together: bool = False
    """Whether it departs only in a program with other calls of the op."""

    @property
    def told(self) -> str:
        """What happens, for a message."""
        if self.error is not None:
            # torch.compile wraps what went wrong.
            cause = getattr(self.error, "inner_exception", self.error)
            return f"raises {first_line(cause)}"
        place = first_difference(self.found, self.wanted)
        if place is None or self.found.numel() <= SHOWN_WHOLE:
            found, wanted = shown(self.found), shown(self.wanted)
            return f"leaves {self.what} as {found}, eager mode as {wanted}"
        return f"leaves element {place[0]} of {self.what} as {place[1]}, eager mode as {place[2]}"


def expected(op: Op, program: Program, sample: Sample) -> Expected | None:
    """How a program comes out in eager mode, None where it raises."""
    run = Run(program, sample)
    try:
        first, second = (outcomes(op, [run])[0] for _ in range(2))
    except Exception:  # noqa: BLE001 -- the op refuses the call
        return None
    random = torch.Tag.nondeterministic_seeded in op.overload.tags or _draws(op, run)
    return Expected(run, first, not random and not _differences(first, second))


def _draws(op: Op, run: Run) -> bool:
    """Whether the run takes random numbers: which ones hangs on what else is in the program."""
    torch.manual_seed(SEED)
    before = torch.get_rng_state()
    outcomes(op, [run])
    return not torch.equal(before, torch.get_rng_state())


def departures(
    op: Op,
    wanted: Sequence[Expected],
    backend: str,
    *,
    dynamic: bool = False,
    confirm: bool = True,
) -> list[Departure]:
    """What departs from eager mode, of programs that are compiled into one.

    One that raises is looked for by halving; the others are then compiled without its sample.
    With ``confirm``, other values count only where the program departs alone too.
    """
    found: list[Departure] = []
    left = list(wanted)
    while left:
        try:
            got = outcomes(op, [each.run for each in left], backend=backend, dynamic=dynamic)
        except Exception as error:  # noqa: BLE001 -- compilers and kernels raise what they like
            raised = _raising(op, left, error, backend, dynamic)
            if raised is None:
                # Only together: the compiler, not the op, is at its end.
                return found + [d for each in left for d in departures(op, [each], backend)]
            if any(each.told == raised.told for each in found):
                break
            found.append(raised)
            left = [each for each in left if each.run.sample is not raised.run.sample]
            continue
        pairs = list(zip(left, got, strict=True))
        other = [each for each, outcome in pairs if any(_compared(each, outcome))]
        if confirm and len(left) > 1:
            return found + _alone(op, other, backend, dynamic)
        return found + [d for each, outcome in pairs for d in _compared(each, outcome)]
    return found


def _alone(op: Op, wanted: Sequence[Expected], backend: str, dynamic: bool) -> list[Departure]:
    """What departs of these runs without the others.

    What departs in company only is no fault of the op. Of an out= op, one such run is returned:
    Inductor mixes up the buffers of two calls (FACTS section 9).
    """
    tried = wanted[:_MOST_ALONE]
    found = [d for each in tried for d in departures(op, [each], backend, dynamic=dynamic)]
    if tried and not found and op.kind is Kind.OUT:
        return [Departure(tried[0].run, together=True)]
    return found


def _raising(
    op: Op, wanted: Sequence[Expected], error: Exception, backend: str, dynamic: bool
) -> Departure | None:
    """One run that raises, of several that raise when they are compiled into one program.

    None where none does without the others.
    """
    if len(wanted) == 1:
        return Departure(wanted[0].run, error)
    middle = len(wanted) // 2
    for half in (wanted[:middle], wanted[middle:]):
        other = _raises(op, half, backend, dynamic)
        if other is not None:
            return _raising(op, half, other, backend, dynamic)
    return None


def _raises(op: Op, wanted: Sequence[Expected], backend: str, dynamic: bool) -> Exception | None:
    try:
        outcomes(op, [each.run for each in wanted], backend=backend, dynamic=dynamic)
    except Exception as error:  # noqa: BLE001 -- as above
        return error
    return None


def _compared(wanted: Expected, got: Outcome) -> Iterator[Departure]:
    for what, value in wanted.outcome.values.items():
        other = got.values.get(what)
        agree = same(value, other) if wanted.repeatable else _alike(value, other)
        if not agree:
            yield Departure(wanted.run, None, what, value, other)


def _differences(one: Outcome, other: Outcome) -> bool:
    return any(not same(v, other.values.get(k), exact=True) for k, v in one.values.items())


def _alike(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other)
    return one.shape == other.shape and one.dtype == other.dtype


def choose(op: Op, samples: Sequence[Sample], most: int) -> list[Sample]:
    """A few samples that a compiler takes, as unlike each other as can be, simplest first."""
    usable = [sample for sample in samples if _compiles(op, sample)]
    if not usable:
        return []
    made = [each for each in variants(op, usable[0]) if _compiles(op, each)]
    return unlike(op, [*usable, *made])[:most]


def unlike(op: Op, samples: Sequence[Sample]) -> list[Sample]:
    """Samples without those that bring nothing new to the ones before them.

    Those come first that differ in which arguments are given, then in dtypes, then in layout.
    """
    seen: set[object] = set()
    picked: list[Sample] = []
    for key in _TRAITS:
        for sample in samples:
            if (key, key(op, sample)) in seen:
                continue
            seen.update((trait, trait(op, sample)) for trait in _TRAITS)
            if all(sample is not other for other in picked):
                picked.append(sample)
    return picked


def _dtypes(op: Op, sample: Sample) -> object:
    return tuple(tensor.dtype for _, tensor in arguments(op, sample))


def _layouts(op: Op, sample: Sample) -> object:
    return tuple(
        (tensor.is_contiguous(), tensor.storage_offset() > 0, tensor.numel() == 0, tensor.dim())
        for _, tensor in arguments(op, sample)
    )


_TRAITS = (pattern, _dtypes, _layouts)


def _compiles(op: Op, sample: Sample) -> bool:
    """Whether a departure on this sample would be the op's."""
    tensors = [tensor for _, tensor in arguments(op, sample)]
    written = [
        tensor
        for name, value in op.arguments(sample).items()
        if name in op.contract.mutated
        for tensor in tensors_in(value)
    ]
    plain = not (sample.grad_mode or sample.inference) and all(
        tensor.layout == torch.strided
        and not tensor.requires_grad
        and not tensor.is_inference()
        and type(tensor) in (Tensor, torch.nn.Parameter)
        for tensor in tensors
    )
    return (
        plain
        # The compiler works on copies of what is written, which overlaps with nothing.
        and not any(
            share_memory(each, other) for each in written for other in tensors if other is not each
        )
        and sum(tensor is each for each in written for tensor in tensors) == len(written)
        # "non-contiguous out= tensor" is refused for every op (FACTS section 2).
        and (op.kind is not Kind.OUT or all(each.is_contiguous() for each in written))
    )
