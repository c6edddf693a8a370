from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import (
    FORWARD_MODE_SILENT,
    GRADIENT_LOST,
    WRONG_GRADIENT,
    WRONG_TANGENT,
)
from opscaffold.verify.checks import forward_mode, lost_gradient
from opscaffold.verify.sample import Sample

ROWS = torch.tensor([[-3.5, 1.5, 0.5], [2.5, -0.5, -1.5]])
SAMPLE = Sample((ROWS,), {}, "plain")


@pytest.mark.parametrize("formula", [True, False])
def test_forward_mode_passes_a_custom_op_by(namespace: str, formula: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    if formula:
        f.register_autograd(lambda ctx, grad: grad * 2)
    assert codes(forward_mode.CHECK, op_of(f), SAMPLE) == {FORWARD_MODE_SILENT.code}


def test_forward_mode_is_right_where_nothing_depends_on_the_input(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return torch.ones(x.shape)

    assert codes(forward_mode.CHECK, op_of(f), SAMPLE) == set()


@pytest.mark.parametrize("factor", [2.0, 3.0, 0.0, None])
def test_a_formula_of_the_author_is_compared_or_refuses(
    namespace: str, library: torch.library.Library, factor: float | None
) -> None:
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x * 2, "CPU")
    op = getattr(torch.ops, namespace).f.default

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            with torch._C._AutoDispatchBelowAutograd():
                return op(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

        @staticmethod
        def jvp(ctx: Any, tangent: Tensor) -> Tensor:
            if factor is None:
                raise NotImplementedError("forward mode")
            return tangent * factor

    library.impl("f", Doubled.apply, "Autograd")
    found = observed(forward_mode.CHECK, op_of(op), SAMPLE)
    wrong = factor in (3.0, 0.0)
    assert [code for code, _ in found] == ([WRONG_TANGENT.code] if wrong else [])
    assert all("the tangent by x " in message for _, message in found)


def test_an_op_made_of_torch_ops_is_followed_in_every_mode(
    namespace: str, library: torch.library.Library
) -> None:
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x * 2, "CompositeImplicitAutograd")
    ops = getattr(torch.ops, namespace)
    assert codes(forward_mode.CHECK, op_of(ops.f.default), SAMPLE) == set()


def test_a_gradient_is_lost_through_what_is_written(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"acc"})
    def f(acc: Tensor, x: Tensor) -> None:
        acc.add_(x * x)

    sample = Sample((ROWS, ROWS + 1), {}, "plain")
    ((code, message),) = observed(lost_gradient.CHECK, op_of(f), sample)
    assert code == GRADIENT_LOST.code
    assert "the gradient of acc by x " in message


def test_a_gradient_is_lost_through_an_in_place_op(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def f(x: Tensor) -> Tensor:
        return x.mul_(2)

    assert codes(lost_gradient.CHECK, op_of(f), SAMPLE) == {GRADIENT_LOST.code}


def test_an_out_op_refuses_gradients(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f_out", mutates_args={"out"}, tags=torch.Tag.out)
    def f(x: Tensor, *, out: Tensor) -> Tensor:
        return torch.mul(x, 2, out=out)

    sample = Sample((ROWS,), {"out": torch.zeros(2, 3)}, "plain")
    assert codes(lost_gradient.CHECK, op_of(f), sample) == set()


def test_a_write_that_carries_no_gradient_loses_none(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"count"})
    def f(count: Tensor, x: Tensor) -> None:
        count.add_(len(x))

    assert codes(lost_gradient.CHECK, op_of(f), Sample((torch.zeros(1), ROWS), {}, "a")) == set()


@pytest.mark.parametrize("factor", [2, 3])
def test_a_formula_for_a_write_is_compared(
    namespace: str, library: torch.library.Library, factor: int
) -> None:
    library.define("f(Tensor(a!) y) -> ()")
    library.impl("f", lambda y: y.mul_(2) is None or None, "CPU")
    op = getattr(torch.ops, namespace).f.default

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: Tensor) -> Tensor:
            with torch._C._AutoDispatchBelowAutograd():
                y.mul_(2)
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * factor

    library.impl("f", lambda y: Doubled.apply(y) is None or None, "Autograd")
    found = codes(lost_gradient.CHECK, op_of(op), SAMPLE)
    assert found == (set() if factor == 2 else {WRONG_GRADIENT.code})
