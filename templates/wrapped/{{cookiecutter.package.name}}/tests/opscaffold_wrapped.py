"""Checks of ops whose kernel is a function that was there: they hold the op to that function."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

import opscaffold_checks as checks
from opscaffold_samples import Sample

Function = Callable[..., Any]


def outcome(
    original: Function,
    arguments: Mapping[str, Any],
    writes: Sequence[str],
    results: Sequence[int],
) -> list[Any]:
    """What a function wrote to the arguments named, then those of its results."""
    given = {name: _copied(value) for name, value in arguments.items()}
    returned = original(**given)
    parts = returned if isinstance(returned, tuple) else (returned,)
    return [*(given[name] for name in writes), *(parts[index] for index in results)]


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return [_copied(item) for item in value] if isinstance(value, list) else value


def takes_what_the_original_takes(
    samples: Callable[..., Iterator[Sample]], original: Function
) -> None:
    """The kernel takes the same calls, of those that are tried, as the function it was."""
    device = torch.device("cpu")
    taken = [sample.label for sample in samples(device)]
    assert taken
    assert taken == [sample.label for sample in samples(device, original)]


def _floating(sample: Sample) -> list[int]:
    found = checks.tensors([*sample.args, *sample.kwargs.values()])
    return [index for index, tensor in enumerate(found) if tensor.is_floating_point()]


def refuses_lost_gradients(function: Function, case: checks.Case) -> None:
    """A call that autograd should follow is refused, and without grad mode it is not."""
    for index in _floating(case.sample()):
        sample = case.sample()
        checks.tensors([*sample.args, *sample.kwargs.values()])[index].requires_grad_()
        with pytest.raises(RuntimeError, match="would be lost"):
            function(*sample.args, **sample.kwargs)
        with torch.no_grad():
            function(*sample.args, **sample.kwargs)


def refuses_forward_mode(function: Function, case: checks.Case) -> None:
    """A dual tensor is refused: its tangent would be lost."""
    for index in _floating(case.sample()):
        with forward_ad.dual_level():
            sample = case.sample()
            dual = _with_dual(sample, index)
            with pytest.raises(RuntimeError, match="forward-mode"):
                function(*dual.args, **dual.kwargs)


def _with_dual(sample: Sample, wanted: int) -> Sample:
    count = 0

    def walk(value: Any) -> Any:
        nonlocal count
        if isinstance(value, Tensor):
            count += 1
            chosen = count - 1 == wanted
            return forward_ad.make_dual(value, torch.ones_like(value)) if chosen else value
        return [walk(item) for item in value] if isinstance(value, list) else value

    args = tuple(walk(value) for value in sample.args)
    return Sample(args, {name: walk(v) for name, v in sample.kwargs.items()}, sample.label)


def ignores_what_buffers_held(function: Function, case: checks.Case, writes: Sequence[str]) -> None:
    """The result does not depend on what a buffer held."""
    expected = _arguments(function, case.sample())
    function(**expected)
    for fill in (float("nan"), 77.0):
        given = _arguments(function, case.sample())
        for name in writes:
            number = 55 if fill != fill and not given[name].is_floating_point() else fill
            given[name].fill_(number)
        function(**given)
        for name in writes:
            torch.testing.assert_close(given[name], expected[name], equal_nan=True)


def returns_no_resized_buffer(function: Function, case: checks.Case, writes: Sequence[str]) -> None:
    """A buffer of the wrong size raises, or keeps its size."""
    for name in writes:
        given = _arguments(function, case.sample())
        buffer = given[name].new_zeros(0)
        try:
            function(**{**given, name: buffer})
        except Exception:  # whatever the function raises
            continue
        assert buffer.numel() == 0


def _arguments(function: Function, sample: Sample) -> dict[str, Any]:
    return dict(inspect.signature(function).bind(*sample.args, **sample.kwargs).arguments)
