"""Two programs side by side: what the ops of the old one did, and what those of the new one do.

They register ops of the same names, so each runs in a process of its own. The first records its
calls in a file, the second makes the calls that correspond, and compares.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch._library import utils

from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.model import OpContract, Tag
from opscaffold.findings.promises import FORMS_DIFFER
from opscaffold.verify.checks.base import (
    SEED,
    Call,
    Observation,
    call,
    first_difference,
    first_line,
    quiet,
    same,
)
from opscaffold.verify.memory import share_memory
from opscaffold.verify.op import Op
from opscaffold.verify.pairing import Pair, heirs, pair
from opscaffold.verify.sample import Copies, Sample, describe, tensors_in
from opscaffold.verify.schema import text_of

SAMPLE_CALLS = "sample_calls"


@dataclass
class RecordedCall:
    """One call of an old op: what it was given, and what it left."""

    sample: Sample
    after: dict[str, Any]
    """The arguments as the call left them, by name."""
    returned: list[Any]
    is_argument: list[str | None]
    """For each return, the argument that it shares memory with, if any."""


@dataclass
class RecordedOp:
    """The calls of one old op that did not raise."""

    schema: str
    tags: tuple[str, ...]
    calls: list[RecordedCall] = field(default_factory=list)

    @property
    def contract(self) -> OpContract:
        """What it declared."""
        tags = frozenset(Tag(name) for name in self.tags)
        return replace(parse_schema(self.schema), tags=tags)


@dataclass
class Record:
    """Everything that a run of the old program leaves to compare with."""

    ops: dict[str, RecordedOp] = field(default_factory=dict)
    functions: dict[str, list[Any]] = field(default_factory=dict)
    """What functions that call the ops returned, by name: each of these is right."""

    def save(self, path: Path) -> None:
        """Write it to a file."""
        torch.save(self, path)

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what this very command wrote: nothing else may be read like this."""
        record: Record = torch.load(path, weights_only=False)
        return record


@contextlib.contextmanager
def aliases_allowed() -> Iterator[None]:
    """Let a custom_op return what it was given: PyTorch raises only after the kernel has run."""
    names = ("check_aliasing_constraint", "_c_check_aliasing_constraint")
    kept = {name: getattr(utils, name) for name in names if hasattr(utils, name)}
    for name in kept:
        setattr(utils, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(utils, name, function)


def record_op(op: Op, samples: Iterable[Sample]) -> RecordedOp:
    """Call an old op on its samples, and keep the calls that do the same when made again."""
    tags = tuple(tag.value for tag in op.contract.tags)
    recorded = RecordedOp(text_of(op.overload), tags)
    with aliases_allowed():
        for sample in map(_without_grad, samples):
            done, again = call(op, sample), call(op, sample)
            after = op.arguments(done.sample)
            if done.error or again.error or not _agree(op, done, again):
                continue
            names = [_argument_behind(value, after) for value in done.returned]
            recorded.calls.append(
                RecordedCall(sample.fresh(), _plain(after), _plain(done.returned), names)
            )
    return recorded


def _without_grad(sample: Sample) -> Sample:
    """A call that autograd does not follow: a tagged op refuses one that it would have to.

    The old op raised there too, having returned what it was given; or it lost the gradient.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(plain, value))
        return value.detach() if isinstance(value, Tensor) else value

    args = tuple(map(plain, sample.args))
    kwargs = {name: plain(value) for name, value in sample.kwargs.items()}
    return replace(sample, args=args, kwargs=kwargs, grad_mode=False)


def _agree(op: Op, one: Call, other: Call) -> bool:
    """Whether two calls did the same. Memory that is returned as it was found never does."""
    left, right = op.arguments(one.sample), op.arguments(other.sample)
    written = all(same(value, right[name]) for name, value in left.items())
    returned = zip(one.returned, other.returned, strict=True)
    return written and all(same(a, b) or _is_small(a) for a, b in returned)


def _is_small(value: Any) -> bool:
    """Whether it is what stands in for a return that says nothing: at most one element."""
    return isinstance(value, Tensor) and value.numel() <= 1


def _argument_behind(value: Any, arguments: Mapping[str, Any]) -> str | None:
    for name, given in arguments.items():
        for one in tensors_in(value):
            if any(one is other or share_memory(one, other) for other in tensors_in(given)):
                return name
    return None


def _plain(value: Any) -> Any:
    """A copy that no graph hangs on and no later call can change."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(item) for item in value)
    return value.detach().clone() if isinstance(value, Tensor) else Copies().of(value)


def record_functions(functions: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Call functions that take nothing, and keep what those return that do not raise.

    That is with PyTorch's alias check and without it: what raised because of it may do so still,
    or have become the success that was meant.
    """
    kept: dict[str, list[Any]] = {}
    for name, function in functions.items():
        with aliases_allowed():
            freely = _called(function)
        done = [value for value, error in (freely, _called(function)) if error is None]
        if done:
            kept[name] = done
    return kept


def _called(function: Any) -> tuple[Any, Exception | None]:
    torch.manual_seed(SEED)
    # A compiled program need not be right before the repair.
    with quiet(), torch.compiler.set_stance("force_eager"):
        try:
            return _plain(function()), None
        except Exception as error:  # noqa: BLE001 -- user code raises what it likes
            return None, error


def sample_functions(modules: Iterable[ModuleType]) -> dict[str, Any]:
    """The ``sample_calls`` of modules, which take nothing and use the ops as callers do."""
    found = {}
    for module in modules:
        function = getattr(module, SAMPLE_CALLS, None)
        if callable(function) and not _needed(function):
            found[f"{module.__name__}.{SAMPLE_CALLS}"] = function
    return found


def _needed(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ["?"]
    return [p.name for p in parameters if p.default is p.empty and p.kind < p.VAR_POSITIONAL]


def compare_op(
    old: RecordedOp, ops: Mapping[str, Op], named: Sequence[str] = ()
) -> Iterator[tuple[Op | None, Observation]]:
    """Make each recorded call of the ops that took its place, and tell what differs.

    ``named`` are the qualified names of those ops; without any, those named after the old one
    are tried. With each observation comes the op that it is about, None where no op takes a call.
    """
    contracts = [op.contract for op in ops.values()]
    if named:
        contracts = [ops[name].contract for name in named if name in ops]
    candidates = contracts if named else heirs(old.contract, contracts)
    positional = [p.name for p in old.contract.parameters if not p.kw_only]
    for recorded in old.calls:
        sample = recorded.sample
        given = {**dict(zip(positional, sample.args, strict=False)), **sample.kwargs}
        found = pair(old.contract, given, candidates)
        if found is None:
            tried = ", ".join(each.qualname for each in candidates) or "there is none"
            message = f"no op takes this call of the old {old.contract.qualname} ({tried})"
            yield None, Observation(FORMS_DIFFER, message, sample, "call")
            continue
        op = ops[found.contract.qualname]
        for subject, message in _differences(op, found, recorded):
            yield op, Observation(FORMS_DIFFER, message, sample, subject)


def _differences(op: Op, found: Pair, old: RecordedCall) -> Iterator[tuple[str, str]]:
    sample = op.with_arguments(old.sample, found.arguments, old.sample.label)
    done = call(op, sample)
    if done.error is not None:
        what = first_line(done.error)
        yield "call", f"{op.qualname} raises where the old op did not: {what}"
        return
    after = op.arguments(done.sample)
    for name, value in after.items():
        if not same(value, old.after[name]):
            told = _told(value, old.after[name])
            yield name, f"{op.qualname} leaves the argument {name} other than the old op did{told}"
    expected = _expected(done.returned, old)
    if len(expected) != len(done.returned):
        message = f"{op.qualname} returns {len(done.returned)} values, and the old op"
        yield "returns", f"{message} {len(old.returned)}, of which {len(expected)} are new"
        return
    for number, (value, other) in enumerate(zip(done.returned, expected, strict=True)):
        if not same(value, other):
            where = f"return {number}" if len(done.returned) > 1 else "the return"
            told = _told(value, other)
            yield where, f"{where} of {op.qualname} is not what the old op returned{told}"


def _told(now: Any, before: Any) -> str:
    """Where two values differ first, or what they are where they differ in kind."""
    place = first_difference(now, before)
    if place is None:
        return f": {describe(now)}, where it was {describe(before)}"
    return f": element {place[0]} is {place[1]}, and was {place[2]}"


def _expected(new: Sequence[Any], old: RecordedCall) -> list[Any]:
    """The old returns that the new ones stand for: what an argument holds may be left out."""
    if len(new) == len(old.returned):
        return old.returned
    fresh = [v for v, name in zip(old.returned, old.is_argument, strict=True) if name is None]
    return fresh if new else [value for value in fresh if not _is_dummy(value, old)]


def _is_dummy(value: Any, old: RecordedCall) -> bool:
    """Whether a return tells a caller nothing: no elements to speak of, or those of an argument."""
    if not isinstance(value, Tensor):
        return False
    known = [t for argument in old.after.values() for t in tensors_in(argument)]
    return _is_small(value) or any(same(value, tensor) for tensor in known)


def compare_functions(
    old: Mapping[str, Sequence[Any]], functions: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Call the functions that the old program's record knows; name and message of each breach."""
    for name, before in old.items():
        function = functions.get(name)
        if function is None:
            yield name, f"{name} is there no more"
            continue
        now, error = _called(function)
        if error is not None:
            yield name, f"{name} raises where it did not: {first_line(error)}"
        elif not any(same_tree(now, each) for each in before):
            yield name, f"{name} returns something else than before"


def same_tree(one: Any, other: Any) -> bool:
    """Whether two results agree, whatever lists, tuples and dicts their tensors stand in."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_tree(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(
            same_tree(left, right) for left, right in zip(one, other, strict=True)
        )
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return same(one, other)
    # Of an object without an equality of its own, nothing can be said.
    return "__eq__" not in type(one).__dict__ or bool(one == other)
