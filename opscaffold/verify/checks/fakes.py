"""The fake kernel says of each return what the kernel returns: structure, sizes, dtype, layout.

Every sample is compared, in all dtypes and layouts, and a few again on larger sizes, where a size
that is written out in the fake kernel shows. Strides are compared where they matter: along
dimensions of more than one element, in tensors that have any. A size that only the data decides
(``ctx.new_dynamic_size()``) matches every size; what follows from it is left open.

opcheck's own comparison sees one sample at a time and takes a fake kernel that returns None for a
right one (FACTS section 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from opscaffold.findings.promises import FAKE_DIFFERS
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation, call, first_line, quiet
from opscaffold.verify.checks.values import distinct, larger
from opscaffold.verify.checks.watch import named, promised, viewed
from opscaffold.verify.op import Op, results
from opscaffold.verify.sample import Sample, describe

_ABSENT = ("no fake impl registered", "UnsupportedOperatorException", "'Meta' backend")
STRUCTURES = 4
"""How many samples are tried again on larger sizes."""


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Call the op and its fake kernel on each sample, and compare."""
    grown = [other for other in map(larger, distinct(samples, STRUCTURES)) if other is not None]
    for sample in [*samples, *grown]:
        real = call(op, sample)
        if real.error is not None:
            continue
        for subject, message in _compared(op, sample, real.returned):
            yield Observation(FAKE_DIFFERS, message, sample, subject)


def _compared(op: Op, sample: Sample, real: list[Any]) -> Iterator[tuple[str, str]]:
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=False)
    given = _faked(mode, sample)
    try:
        with quiet(), mode, torch.no_grad():
            faked = results(op.overload(*given.args, **given.kwargs))
    except Exception as error:  # noqa: BLE001 -- fake kernels raise what they like
        yield "raises", _raised(error)
        return
    if len(faked) != len(real):
        yield "returns", f"the fake kernel returns {len(faked)} values, the kernel {len(real)}"
        return
    for number, (made, returned) in enumerate(zip(faked, real, strict=True)):
        what = "the return" if len(real) == 1 else f"return {number}"
        difference = _difference(made, returned)
        if difference:
            yield what, f"for {what}, {difference}"
    yield from _identity(op, given, faked)


def _raised(error: Exception) -> str:
    text = first_line(error)
    if any(words in f"{type(error).__name__}: {error}" for words in _ABSENT):
        return f"there is no fake kernel, and the op cannot be traced: {text}"
    return f"the fake kernel raises where the kernel runs: {text}"


def _faked(mode: FakeTensorMode, sample: Sample) -> Sample:
    """The same call on fake tensors; those that are one object stay one."""
    known: dict[int, Tensor] = {}

    def fake(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            items = [fake(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if not isinstance(value, Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = mode.from_tensor(value.detach(), static_shapes=True)
        return known[id(value)]

    kwargs = {name: fake(value) for name, value in sample.kwargs.items()}
    return Sample(tuple(fake(value) for value in sample.args), kwargs, sample.label)


def _difference(made: Any, real: Any) -> str:
    """What the fake kernel says otherwise, in words; empty where it is right."""
    if isinstance(real, (list, tuple)) and isinstance(made, (list, tuple)):
        if len(made) != len(real):
            return f"the fake kernel says {len(made)} tensors, the kernel returns {len(real)}"
        differences = (_difference(one, other) for one, other in zip(made, real, strict=True))
        return next((each for each in differences if each), "")
    if not isinstance(real, Tensor) or not isinstance(made, Tensor):
        if isinstance(real, Tensor) or isinstance(made, Tensor):
            return f"the fake kernel returns {_told(made)}, the kernel {_told(real)}"
        # Numbers that are returned are data.
        return ""
    for what, says, is_ in _metadata(made, real):
        if says is not None and says != is_:
            return f"the fake kernel says {what} {says}, the kernel returns {what} {is_}"
    return ""


def _told(value: Any) -> str:
    return "a tensor" if isinstance(value, Tensor) else describe(value)


def _metadata(made: Tensor, real: Tensor) -> Iterator[tuple[str, Any, Any]]:
    """What is compared: the fake one is None where it is not known before the data is."""
    yield "dtype", made.dtype, real.dtype
    yield "device", made.device, real.device
    yield "layout", made.layout, real.layout
    if made.dim() != real.dim():
        yield "shape", _shape(made.shape), _shape(real.shape)
        return
    open_sizes = [_number(size) is None for size in made.shape]
    if any(
        not is_open and _number(said) != size
        for said, size, is_open in zip(made.shape, real.shape, open_sizes, strict=True)
    ):
        yield "shape", _shape(made.shape), _shape(real.shape)
    if any(open_sizes) or real.layout != torch.strided or not real.numel():
        return
    matter = [dim for dim in range(real.dim()) if real.shape[dim] > 1]
    if any(_number(made.stride(dim)) != real.stride(dim) for dim in matter):
        yield "strides", _shape(made.stride()), real.stride()
    yield "storage offset", _number(made.storage_offset()), real.storage_offset()
    yield "conjugate bit", made.is_conj(), real.is_conj()
    yield "negative bit", made.is_neg(), real.is_neg()


def _shape(sizes: Sequence[Any]) -> tuple[Any, ...]:
    known = [_number(size) for size in sizes]
    return tuple("?" if size is None else size for size in known)


def _number(size: Any) -> int | None:
    """A size as a number; None where it stands for one that the data decides."""
    if isinstance(size, torch.SymInt):
        expression = size.node.expr
        return int(expression) if expression.is_number else None
    return int(size)


def _identity(op: Op, given: Sample, faked: list[Any]) -> Iterator[tuple[str, str]]:
    """Fake returns that are an argument although new memory is promised, and the reverse."""
    passed = op.arguments(given)
    be, may = promised(op), viewed(op)
    for number, value in enumerate(faked):
        to_be = be[number] if number < len(be) else None
        if to_be is not None:
            if to_be in passed and not _one_memory(value, passed[to_be]):
                yield to_be, f"the fake kernel does not return {to_be}, which the op promises"
            continue
        allowed = may[number] if number < len(may) else frozenset()
        what = "the return" if len(faked) == 1 else f"return {number}"
        for parameter, argument in passed.items():
            for name, tensor in named(parameter, argument) if parameter not in allowed else ():
                for label, returned in named(what, value):
                    if _one_memory(returned, tensor):
                        be_told = "itself" if returned is tensor else "viewed"
                        told = f"the fake kernel returns the argument {name} {be_told} as {label}"
                        yield f"{label} {name}", told


def _one_memory(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    if one.layout != torch.strided or other.layout != torch.strided:
        return one is other
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


CHECK = Check("fake kernel", Cost.OPCHECK, run)
