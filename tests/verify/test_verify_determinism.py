from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import NOT_DETERMINISTIC
from opscaffold.verify.checks.determinism import CHECK
from opscaffold.verify.sample import Sample

SAMPLE = Sample((torch.ones(2, 3),), {}, "plain")
COUNT: list[int] = []


def counting(x: Tensor) -> Tensor:
    COUNT.append(1)
    return x * len(COUNT)


RANDOM: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "torch": (torch.rand_like, "draws random numbers"),
    "dropout": (lambda x: torch.nn.functional.dropout(x, 0.5), "draws random numbers"),
    "numpy": (lambda x: x + float(np.random.default_rng().random()), "two equal calls"),
    "python": (lambda x: x + random.random(), "two equal calls"),
    "state": (counting, "two equal calls"),
}
EQUAL: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda x: x * 2,
    "scratch": lambda x: torch.empty(1000).fill_(2)[:3] * x,
    "unwritten": lambda x: torch.empty(x.shape[0] * 1000),
    "own generator": lambda x: torch.rand(x.shape, generator=torch.Generator().manual_seed(1)),
    "not a number": lambda x: x / 0 * 0,
}


def made(namespace: str, library: Any, low_level: bool, kernel: Any, tags: Any = ()) -> Any:
    def f(x: Tensor) -> Tensor:
        return kernel(x)

    if not low_level:
        return op_of(torch.library.custom_op(f"{namespace}::f", f, mutates_args=(), tags=tags))
    library.define("f(Tensor x) -> Tensor", tags=tags)
    library.impl("f", f, "CPU")
    return op_of(getattr(torch.ops, namespace).f.default, f)


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", RANDOM)
def test_results_that_differ_are_told(
    namespace: str, library: Any, form: str, low_level: bool
) -> None:
    kernel, told = RANDOM[form]
    ((code, message),) = observed(CHECK, made(namespace, library, low_level, kernel), SAMPLE)
    assert code == NOT_DETERMINISTIC.code
    assert told in message
    assert "the return" in message


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", EQUAL)
def test_equal_results_are_sound(namespace: str, library: Any, form: str, low_level: bool) -> None:
    assert observed(CHECK, made(namespace, library, low_level, EQUAL[form]), SAMPLE) == []


@pytest.mark.parametrize("low_level", [False, True])
def test_a_tagged_op_may_draw(namespace: str, library: Any, low_level: bool) -> None:
    tag = torch.Tag.nondeterministic_seeded
    assert observed(CHECK, made(namespace, library, low_level, torch.rand_like, tag), SAMPLE) == []


def test_what_is_written_is_compared_too(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"x"})
    def f(x: Tensor) -> None:
        x.add_(torch.rand_like(x))

    @torch.library.custom_op(f"{namespace}::g", mutates_args={"x"})
    def g(x: Tensor) -> None:
        x.add_(1)

    ((_, message),) = observed(CHECK, op_of(f), SAMPLE)
    assert "what they write to x" in message or "for what they write to x" in message
    assert observed(CHECK, op_of(g), SAMPLE) == []


def test_a_generator_that_is_passed_is_an_argument(namespace: str, library: Any) -> None:
    library.define("f(Tensor x, Generator generator) -> Tensor")
    library.impl("f", lambda x, generator: torch.rand(x.shape, generator=generator), "CPU")
    sample = Sample((torch.ones(3), torch.Generator().manual_seed(3)), {}, "generator")
    assert observed(CHECK, op_of(getattr(torch.ops, namespace).f.default), sample) == []


def test_settings_are_left_as_they_were(namespace: str, library: Any) -> None:
    fills = torch.utils.deterministic.fill_uninitialized_memory
    observed(CHECK, made(namespace, library, False, torch.rand_like), SAMPLE)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory == fills


@pytest.mark.parametrize("seeds", [True, False])
def test_an_op_that_seeds_the_global_generator_is_seen(namespace: str, seeds: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        if seeds:
            torch.manual_seed(0)
            return torch.rand(x.shape)
        return torch.rand(x.shape, generator=torch.Generator().manual_seed(0))

    sample = Sample((torch.ones(3),), {}, "plain")
    assert codes(CHECK, op_of(f), sample) == ({"OPS713"} if seeds else set())
