from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import FAKE_DIFFERS
from opscaffold.verify.checks.fakes import CHECK
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample

Kernel = Callable[[Tensor], Any]


def op(namespace: str, library: Any, low_level: bool, kernel: Kernel, fake: Kernel) -> Op:
    def f(x: Tensor) -> Tensor:
        return kernel(x)

    if not low_level:
        made = torch.library.custom_op(f"{namespace}::f", f, mutates_args=())
        made.register_fake(fake)
        return op_of(made)
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", f, "CPU")
    torch.library.register_fake(f"{namespace}::f", fake, lib=library)
    return op_of(getattr(torch.ops, namespace).f.default, f)


def sample(dtype: torch.dtype = torch.float32) -> Sample:
    return Sample((torch.ones(4, 3, dtype=dtype),), {}, str(dtype))


PAIRS: dict[str, tuple[Kernel, Kernel, Kernel, str]] = {
    "rows": (
        lambda x: x.sum(-1),
        lambda x: x.new_empty(x.shape[:-1]),
        lambda x: x.new_empty(x.shape),
        "shape (4, 3), the kernel returns shape (4,)",
    ),
    "keeps its layout": (
        lambda x: x * 2,
        torch.empty_like,
        lambda x: x.new_empty(x.shape[::-1]).t(),
        "strides (1, 4), the kernel returns strides (3, 1)",
    ),
    "starts later": (
        lambda x: torch.cat([x, x])[4:],
        lambda x: torch.cat([x, x])[4:],
        torch.empty_like,
        "storage offset 0, the kernel returns storage offset 12",
    ),
    "counts": (
        lambda x: (x > 0).sum(-1),
        lambda x: x.new_empty(x.shape[:-1], dtype=torch.int64),
        lambda x: x.new_empty(x.shape[:-1], dtype=torch.int32),
        "dtype torch.int32, the kernel returns dtype torch.int64",
    ),
    "size written out": (
        lambda x: x.sum(-1),
        lambda x: x.new_empty(x.shape[0]),
        lambda x: x.new_empty(4),
        "shape (4,), the kernel returns shape (5,)",
    ),
    "device": (
        lambda x: x * 2,
        torch.empty_like,
        lambda x: torch.empty_like(x, device="meta"),
        "device meta, the kernel returns device cpu",
    ),
    "itself": (
        lambda x: x * 2,
        torch.empty_like,
        lambda x: x,
        "the fake kernel returns the argument x itself",
    ),
    "a view": (
        lambda x: x[0] * 2,
        lambda x: torch.empty_like(x[0]),
        lambda x: x[0],
        "the fake kernel returns the argument x viewed",
    ),
    "none": (lambda x: x * 2, torch.empty_like, lambda x: None, "the fake kernel returns"),
    "reads numbers": (
        lambda x: x * float(x.sum()),
        torch.empty_like,
        lambda x: x * float(x.sum()),
        "the fake kernel raises",
    ),
}


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", PAIRS)
def test_what_a_fake_kernel_says_otherwise_is_told(
    namespace: str, library: Any, form: str, low_level: bool
) -> None:
    kernel, _, wrong, told = PAIRS[form]
    seen = observed(CHECK, op(namespace, library, low_level, kernel, wrong), sample())
    assert {code for code, _ in seen} == {FAKE_DIFFERS.code}
    assert told in seen[0][1] or form == "none"


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", PAIRS)
def test_a_fake_kernel_that_says_the_same_is_sound(
    namespace: str, library: Any, form: str, low_level: bool
) -> None:
    kernel, right, *_ = PAIRS[form]
    assert observed(CHECK, op(namespace, library, low_level, kernel, right), sample()) == []


def test_each_dtype_is_compared(namespace: str, library: Any) -> None:
    def energy(x: Tensor) -> Tensor:
        return x.float().square().sum(-1)

    drifting = op(namespace, library, False, energy, lambda x: x.new_empty(x.shape[:-1]))
    assert observed(CHECK, drifting, sample()) == []
    ((_, message), *_) = observed(CHECK, drifting, sample(), sample(torch.bfloat16))
    assert "says dtype torch.bfloat16, the kernel returns dtype torch.float32" in message


def test_strides_of_what_has_no_elements_to_stride_over_do_not_matter(
    namespace: str, library: Any
) -> None:
    made = op(
        namespace,
        library,
        False,
        lambda x: x.clone().t().clone(),
        lambda x: x.new_empty(x.t().shape),
    )
    empty = Sample((torch.ones(0, 3),), {}, "empty")
    single = Sample((torch.ones(1, 3),), {}, "one row")
    assert observed(CHECK, made, empty, single) == []
    assert codes(CHECK, made, sample()) == {FAKE_DIFFERS.code}


def test_a_size_that_the_data_decides_is_left_open(namespace: str, library: Any) -> None:
    def fake(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        size = torch.library.get_ctx().new_dynamic_size()
        return x.new_empty((size, 2), dtype=dtype)

    def kernel(x: Tensor) -> Tensor:
        return x[x > 0].reshape(-1, 1).repeat(1, 2)

    assert observed(CHECK, op(namespace, library, False, kernel, fake), sample()) == []
    other = op(f"{namespace}_o", library, False, kernel, lambda x: fake(x, torch.int64))
    assert codes(CHECK, other, sample()) == {FAKE_DIFFERS.code}


def test_an_op_without_a_fake_kernel_cannot_be_traced(namespace: str, library: Any) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    library.define("g(Tensor x) -> Tensor")
    library.impl("g", lambda x: x * 2, "CPU")
    for made in (op_of(f), op_of(getattr(torch.ops, namespace).g.default)):
        ((code, message),) = observed(CHECK, made, Sample((torch.ones(()),), {}, "0-d"))
        assert code == FAKE_DIFFERS.code
        assert "there is no fake kernel" in message


def test_ops_that_need_none_are_sound(namespace: str, library: Any) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"x"})
    def f(x: Tensor) -> None:
        x.mul_(2)

    @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def f_(x: Tensor) -> Tensor:
        return x.mul_(2)

    library.define("g(Tensor(a!) x) -> ()")

    def g(x: Tensor) -> None:
        x.mul_(2)

    library.impl("g", g, "CPU")
    for made in (op_of(f), op_of(f_), op_of(getattr(torch.ops, namespace).g.default)):
        assert observed(CHECK, made, sample()) == []


def test_the_fake_of_an_in_place_op_returns_its_argument(namespace: str, library: Any) -> None:
    for name, fake in (("f_", lambda x: x), ("g_", torch.empty_like)):
        library.define(f"{name}(Tensor(a!) x) -> Tensor(a!)", tags=torch.Tag.inplace)
        library.impl(name, lambda x: x.mul_(2), "CPU")
        torch.library.register_fake(f"{namespace}::{name}", fake, lib=library)
    ops = getattr(torch.ops, namespace)
    assert observed(CHECK, op_of(ops.f_.default), sample()) == []
    assert codes(CHECK, op_of(ops.g_.default), sample()) == {FAKE_DIFFERS.code}


@pytest.mark.parametrize("short", [True, False])
def test_lists_and_numbers_that_are_returned(namespace: str, short: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(xs: list[Tensor]) -> tuple[list[Tensor], int]:
        return [x * 2 for x in xs], 3

    @f.register_fake
    def _(xs: list[Tensor]) -> tuple[list[Tensor], int]:
        return [torch.empty_like(x) for x in xs[short:]], 7

    given = Sample(([torch.ones(2), torch.ones(3)],), {}, "two")
    assert codes(CHECK, op_of(f), given) == ({FAKE_DIFFERS.code} if short else set())
