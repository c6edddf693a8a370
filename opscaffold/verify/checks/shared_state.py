"""The op writes to no tensor that outlives its calls: a module's global, a default, a closure.

opcheck sees it only where the result depends on it, and only under AOTAutograd (FACTS section 2,
"Only opcheck"). A workspace that is written whole before it is read is the op's own business, as
long as nothing else reads it: what counts is a tensor that a second equal call leaves different,
and one that another function of the module refers to.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor

from opscaffold.findings.promises import UNDECLARED_WRITE
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation, call
from opscaffold.verify.checks.values import distinct, random_values
from opscaffold.verify.memory import Snapshot
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample

STRUCTURES = 3
_DEPTH = 5
_OBJECTS = 2000
_NOT_USERS = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "opscaffold", "triton"}


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Compare what the kernel can reach before a call, after it, and after another."""
    reach = Reach(op.kernel)
    if not reach.tensors:
        return
    for sample in distinct(samples, STRUCTURES):
        # An earlier equal call may have left there what this one writes.
        call(op, random_values(sample, 1))
        before = {name: Snapshot.of(tensor) for name, tensor in reach.tensors.items()}
        if call(op, sample).error is not None:
            continue
        changed = [n for n, tensor in reach.tensors.items() if before[n].differs(tensor)]
        between = {name: Snapshot.of(reach.tensors[name]) for name in changed}
        if changed:
            call(op, sample)
        for name in changed:
            if between[name].differs(reach.tensors[name]):
                told = "an equal call leaves other values in it again"
            elif reader := reach.read_elsewhere(name):
                told = f"{reader} reads it"
            else:
                continue
            message = (
                f"the op writes to the tensor {name}, which outlives the call and which no schema "
                f"can declare: {told}"
            )
            yield Observation(UNDECLARED_WRITE, message, sample, f"global {name}")


class Reach:
    """The tensors that a function reaches without being given them, by how it names them."""

    def __init__(self, function: Callable[..., Any] | None) -> None:
        """Walk what the function and all that it calls refer to, within user code."""
        self.tensors: dict[str, Tensor] = {}
        self._seen: set[int] = set()
        self._kept: list[object] = []
        self._functions: list[FunctionType] = []
        self._visit("", function, 0)

    def read_elsewhere(self, name: str) -> str:
        """A function that refers to a global of this name, and is not reached; empty for none."""
        first = name.partition(".")[0].partition("[")[0]
        reached = {function.__code__ for function in self._functions}
        for function in self._functions[:1]:
            for other in _functions_in(function.__globals__):
                if other.__code__ not in reached and first in _names(other.__code__):
                    return other.__qualname__
        return ""

    def _visit(self, name: str, value: object, depth: int) -> None:
        if id(value) in self._seen or depth > _DEPTH or len(self._seen) > _OBJECTS:
            return
        if isinstance(value, (str, bytes, int, float, complex, type(None))):
            return
        self._seen.add(id(value))
        # An id stays the one of its object only as long as that is alive.
        self._kept.append(value)
        if isinstance(value, Tensor):
            self.tensors[name] = value
            return
        for label, item in self._children(name, value):
            self._visit(label, item, depth + 1)

    def _children(self, name: str, value: object) -> Iterator[tuple[str, object]]:
        if isinstance(value, functools.partial):
            yield f"{name}.args", (*value.args, *value.keywords.values())
            yield name, value.func
        elif isinstance(value, MethodType):
            yield "self", value.__self__
            yield name, value.__func__
        elif isinstance(value, FunctionType):
            yield from self._of_function(inspect.unwrap(value))
        elif isinstance(value, dict):
            yield from ((f"{name}[{key!r}]", item) for key, item in list(value.items()))
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield from ((f"{name}[{number}]", item) for number, item in enumerate(value))
        elif not isinstance(value, ModuleType) and not _foreign(type(value).__module__):
            inside = getattr(value, "__dict__", {})
            yield from ((f"{name}.{key}", item) for key, item in list(inside.items()))

    def _of_function(self, function: FunctionType) -> Iterator[tuple[str, object]]:
        if _foreign(function.__module__):
            return
        self._functions.append(function)
        code = function.__code__
        yield from inspect.getclosurevars(function).nonlocals.items()
        yield from (
            (f"the default {number} of {function.__name__}", item)
            for number, item in enumerate(function.__defaults__ or ())
        )
        yield from (function.__kwdefaults__ or {}).items()
        names = _names(code)
        for name in names & function.__globals__.keys():
            value = function.__globals__[name]
            if not isinstance(value, ModuleType):
                yield name, value
            elif not _foreign(value.__name__):
                yield from (
                    (f"{name}.{inner}", getattr(value, inner))
                    for inner in names
                    if hasattr(value, inner)
                )


def _names(code: CodeType) -> set[str]:
    """Every name that code refers to, with that of the functions inside it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _functions_in(module: dict[str, Any]) -> Iterator[FunctionType]:
    """The functions of a module, and the methods of its classes."""
    for value in list(module.values()):
        inside = vars(value).values() if isinstance(value, type) else (value,)
        for item in inside:
            plain = inspect.unwrap(item) if callable(item) else item
            if isinstance(plain, FunctionType) and plain.__globals__ is module:
                yield plain


def _foreign(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _NOT_USERS


CHECK = Check("shared state", Cost.CALLS, run, lambda op: op.kernel is not None)
