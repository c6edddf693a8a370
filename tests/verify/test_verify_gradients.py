from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import (
    BACKWARD_FAILS,
    CHECK_FAILED,
    WRONG_GRADIENT,
    WRONG_SECOND_GRADIENT,
)
from opscaffold.verify.checks.gradients import CHECK
from opscaffold.verify.sample import Sample

ROWS = torch.tensor([[-3.5, 1.5, 0.5], [2.5, -0.5, -1.5]])


def scaled(namespace: str, backward: Any, setup: Any) -> Any:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor, y: Tensor, scale: float = 2.0) -> Tensor:
        return x * x * y * scale

    f.register_autograd(backward, setup_context=setup)
    return op_of(f)


def keep(ctx: Any, inputs: Any, output: Any) -> None:
    x, y, ctx.scale = inputs
    ctx.save_for_backward(x, y)


SAMPLES = (
    Sample((ROWS, ROWS.flip(0)), {}, "plain"),
    Sample((ROWS, ROWS.flip(0), 0.5), {}, "scaled"),
    Sample((torch.zeros(2), torch.zeros(2)), {}, "zeros"),
    Sample((torch.empty(0, 3), torch.empty(0, 3)), {}, "empty"),
    Sample((torch.tensor(3.0), torch.tensor(2.0)), {}, "0-d"),
)


def test_a_right_formula_is_sound(namespace: str) -> None:
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y = ctx.saved_tensors
        return 2 * grad * x * y * ctx.scale, grad * x * x * ctx.scale, None

    assert observed(CHECK, scaled(namespace, backward, keep), *SAMPLES) == []


def test_a_wrong_formula_is_seen_and_its_argument_named(namespace: str) -> None:
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y = ctx.saved_tensors
        return 2 * grad * x * y * ctx.scale, grad * x * ctx.scale, None

    found = observed(CHECK, scaled(namespace, backward, keep), *SAMPLES)
    assert {code for code, _ in found} == {WRONG_GRADIENT.code}
    assert all("the gradient by y " in message for _, message in found)


def test_a_forgotten_gradient_is_seen(namespace: str) -> None:
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        x, y = ctx.saved_tensors
        return 2 * grad * x * y * ctx.scale, None, None

    op = scaled(namespace, backward, keep)
    assert codes(CHECK, op, *SAMPLES) == {WRONG_GRADIENT.code}
    marked = Sample((ROWS.clone().requires_grad_(), ROWS), {}, "x alone", grad_mode=True)
    assert codes(CHECK, op, marked) == set()


def test_too_few_gradients_fail_with_or_without_defaults(namespace: str) -> None:
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return 2 * grad * x * y * ctx.scale, grad * x * x * ctx.scale

    ((code, message), *_) = observed(CHECK, scaled(namespace, backward, keep), SAMPLES[0])
    assert code == BACKWARD_FAILS.code
    assert "incorrect number of gradients" in message


def test_setup_context_with_another_parameter_name_fails(namespace: str) -> None:
    op = scaled(namespace, lambda ctx, grad: (grad, grad, None), lambda ctx, ins, out: None)
    ((code, message), *_) = observed(CHECK, op, SAMPLES[0])
    assert code == BACKWARD_FAILS.code
    assert "TypeError" in message


@pytest.mark.parametrize("error", [NotImplementedError, ValueError])
def test_a_refusal_is_no_breach(namespace: str, error: type[Exception]) -> None:
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        raise error("no gradient for this op")

    assert observed(CHECK, scaled(namespace, backward, keep), *SAMPLES) == []


@pytest.mark.parametrize("contiguous", [True, False])
def test_a_backward_that_reads_memory_in_order_is_seen(namespace: str, contiguous: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    def backward(ctx: Any, grad: Tensor) -> Tensor:
        if contiguous:
            grad = grad.contiguous()
        return 2 * grad.as_strided(grad.shape, (3, 1)) if grad.dim() == 2 else 2 * grad

    f.register_autograd(backward)
    found = codes(CHECK, op_of(f), Sample((ROWS,), {}, "plain"))
    assert found == (set() if contiguous else {BACKWARD_FAILS.code, WRONG_GRADIENT.code})


@pytest.mark.parametrize("second", ["lost", "kept", "refused"])
def test_a_second_gradient_is_right_or_refused(namespace: str, second: str) -> None:
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        if second == "kept":
            return 3 * x * x * grad
        return torch.from_numpy(3 * (x * x * grad).detach().numpy())

    if second == "refused":
        backward = torch.autograd.function.once_differentiable(backward)

    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * x * x

    f.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    found = codes(CHECK, op_of(f), Sample((ROWS,), {}, "plain"))
    assert found == ({WRONG_SECOND_GRADIENT.code} if second == "lost" else set())


def test_corners_and_few_digits_are_no_breach(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x.float().relu().to(x.dtype) * 2

    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, grad * 2, 0)

    f.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    samples = [Sample((torch.zeros(4),), {}, "zeros"), Sample((ROWS,), {}, "plain")]
    assert observed(CHECK, op_of(f), *samples) == []


@pytest.mark.parametrize("wrong", [True, False])
def test_lists_and_several_returns_are_differentiated(namespace: str, wrong: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(xs: list[Tensor], picked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return xs[0] * xs[1], xs[0].sin(), picked.clone()

    def backward(ctx: Any, product: Tensor, sine: Tensor, _: Any) -> tuple[list[Tensor], None]:
        one, other = ctx.saved_tensors
        left = product * other + (0 if wrong else sine * one.cos())
        return [left, product * one], None

    f.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[0])
    )
    found = observed(CHECK, op_of(f), Sample(([ROWS, ROWS + 1], torch.arange(3)), {}, "plain"))
    assert [code for code, _ in found] == ([WRONG_GRADIENT.code] if wrong else [])
    assert all("by xs[0] " in message for _, message in found)


@pytest.mark.parametrize("wrong", [True, False])
def test_complex_inputs_are_differentiated(namespace: str, wrong: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * x

    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * grad * (x if wrong else x.conj())

    f.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    sample = Sample((torch.complex(ROWS, ROWS.flip(0)),), {}, "complex")
    assert codes(CHECK, op_of(f), sample) == ({WRONG_GRADIENT.code} if wrong else set())


def test_a_return_that_nothing_depends_on_is_handled(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, x * 3

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)

    f.register_autograd(lambda ctx, one, other: 2 * one + 3 * other, setup_context=setup)
    assert codes(CHECK, op_of(f), Sample((ROWS,), {}, "plain")) == {BACKWARD_FAILS.code}


def test_low_level_formulas_are_compared_as_well(
    namespace: str, library: torch.library.Library
) -> None:
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x * x, "CPU")
    torch.library.register_autograd(
        f"{namespace}::f",
        lambda ctx, grad: grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        lib=library,
    )
    op = op_of(getattr(torch.ops, namespace).f.default)
    assert codes(CHECK, op, Sample((ROWS,), {}, "plain")) == {WRONG_GRADIENT.code}


def test_without_a_floating_point_sample_nothing_is_claimed(namespace: str) -> None:
    op = scaled(namespace, lambda ctx, grad: (grad, grad, None), keep)
    found = codes(CHECK, op, Sample((torch.arange(3), torch.arange(3)), {}, "integers"))
    assert found == {CHECK_FAILED.code}


def test_an_op_without_a_formula_is_left_alone(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    assert not CHECK.applies(op_of(f))


@pytest.mark.parametrize(
    ("dtype", "factor", "expected"),
    [
        (torch.float32, 2, set()),
        (torch.float32, 3, {"OPS714"}),
        # Too few digits for differences.
        (torch.bfloat16, 2, {"OPS793"}),
    ],
)
def test_an_op_of_one_dtype_is_compared_in_it(
    namespace: str, dtype: torch.dtype, factor: int, expected: set[str]
) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        if x.dtype != dtype:
            raise TypeError("another dtype")
        return x * x

    f.register_fake(lambda x: torch.empty_like(x))
    f.register_autograd(
        lambda ctx, grad: grad * factor * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = torch.tensor([0.5, 1.5, -2.0], dtype=dtype)
    assert codes(CHECK, op_of(f), Sample((x,), {}, "plain")) == expected


@pytest.mark.parametrize("raw", [True, False])
def test_a_backward_that_reads_the_gradient_as_contiguous_is_seen(
    namespace: str, raw: bool
) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    def backward(ctx: Any, grad: Tensor) -> Tensor:
        if raw and grad.untyped_storage().nbytes() >= grad.numel() * grad.element_size():
            grad = grad.as_strided(grad.shape, torch.empty(grad.shape).stride())
        return grad * 2

    f.register_fake(lambda x: torch.empty_like(x))
    f.register_autograd(backward)
    sample = Sample((torch.ones(2, 3),), {}, "plain")
    assert codes(CHECK, op_of(f), sample) == ({"OPS714"} if raw else set())
