"""Understands what people write as a sample, and puts its arguments in the order of the schema.

Generated samples are calls of the public function, whose parameters may stand in another order
than the schema's: where a module has a function of the op's name with the same parameters, the
arguments are read by its signature.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from torch import Tensor

from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample


class BindError(Exception):
    """What was given is no call of the op; the text says why."""


def understood(value: Any) -> tuple[tuple[Any, ...], dict[str, Any], str]:
    """Positional arguments, keyword arguments and label of what stands for a call.

    Taken are: an object with ``args``, ``kwargs`` and perhaps ``label``; a tuple of args, kwargs
    and perhaps a label; a tuple of arguments; a mapping of arguments by name; a lone tensor.
    Raises BindError for anything else.
    """
    if isinstance(value, Tensor):
        return (value,), {}, ""
    if hasattr(value, "args") and hasattr(value, "kwargs"):
        args, kwargs, label = value.args, value.kwargs, getattr(value, "label", "")
    elif _is_pair(value):
        args, kwargs = value[:2]
        label = value[2] if len(value) == 3 else ""
    elif isinstance(value, Mapping):
        keys = {"args", "kwargs", "label"}
        if "args" in value and value.keys() <= keys:
            args, kwargs = value["args"], value.get("kwargs", {})
            label = value.get("label", "")
        else:
            args, kwargs, label = (), value, ""
    elif isinstance(value, (tuple, list)):
        args, kwargs, label = value, {}, ""
    else:
        raise BindError(f"a {type(value).__name__} is no sample: give Sample(args, kwargs, label)")
    if isinstance(args, (str, Tensor)) or not isinstance(args, (tuple, list)):
        raise BindError(f"args of a sample is a {type(args).__name__}, not a tuple")
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise BindError("kwargs of a sample is no dict of arguments by name")
    return tuple(args), dict(kwargs), str(label or "")


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) in (2, 3)
        and isinstance(value[0], (tuple, list))
        and isinstance(value[1], dict)
        and (len(value) == 2 or isinstance(value[2], str))
    )


def public_function(op: Op, modules: Iterable[ModuleType]) -> Callable[..., Any] | None:
    """The function that callers of an op use, where it takes the op's parameters in its own order.

    It stands in the module of the kernel or in one that was imported, and has the op's name.
    """
    kernel = inspect.unwrap(op.kernel) if op.kernel is not None else None
    names = [op.contract.name]
    if op.contract.overload:
        names.append(f"{op.contract.name}_{op.contract.overload}")
    own = sys.modules.get(getattr(kernel, "__module__", ""))
    for module in (*([own] if own is not None else []), *modules):
        for name in names:
            found = getattr(module, name, None)
            if isinstance(found, FunctionType) and found is not kernel and _fits(found, op):
                return found
    return None


def _fits(function: FunctionType, op: Op) -> bool:
    parameters = inspect.signature(function).parameters
    plain = all(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values())
    return plain and set(parameters) == {p.name for p in op.contract.parameters}


def by_name(
    op: Op, function: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Which argument is passed for which parameter. Raises BindError where they do not fit."""
    if function is not None:
        try:
            return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise BindError(f"{op.contract.name}() takes no such call: {error}") from error
    positional = [p.name for p in op.contract.parameters if not p.kw_only]
    if len(args) > len(positional):
        raise BindError(f"{len(args)} positional arguments are given, and it takes {positional}")
    given = dict(zip(positional, args, strict=False))
    names = {p.name for p in op.contract.parameters}
    for name, value in kwargs.items():
        if name not in names:
            raise BindError(f"it has no argument {name!r}")
        if name in given:
            raise BindError(f"the argument {name!r} is given twice")
        given[name] = value
    for p in op.contract.parameters:
        if p.default is None and p.name not in given:
            raise BindError(f"the argument {p.name!r} is missing")
    return given


def bound(
    op: Op,
    function: Callable[..., Any] | None,
    value: Any,
    label: str,
    origin: str,
) -> Sample:
    """The sample that a written value stands for. Raises BindError where it is none."""
    args, kwargs, own = understood(value)
    given = by_name(op, function, args, kwargs)
    return op.with_arguments(Sample((), {}, "", origin), given, own or label)
