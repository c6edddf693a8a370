"""Runs functions that call ops themselves, and notes with what: those calls are samples."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode

from opscaffold.verify.checks.base import first_line, quiet
from opscaffold.verify.imports import LoadError
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Copies, Sample, tensors_in
from opscaffold.verify.samples.binding import BindError, bound, by_name
from opscaffold.verify.samples.trial import is_plain
from opscaffold.verify.samples.vary import layout_key
from opscaffold.verify.samples.written import loaded_from

SAMPLE_CALLS = "sample_calls"
_MOST = 24
"""Calls that are kept of one op from one function."""


@dataclass
class Recording:
    """What one function gave."""

    origin: str
    calls: dict[str, list[Sample]] = field(default_factory=dict)
    """Recorded calls by op."""
    values: Any = None
    """What it returned; of a generator, the list of what it yielded."""
    fault: str = ""
    """What it raised, and where."""


class Recorder(TorchFunctionMode):
    """Notes each call of some ops, with copies of the arguments as they are before it."""

    def __init__(self, ops: Iterable[Op], recording: Recording) -> None:
        super().__init__()
        self._ops = {op.overload: op for op in ops}
        self._recording = recording
        self._keys: set[tuple[str, Any]] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Note a call, and make it."""
        kwargs = dict(kwargs or {})
        if isinstance(func, (OpOverload, OpOverloadPacket)):
            self._note(func, args, kwargs)
        return func(*args, **kwargs)

    def _note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for op, given in self._meant(func, args, kwargs):
            if not all(is_plain(tensor) for tensor in tensors_in([*given.values()])):
                return
            calls = self._recording.calls.setdefault(op.qualname, [])
            key = (op.qualname, (tuple(given), layout_key(given.values())))
            if key in self._keys or len(calls) >= _MOST:
                return
            self._keys.add(key)
            label = f"call {len(calls) + 1} of {self._recording.origin}"
            sample = op.with_arguments(Sample((), {}, "", self._recording.origin), given, label)
            # Only a functional op with autograd is for gradients; others lose them (FACTS S5).
            wants_grad = op.has_autograd and torch.is_grad_enabled()
            requiring = wants_grad and any(t.requires_grad for t in tensors_in([*given.values()]))
            copy = _detached(sample, keep_grad=requiring)
            calls.append(Sample(copy.args, copy.kwargs, label, sample.origin, "", requiring))
            return

    def _meant(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[tuple[Op, dict[str, Any]]]:
        """The ops that may be meant by a call, with its arguments by name."""
        overloads = [func] if isinstance(func, OpOverload) else []
        if isinstance(func, OpOverloadPacket):
            overloads = [getattr(func, name) for name in func.overloads()]  # type: ignore[no-untyped-call]
        for overload in overloads:
            op = self._ops.get(overload)
            if op is None:
                continue
            try:
                yield op, by_name(op, None, args, kwargs)
            except BindError:
                continue


def _detached(sample: Sample, *, keep_grad: bool) -> Sample:
    """A copy that no graph holds on to."""
    with torch.no_grad():
        copies = Copies()
        args = tuple(copies.of(value) for value in sample.args)
        kwargs = {name: copies.of(value) for name, value in sample.kwargs.items()}
    for tensor in tensors_in([*args, *kwargs.values()]):
        if tensor.requires_grad and not keep_grad:
            tensor.requires_grad_(False)
    return Sample(args, kwargs, sample.label, sample.origin)


def record(function: Callable[..., Any], origin: str, ops: Sequence[Op]) -> Recording:
    """Run a function, compiled programs in eager mode, and note its calls and what it returns."""
    recording = Recording(origin)
    takes = inspect.signature(function).parameters.values()
    given = (torch.device("cpu"),) if any(p.default is p.empty for p in takes) else ()
    try:
        with quiet(), torch.compiler.set_stance("force_eager"), Recorder(ops, recording):
            value = function(*given)
            recording.values = list(value) if inspect.isgenerator(value) else value
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 -- it is the author's code
        recording.fault = f"{origin} raised {first_line(error)}"
    return recording


def returned(recording: Recording, op: Op, ops: Sequence[Op]) -> tuple[list[Sample], str]:
    """The samples of an op that a function returned, and what is wrong with them.

    It says of which op they are by a dict of ops, by its own name ("scale_samples"), or by there
    being one op alone.
    """
    values = recording.values
    if isinstance(values, Mapping):
        values = values.get(op.qualname)
    elif len(ops) > 1:
        short = recording.origin.rpartition(":")[2]
        if not any(short in _names_for(each) for each in ops):
            wanted = _names_for(op)[0]
            return [], (
                f"{recording.origin}: what it returns does not say of which op it is; return a "
                f"dict of qualified names, or call the function {wanted}"
            )
        if short not in _names_for(op):
            return [], ""
    if values is None:
        return [], ""
    samples: list[Sample] = []
    try:
        if isinstance(values, (str, torch.Tensor)) or not isinstance(values, Iterable):
            raise BindError(f"it returns a {type(values).__name__}, and calls no op under test")
        for number, value in enumerate(values, 1):
            label = f"{number} of {recording.origin}"
            samples.append(bound(op, None, value, label, recording.origin))
    except BindError as error:
        return samples, f"{recording.origin}: what it returns does not fit {op.qualname}: {error}"
    return samples, ""


def _names_for(op: Op) -> tuple[str, str]:
    return f"{op.contract.name}_samples", f"samples_of_{op.contract.name}"


def named(text: str) -> Callable[..., Any]:
    """The function of ``path/to/file.py:function`` or ``package.module:function``.

    Raises LoadError.
    """
    where, _, name = text.rpartition(":")
    try:
        if where.endswith(".py"):
            module = loaded_from(Path(where).resolve(), Path(where).stem)
        else:
            module = importlib.import_module(where)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise LoadError(f"--samples {text}: importing it raised {first_line(error)}") from error
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        what = "has no such function" if found is None else "holds no function of that name"
        raise LoadError(f"--samples {text}: {where} {what}")
    return found  # type: ignore[no-any-return]


def own_functions(modules: Iterable[ModuleType]) -> list[tuple[str, Callable[..., Any]]]:
    """The ``sample_calls`` of the targets themselves, with where they stand."""
    found: dict[int, tuple[str, Callable[..., Any]]] = {}
    for module in modules:
        function = vars(module).get(SAMPLE_CALLS)
        if inspect.isfunction(function):
            found[id(function)] = f"{module.__name__}:{SAMPLE_CALLS}", function
    return list(found.values())
