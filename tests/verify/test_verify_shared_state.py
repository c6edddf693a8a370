from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import observed, op_of

from opscaffold.findings.promises import UNDECLARED_WRITE
from opscaffold.verify.checks.shared_state import CHECK
from opscaffold.verify.sample import Sample

SAMPLE = Sample((torch.ones(3),), {}, "plain")

TOTAL = torch.zeros(())
LAST = torch.zeros(3)
WORK = torch.zeros(3)
TABLE = torch.arange(3.0)
CACHE = {"calls": [torch.zeros(3)]}


class Counter:
    def __init__(self) -> None:
        self.seen = torch.zeros(3)

    def count(self, x: Tensor) -> None:
        self.seen.add_(x)


COUNTER = Counter()


def last() -> Tensor:
    return LAST.clone()


def adds_to_total(x: Tensor) -> Tensor:
    TOTAL.add_(x.sum())
    return x * 2


def through_a_helper(x: Tensor) -> Tensor:
    return adds_to_total(x)


def keeps_the_last(x: Tensor) -> Tensor:
    LAST.copy_(x)
    return x * 2


def in_a_dict(x: Tensor) -> Tensor:
    CACHE["calls"][0].add_(1)
    return x * 2


def in_an_object(x: Tensor) -> Tensor:
    COUNTER.count(x)
    return x * 2


def in_numpy(x: Tensor) -> Tensor:
    TOTAL.numpy()[...] += 1
    return x * 2


SEEN = torch.zeros(3)


def a_default(x: Tensor, *, seen: Tensor = SEEN) -> Tensor:
    seen.add_(x)
    return x * 2


def only_reads(x: Tensor) -> Tensor:
    return x * TABLE


def works_on_scratch(x: Tensor) -> Tensor:
    return WORK.copy_(x).mul_(2).clone()


def names_no_tensor(x: Tensor) -> Tensor:
    return x * 2


WRITES: dict[str, tuple[Callable[..., Tensor], str]] = {
    "global": (adds_to_total, "TOTAL"),
    "helper": (through_a_helper, "TOTAL"),
    "last": (keeps_the_last, "LAST"),
    "dict": (in_a_dict, "CACHE['calls'][0]"),
    "object": (in_an_object, "COUNTER.seen"),
    "numpy": (in_numpy, "TOTAL"),
    "default": (a_default, "seen"),
}


def registered(namespace: str, library: Any, kernel: Any, low_level: bool) -> Any:
    if not low_level:

        @functools.wraps(kernel)
        def f(x):  # type: ignore[no-untyped-def]
            return kernel(x)

        schema = "(Tensor x) -> Tensor"
        made = torch.library.custom_op(f"{namespace}::f", f, mutates_args=(), schema=schema)
        return op_of(made)
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", kernel, "CPU")
    return op_of(getattr(torch.ops, namespace).f.default, kernel)


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", WRITES)
def test_a_tensor_that_outlives_the_call_is_named(
    namespace: str, library: Any, form: str, low_level: bool
) -> None:
    kernel, name = WRITES[form]
    ((code, message),) = observed(CHECK, registered(namespace, library, kernel, low_level), SAMPLE)
    assert code == UNDECLARED_WRITE.code
    assert f"the tensor {name}, " in message


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("kernel", [only_reads, works_on_scratch, names_no_tensor])
def test_reading_and_scratch_are_sound(
    namespace: str, library: Any, kernel: Any, low_level: bool
) -> None:
    assert observed(CHECK, registered(namespace, library, kernel, low_level), SAMPLE) == []


def test_a_closure_is_named(namespace: str) -> None:
    calls = torch.zeros(())

    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        calls.add_(1)
        return x * 2

    ((_, message),) = observed(CHECK, op_of(f), SAMPLE)
    assert "the tensor calls, " in message


def test_an_argument_that_is_declared_is_not_shared_state(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"x"})
    def f(x: Tensor) -> None:
        x.add_(TABLE)

    assert observed(CHECK, op_of(f), SAMPLE) == []
