from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import observed, op_of

from opscaffold.findings.promises import RETURNS_OTHER_OBJECT
from opscaffold.verify.checks.identity import CHECK
from opscaffold.verify.sample import Sample

SAMPLE = Sample((torch.ones(3),), {}, "plain")

RETURNED = {
    "itself": lambda x: x,
    "a copy": lambda x: x.clone(),
    "a view": lambda x: x.view(-1),
    "detached": lambda x: x.detach(),
}


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", RETURNED)
def test_an_in_place_op_returns_its_argument(
    namespace: str, library: Any, form: str, low_level: bool
) -> None:
    def f_(x: Tensor) -> Tensor:
        x.mul_(2)
        return RETURNED[form](x)

    if low_level:
        library.define("f_(Tensor(a!) x) -> Tensor(a!)", tags=torch.Tag.inplace)
        library.impl("f_", f_, "CPU")
        op = op_of(getattr(torch.ops, namespace).f_.default, f_)
    else:
        name = f"{namespace}::f_"
        op = op_of(torch.library.custom_op(name, f_, mutates_args={"x"}, tags=torch.Tag.inplace))
    seen = observed(CHECK, op, SAMPLE)
    if form == "itself":
        assert seen == []
        return
    ((code, message),) = seen
    assert code == RETURNS_OTHER_OBJECT.code
    what = "a tensor of its own" if form == "a copy" else "another tensor over the memory of x"
    assert f"instead of x itself the op returns {what}" in message
    assert ("PyTorch refuses" in message) is not low_level


OUTS = "(Tensor x, *, Tensor(a!) lo, Tensor(b!) hi) -> (Tensor(a!), Tensor(b!))"


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_several_buffers_come_back_in_order(
    namespace: str, library: Any, swapped: bool, low_level: bool
) -> None:
    def f(x: Tensor, *, lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
        lo.copy_(x - 1)
        hi.copy_(x + 1)
        return (hi, lo) if swapped else (lo, hi)

    if low_level:
        library.define(f"f{OUTS}", tags=torch.Tag.out)
        library.impl("f", f, "CPU")
        op = op_of(getattr(torch.ops, namespace).f.default, f)
    else:
        made = torch.library.custom_op(
            f"{namespace}::f", f, mutates_args=("lo", "hi"), tags=torch.Tag.out
        )
        op = op_of(made)
    sample = Sample((torch.ones(3),), {"lo": torch.empty(3), "hi": torch.empty(3)}, "plain")
    seen = observed(CHECK, op, sample)
    assert len(seen) == (2 if swapped else 0)
    if swapped:
        assert "instead of lo itself the op returns the argument hi" in seen[0][1]


def test_an_untagged_alias_set_is_a_promise_too(namespace: str, library: Any) -> None:
    for name, kernel in (("f", lambda x: x.mul_(2)), ("g", lambda x: x.mul_(2).clone())):
        library.define(f"{name}(Tensor(a!) x) -> Tensor(a!)")
        library.impl(name, kernel, "CPU")
    ops = getattr(torch.ops, namespace)
    assert observed(CHECK, op_of(ops.f.default), SAMPLE) == []
    assert len(observed(CHECK, op_of(ops.g.default), SAMPLE)) == 1


def test_calls_that_autograd_follows_are_left_out(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def f_(x: Tensor, y: Tensor) -> Tensor:
        return x.mul_(y)

    tensors = (torch.ones(3), torch.ones(3, requires_grad=True))
    assert observed(CHECK, op_of(f_), Sample(tensors, {}, "grad", grad_mode=True)) == []


def test_a_functional_op_promises_no_argument(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    assert not CHECK.applies(op_of(f))
