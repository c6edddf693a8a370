"""Runs an op once, and sees what became of the tensors that it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opscaffold.contract.model import Alias, Parameter, Tag, alias_of
from opscaffold.verify.checks.base import SEED, Call, quiet
from opscaffold.verify.memory import Snapshot
from opscaffold.verify.op import Op, results
from opscaffold.verify.sample import Sample

# What torch 2.13 says when it refuses what a kernel returned (torch._library, FACTS section 2):
# the kernel has run by then, and has written what it writes.
_REFUSED = (
    "must not also be an input to this custom operator",
    "tagged with torch.Tag.inplace must return",
    "tagged with torch.Tag.out must return",
)


@dataclass(frozen=True)
class Given:
    """One tensor that a call is given. ``name`` is that of its parameter, or ``xs[1]``."""

    name: str
    parameter: Parameter
    tensor: Tensor
    before: Snapshot


@dataclass(frozen=True)
class Watched:
    """One call, and its tensor arguments as they were before and are now."""

    call: Call
    given: tuple[Given, ...]
    counted: bool
    """Whether the op itself counts a write of each declared argument: custom_op does."""

    @property
    def ran(self) -> bool:
        """Whether the kernel ran to its end, whatever PyTorch said to its result."""
        return self.call.error is None or refused_result(self.call.error)

    def wrote_bytes(self, given: Given) -> bool:
        """Whether the elements of an argument are others now, bit for bit."""
        return not _moved(given) and given.before.differs(given.tensor)

    def wrote_in_place(self, given: Given) -> bool:
        """Whether PyTorch's own ops wrote to it in place, be it the values that were there.

        custom_op counts a write of a declared argument whether it is written or not; that one
        is no evidence (FACTS section 5).
        """
        idle = 1 if self.counted and given.parameter.mutated else 0
        if given.before.writes_since(given.tensor) <= idle or not given.tensor.numel():
            return False
        # Ops that change metadata in place are counted too, and write no element.
        return given.parameter.mutated or not given.before.changes(given.tensor)


def _moved(given: Given) -> bool:
    """Whether it has other elements now: that is no write of those that it had."""
    return not {"shape", "dtype", "address"}.isdisjoint(given.before.changes(given.tensor))


def refused_result(error: BaseException) -> bool:
    """Whether PyTorch refuses what a kernel returned, after it ran."""
    return any(words in str(error) for words in _REFUSED)


def shares_by_error(error: BaseException) -> bool:
    """Whether PyTorch refuses a result because it shares memory."""
    return _REFUSED[0] in str(error)


def watch(op: Op, sample: Sample) -> Watched:
    """Call an op on a fresh copy of a sample, and keep what its arguments were before."""
    held: list[Given] = []

    def before(mine: Sample) -> None:
        held.extend(named_tensors(op, mine))

    finished = call_after(op, sample, before)
    return Watched(finished, tuple(held), op.definition is not None)


def call_after(op: Op, sample: Sample, before: Callable[[Sample], None]) -> Call:
    """Like ``call``, but show the arguments to ``before`` first."""
    mine = sample.fresh()
    before(mine)
    return call_on(op, mine)


def call_on(op: Op, mine: Sample, seed: int = SEED) -> Call:
    """Like ``call``, but on the very arguments of a sample, which is not to be used again."""
    torch.manual_seed(seed)
    with quiet():
        try:
            return Call(mine, results(op(mine)))
        except Exception as error:  # noqa: BLE001 -- kernels raise what they like
            return Call(mine, [], error)


def named_tensors(op: Op, sample: Sample) -> Iterator[Given]:
    """Each tensor that a sample passes, with the name it is known by."""
    passed = op.arguments(sample)
    for parameter in op.contract.parameters:
        for name, tensor in named(parameter.name, passed.get(parameter.name)):
            yield Given(name, parameter, tensor, Snapshot.of(tensor))


def named(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Each tensor in a value, with the name by which a reader reaches it."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from named(f"{name}[{number}]", item)


@dataclass(frozen=True)
class Returned:
    """One tensor that a call returned. ``what`` names it: ``the return``, ``return 1[0]``."""

    what: str
    number: int
    """Which return of the schema it stands in."""
    tensor: Tensor


def named_returns(returned: list[Any]) -> list[Returned]:
    """Each tensor that a call returned."""
    single = len(returned) == 1
    return [
        Returned(what, number, tensor)
        for number, value in enumerate(returned)
        for what, tensor in named("the return" if single else f"return {number}", value)
    ]


def kernel_returns(op: Op, sample: Sample) -> Call:
    """What the kernel itself returns, before PyTorch looks at it.

    Raises nothing; a kernel that is out of sight gives a Call with an error.
    """
    mine = sample.fresh()
    kernel = _kernel(op, sample)
    if kernel is None:
        return Call(mine, [], LookupError("the kernel is out of sight"))
    torch.manual_seed(SEED)
    with quiet(), torch.no_grad(), torch._C._AutoDispatchBelowAutograd():
        try:
            return Call(mine, results(kernel(*mine.args, **mine.kwargs)))
        except Exception as error:  # noqa: BLE001 -- kernels raise what they like
            return Call(mine, [], error)


def _kernel(op: Op, sample: Sample) -> Callable[..., Any] | None:
    if op.definition is None:
        return op.kernel
    kernels = op.definition._backend_fns
    device = next((given.tensor.device.type for given in named_tensors(op, sample)), "cpu")
    found: Callable[..., Any] | None = kernels.get(device) or kernels.get(None) or op.kernel
    return found


def promised(op: Op) -> tuple[str | None, ...]:
    """For each return, the argument that it is promised to be; None where it is new memory.

    By the tag, or by a written alias set that an argument and a return have in common.
    """
    buffers = [p.name for p in op.contract.parameters if p.mutated]
    if op.contract.tags & {Tag.INPLACE, Tag.OUT}:
        chosen = buffers if Tag.INPLACE in op.contract.tags else _keyword_only(op)
        return tuple(chosen[: len(op.contract.returns)])
    return tuple(
        next((name for name, alias in _aliases(op) if alias.write and _in_set(value, alias)), None)
        for value in _return_aliases(op)
    )


def viewed(op: Op) -> tuple[frozenset[str], ...]:
    """For each return, the arguments whose memory the schema lets it share."""
    return tuple(
        frozenset(name for name, alias in _aliases(op) if _in_set(value, alias))
        for value in _return_aliases(op)
    )


def _keyword_only(op: Op) -> list[str]:
    return [p.name for p in op.contract.parameters if p.mutated and p.kw_only]


def _aliases(op: Op) -> Iterator[tuple[str, Alias]]:
    for parameter in op.contract.parameters:
        if parameter.alias is not None:
            yield parameter.name, parameter.alias


def _return_aliases(op: Op) -> list[Alias | None]:
    return [alias_of(each.type) for each in op.contract.returns]


def _in_set(value: Alias | None, alias: Alias) -> bool:
    if value is None:
        return False
    wild = "*" in (*value.before, *value.after, *alias.after)
    return wild or not set(value.before).isdisjoint(alias.before)
