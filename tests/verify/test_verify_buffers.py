from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import observed, op_of

from opscaffold.findings.promises import ACCEPTS_WRONG_BUFFER, READS_BUFFER
from opscaffold.verify.checks.buffers import CHECK
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample

Fill = Callable[[Tensor, Tensor], Any]


def out_op(namespace: str, library: Any, low_level: bool, fill: Fill) -> Op:
    def f(x: Tensor, *, out: Tensor) -> Tensor:
        fill(x, out)
        return out

    if not low_level:
        made = torch.library.custom_op(
            f"{namespace}::f", f, mutates_args={"out"}, tags=torch.Tag.out
        )
        return op_of(made)
    library.define("f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=torch.Tag.out)
    library.impl("f", f, "CPU")
    return op_of(getattr(torch.ops, namespace).f.default, f)


def sample(dtype: torch.dtype = torch.float32, shape: tuple[int, ...] = (2, 3)) -> Sample:
    x = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)
    return Sample((x,), {"out": torch.zeros(shape, dtype=dtype)}, f"{dtype} {shape}")


def checked(x: Tensor, out: Tensor) -> None:
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError("out")
    out.copy_(x)


def checked_shape(x: Tensor, out: Tensor) -> None:
    if out.shape != x.shape:
        raise ValueError("out")
    out.copy_(x)


def adds(x: Tensor, out: Tensor) -> None:
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError("out")
    out.add_(x)


def first_row(x: Tensor, out: Tensor) -> None:
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError("out")
    out[:1].copy_(x[:1])


def nothing(x: Tensor, out: Tensor) -> None:
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError("out")


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64])
def test_a_buffer_that_is_filled_whole_is_sound(
    namespace: str, library: Any, dtype: torch.dtype, low_level: bool
) -> None:
    assert observed(CHECK, out_op(namespace, library, low_level, checked), sample(dtype)) == []


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
@pytest.mark.parametrize(
    ("fill", "told"),
    [(first_row, "3 of 6 elements are left"), (nothing, "6 of 6 elements are left")],
)
def test_a_buffer_that_is_filled_in_part_is_seen(
    namespace: str, library: Any, fill: Fill, told: str, dtype: torch.dtype, low_level: bool
) -> None:
    ((code, message),) = observed(CHECK, out_op(namespace, library, low_level, fill), sample(dtype))
    assert code == READS_BUFFER.code
    assert "what out holds" in message
    assert told in message


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_an_accumulating_op_reads_its_buffer(
    namespace: str, library: Any, dtype: torch.dtype
) -> None:
    op = out_op(namespace, library, False, adds)
    # Zeros, which the sample has, would show nothing.
    ((code, message),) = observed(CHECK, op, sample(dtype))
    assert code == READS_BUFFER.code
    assert "old elements enter" in message


def test_each_of_several_buffers_is_named(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=("a", "b"), tags=torch.Tag.out)
    def f(x: Tensor, *, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        checked(x, a)
        checked(x, b)
        b[0] = a[0]
        b[1].mul_(0)
        return a, b

    @torch.library.custom_op(f"{namespace}::g", mutates_args=("a", "b"), tags=torch.Tag.out)
    def g(x: Tensor, *, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        for name, buffer in (("a", a), ("b", b)):
            if buffer.shape != x.shape:
                raise ValueError(name)
        a[1:].copy_(x[1:])
        b.copy_(x)
        return a, b

    given = {"a": torch.zeros(2, 3), "b": torch.zeros(2, 3)}
    whole = Sample((torch.ones(2, 3),), given, "plain")
    assert observed(CHECK, op_of(f), whole) == []
    ((_, message),) = observed(CHECK, op_of(g), whole)
    assert "what a holds" in message


def copies(x: Tensor, out: Tensor) -> None:
    out.copy_(x)


def by_numpy(x: Tensor, out: Tensor) -> None:
    out.numpy()[...] = x.numpy()


def reshapes(x: Tensor, out: Tensor) -> None:
    flat = torch.as_strided(out, (x.numel(),), (1,))
    flat.copy_(x.reshape(-1))


WRONG: dict[str, tuple[Fill, str]] = {
    "PyTorch resizes": (lambda x, out: torch.mul(x, 2, out=out), "resizes it to (2, 3)"),
    "copy_ broadcasts": (copies, "fills it by broadcasting"),
    "numpy broadcasts": (by_numpy, "fills it by broadcasting"),
    "loops over the input": (
        lambda x, out: out.view(-1)[: x.numel()].copy_(x.view(-1)),
        "fills it in part",
    ),
    "writes behind the end": (reshapes, "writes behind its end"),
}


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", WRONG)
def test_a_wrong_shape_that_is_accepted_is_told(
    namespace: str, library: Any, form: str, low_level: bool
) -> None:
    fill, told = WRONG[form]

    seen = observed(CHECK, out_op(namespace, library, low_level, fill), sample())
    assert {code for code, _ in seen} == {ACCEPTS_WRONG_BUFFER.code}
    assert any(told in message and "a buffer out of shape" in message for _, message in seen)


def test_a_buffer_that_was_resized_is_told_as_it_was(namespace: str, library: Any) -> None:
    fill, _ = WRONG["PyTorch resizes"]
    seen = observed(CHECK, out_op(namespace, library, False, fill), sample())
    assert any("of shape (3, 2, 3) and" in message for _, message in seen)


@pytest.mark.parametrize("form", [name for name in WRONG if name != "writes behind the end"])
def test_the_same_kernels_behind_a_comparison_are_sound(
    namespace: str, library: Any, form: str
) -> None:
    fill, _ = WRONG[form]

    def guarded(x: Tensor, out: Tensor) -> None:
        if out.shape != x.shape:
            raise ValueError("out")
        fill(x, out)

    assert observed(CHECK, out_op(namespace, library, False, guarded), sample()) == []


def test_a_cast_is_no_breach_and_other_numbers_are(namespace: str, library: Any) -> None:
    def by_bits(x: Tensor, out: Tensor) -> None:
        if out.shape != x.shape:
            raise ValueError("out")
        out.copy_(x) if out.dtype == x.dtype else out.copy_(x.view(torch.int32))

    assert observed(CHECK, out_op(namespace, library, False, checked_shape), sample()) == []
    other = out_op(f"{namespace}_other", library, False, by_bits)
    ((code, message),) = observed(CHECK, other, sample())
    assert code == ACCEPTS_WRONG_BUFFER.code
    assert "torch.float64, and writes other numbers" in message


def test_an_op_whose_buffer_says_what_to_compute_takes_any_shape(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"out"}, tags=torch.Tag.out)
    def f(x: Tensor, *, out: Tensor) -> Tensor:
        if out.dim() != 1:
            raise ValueError("out")
        return out.copy_(torch.arange(out.numel()) + x.sum())

    given = Sample((torch.ones(2),), {"out": torch.zeros(5)}, "five")
    assert observed(CHECK, op_of(f), given) == []


def test_samples_whose_buffer_is_an_input_too_show_nothing(namespace: str, library: Any) -> None:
    x = torch.ones(2, 3)
    op = out_op(namespace, library, False, checked)
    assert observed(CHECK, op, Sample((x,), {"out": x}, "one tensor")) == []


def test_random_numbers_are_not_blamed_on_the_buffer(namespace: str, library: Any) -> None:
    count = torch.zeros(())

    def fill(x: Tensor, out: Tensor) -> None:
        checked(x, out)
        out.add_(count.add_(1))

    assert observed(CHECK, out_op(namespace, library, False, fill), sample()) == []
