"""What opcheck passes and is wrong in silence, of autograd, transforms and compiled programs.

One test a row of "NOT caught" in the facts: a faulty op that is convicted and a sound twin, or the
limit that is shown where PyTorch departs for every op of the kind.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, op_of

from opscaffold.findings.promises import (
    AUTOCAST_LOSES_WRITE,
    FORWARD_MODE_SILENT,
    GRADIENT_LOST,
    OUT_LOWERING,
    RETURNED_ALIAS_LOST,
    WRONG_GRADIENT,
    WRONG_VMAP,
)
from opscaffold.verify.checks import (
    autocast,
    compiled,
    forward_mode,
    gradients,
    lost_gradient,
    lowering,
    vmap,
)
from opscaffold.verify.sample import Sample

VALUES = torch.tensor([1.5, -0.5, 2.5])


@pytest.mark.parametrize("carries", [True, False])
def test_s5_a_gradient_through_a_written_buffer(namespace: str, carries: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"total"})
    def f(total: Tensor, x: Tensor) -> None:
        total.copy_(x * 3 if carries else torch.ones_like(x))

    found = codes(lost_gradient.CHECK, op_of(f), Sample((VALUES, VALUES + 1), {}, "plain"))
    # Even what only overwrites lets the gradient of the old values pass: it should stop there.
    assert found == {GRADIENT_LOST.code}


def test_s5_twin_an_integer_buffer_has_no_gradient(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"count"})
    def f(count: Tensor, x: Tensor) -> None:
        count.add_((x > 0).sum())

    sample = Sample((torch.zeros(1, dtype=torch.int64), VALUES), {}, "plain")
    assert codes(lost_gradient.CHECK, op_of(f), sample) == set()


@pytest.mark.parametrize("cast", [True, False])
def test_s6_a_write_under_autocast(namespace: str, cast: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def f(x: Tensor) -> Tensor:
        return x.neg_()

    if cast:
        f.register_autocast("cpu", torch.bfloat16)
    sample = Sample((VALUES,), {}, "plain")
    found = codes(autocast.CHECK, op_of(f), sample)
    assert found == ({AUTOCAST_LOSES_WRITE.code} if cast else set())


@pytest.mark.parametrize("refuses", [True, False])
def test_s7_a_tangent_that_is_zero(
    namespace: str, library: torch.library.Library, refuses: bool
) -> None:
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x * x, "CPU")
    op = getattr(torch.ops, namespace).f.default

    def guarded(x: Tensor) -> Any:
        if torch.autograd.forward_ad.unpack_dual(x).tangent is not None:
            raise RuntimeError("no forward mode")
        if torch._C._functorch.is_gradtrackingtensor(x):
            raise RuntimeError("no forward mode")
        with torch._C._AutoDispatchBelowAutograd():
            return op(x)

    if refuses:
        library.impl("f", guarded, "Autograd")
    else:
        torch.library.register_autograd(
            f"{namespace}::f",
            lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
            lib=library,
        )
    found = codes(forward_mode.CHECK, op_of(op), Sample((VALUES,), {}, "plain"))
    assert found == (set() if refuses else {FORWARD_MODE_SILENT.code})


@pytest.mark.parametrize("power", [2, 3])
def test_s8_a_wrong_backward(namespace: str, power: int) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x**3

    f.register_autograd(
        lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** (power - 1),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    found = codes(gradients.CHECK, op_of(f), Sample((VALUES,), {}, "plain"))
    assert found == (set() if power == 3 else {WRONG_GRADIENT.code})


@pytest.mark.parametrize("tagged", [True, False])
def test_s9_a_write_to_what_a_tagged_op_returns(namespace: str, tagged: bool) -> None:
    if tagged:

        @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
        def f(x: Tensor) -> Tensor:
            return x.neg_()
    else:

        @torch.library.custom_op(f"{namespace}::f", mutates_args={"x"})
        def f(x: Tensor) -> None:
            x.neg_()

    found = codes(compiled.CHECK, op_of(f), Sample((VALUES,), {}, "plain"))
    assert found == ({RETURNED_ALIAS_LOST.code} if tagged else set())


@pytest.mark.slow
@pytest.mark.parametrize("overload", ["f.out", "f_out"])
def test_s11_an_out_overload_takes_the_place_of_the_op(namespace: str, overload: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(xs: list[Tensor], gain: float = 1.0) -> Tensor:
        return xs[0] * gain + xs[1]

    f.register_fake(lambda xs, gain=1.0: torch.empty_like(xs[0]))

    @torch.library.custom_op(f"{namespace}::{overload}", mutates_args={"out"}, tags=torch.Tag.out)
    def f_out(xs: list[Tensor], gain: float = 1.0, *, out: Tensor) -> Tensor:
        return out.copy_(xs[0] * gain + xs[1])

    found = codes(lowering.CHECK, op_of(f), Sample(([VALUES, VALUES],), {}, "plain"))
    assert found == ({OUT_LOWERING.code} if overload == "f.out" else set())


@pytest.mark.parametrize("front", [True, False])
def test_s13_a_vmap_rule_that_ignores_in_dims(namespace: str, front: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x.cumsum(-1)

    def rule(info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
        return f(x.movedim(in_dims[0], 0) if front else x), 0

    f.register_vmap(rule)
    found = codes(vmap.CHECK, op_of(f), Sample((VALUES,), {}, "plain"))
    assert found == (set() if front else {WRONG_VMAP.code})
