"""What every check is, and what it may use."""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opscaffold.findings.promises import Promise
from opscaffold.verify.op import Op, results
from opscaffold.verify.sample import Sample

SEED = 20


class Cost(enum.IntEnum):
    """What a check takes, in the order in which checks run."""

    CALLS = 0
    """Calls in eager mode."""
    OPCHECK = 1
    """Fake tensors and tracing, without code generation."""
    GRADIENTS = 2
    """Numerical derivatives: many calls."""
    INDUCTOR = 3
    """Generates and compiles code; ``--fast`` leaves it out."""


@dataclass(frozen=True)
class Observation:
    """One thing that a check saw.

    ``message`` says what happens to the user's program, naming arguments and values. ``subject``
    is the argument or return concerned: of observations that share promise and subject, the
    first is reported, with the number of the others. ``sample`` shows it.
    """

    promise: Promise
    message: str
    sample: Sample | None = None
    subject: str = ""


@dataclass(frozen=True)
class Bench:
    """What a check may use, and how far it may go."""

    fast: bool = False
    """Leave out what needs Inductor."""
    devices: tuple[torch.device, ...] = (torch.device("cpu"),)


@dataclass(frozen=True)
class Check:
    """One check. ``run`` is called once an op, with all samples it accepts, simplest first.

    ``applies`` says whether the op makes a promise that the check can see.
    """

    name: str
    """A few words, for progress and for the table of times: "aliasing", "gradients"."""
    cost: Cost
    run: Callable[[Op, Sequence[Sample], Bench], Iterable[Observation]]
    applies: Callable[[Op], bool] = lambda _: True


@dataclass(frozen=True)
class Call:
    """One finished call: the arguments as it left them, and what it returned or raised."""

    sample: Sample
    returned: list[Any]
    error: Exception | None = None


def call(op: Op, sample: Sample) -> Call:
    """Call an op on a fresh copy of a sample, seeded alike each time, warnings kept silent."""
    mine = sample.fresh()
    torch.manual_seed(SEED)
    with quiet():
        try:
            return Call(mine, results(op(mine)))
        except Exception as error:  # noqa: BLE001 -- kernels raise what they like
            return Call(mine, [], error)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let no warning through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def first_line(error: BaseException) -> str:
    """The type of an error, and the first line of what it says."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].strip()}" if text else type(error).__name__


def first_difference(one: Any, other: Any) -> tuple[int, Any, Any] | None:
    """Of two tensors alike in shape and dtype, the first elements that differ, and their index."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return None
    if one.shape != other.shape or one.dtype != other.dtype or one.layout != torch.strided:
        return None
    left, right = one.detach().flatten().cpu(), other.detach().flatten().cpu()
    places = ((left != right) & ~((left != left) & (right != right))).nonzero()
    if not len(places):
        return None
    index = int(places[0])
    return index, left[index].item(), right[index].item()


def same(one: Any, other: Any, *, exact: bool = False) -> bool:
    """Whether two results agree: bit for bit, or as close as torch.testing asks of a dtype."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(
            same(left, right, exact=exact) for left, right in zip(one, other, strict=True)
        )
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return bool(one == other) or (one != one and other != other)
    if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device:
        return False
    tolerance = 0.0 if exact else None
    try:
        torch.testing.assert_close(
            one.detach(), other.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
        )
    except AssertionError:
        return False
    return True
