"""Whether a call is one that the fake kernel describes too."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from opscaffold.verify.checks.base import call, quiet
from opscaffold.verify.op import Op, results
from opscaffold.verify.sample import Sample, tensors_in

# There is no fake kernel, or it cannot know before the kernel has run.
_NOT_TOLD = (
    fake_tensor.UnsupportedFakeTensorException,
    fake_tensor.UnsupportedOperatorException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.DataDependentOutputException,
    NotImplementedError,
)


def is_described(op: Op, sample: Sample) -> bool:
    """Whether the fake kernel says the shapes and dtypes that the kernel returns.

    A made-up call may be one that nobody meant, such as a matrix product of vectors, which the
    kernel takes by luck: then a fake kernel that knows no such call is not at fault. Also true
    where there is no fake kernel, or where the real call fails.
    """
    real = call(op, sample)
    if real.error is not None:
        return True
    try:
        with quiet(), FakeTensorMode() as mode:
            given = _fake(sample.args, mode), _fake(sample.kwargs, mode)
            with torch.set_grad_enabled(sample.grad_mode):
                told = results(op.overload(*given[0], **given[1]))
    except Exception as error:  # noqa: BLE001 -- fake kernels raise what they like
        return isinstance(error, (TypeError, *_NOT_TOLD)) or "fake impl" in str(error)
    return _metadata(told) == _metadata(real.returned)


@functools.cache
def warm_up() -> None:
    """Load what torch loads at the first call of a custom op and at the first fake tensor.

    It takes seconds, which are no kernel's.
    """
    importlib.import_module("torch._dynamo")
    with quiet(), FakeTensorMode() as mode:
        mode.from_tensor(torch.zeros(1)).add(1)


def _metadata(values: list[Any]) -> list[tuple[tuple[str, ...], torch.dtype]]:
    # A size may be unknown to the fake kernel: it then agrees with any.
    return [
        (tuple(str(int(n)) if isinstance(n, int) else "?" for n in tensor.shape), tensor.dtype)
        for tensor in tensors_in(values)
    ]


def _fake(value: Any, mode: FakeTensorMode) -> Any:
    if isinstance(value, Tensor):
        return mode.from_tensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_fake(item, mode) for item in value)
    if isinstance(value, dict):
        return {name: _fake(item, mode) for name, item in value.items()}
    return value
