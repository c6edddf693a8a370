from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import OPCHECK, OPTIONAL_LIST_WRITTEN
from opscaffold.verify.checks.opcheck import CHECK
from opscaffold.verify.sample import Sample

SAMPLE = Sample((torch.arange(1.0, 4.0),), {}, "plain")


def test_a_sound_op_with_autograd_is_sound(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    f.register_fake(torch.empty_like)
    f.register_autograd(lambda ctx, grad: grad * 2, setup_context=lambda ctx, inputs, output: None)
    assert observed(CHECK, op_of(f), SAMPLE) == []


@pytest.mark.parametrize("low_level", [False, True])
def test_an_undeclared_write_is_one_line_with_the_utility(
    namespace: str, library: Any, low_level: bool
) -> None:
    def f(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    if low_level:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", f, "CPU")
        torch.library.register_fake(f"{namespace}::f", torch.empty_like, lib=library)
        op = op_of(getattr(torch.ops, namespace).f.default, f)
    else:
        made = torch.library.custom_op(f"{namespace}::f", f, mutates_args=())
        made.register_fake(torch.empty_like)
        op = op_of(made)
    seen = observed(CHECK, op, SAMPLE)
    told = "RuntimeError: Argument x is not defined as mutable but was mutated"
    assert (OPCHECK.code, f"torch.library.opcheck, test_schema: {told}") in seen
    assert all("\n" not in message for _, message in seen)


def test_a_backward_of_the_wrong_length_is_met_with_grad(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor, k: float) -> Tensor:
        return x * k

    f.register_fake(lambda x, k: torch.empty_like(x))
    f.register_autograd(lambda ctx, grad: grad * 2, setup_context=lambda ctx, inputs, output: None)
    (first, *_) = CHECK.run(op_of(f), [Sample((torch.ones(3), 2.0), {}, "plain")], None)
    assert first.sample is not None
    assert "requiring grad" in first.sample.label
    assert "aot_dispatch" in first.message


def test_an_op_without_a_fake_kernel_is_told_once(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    ((code, message),) = observed(CHECK, op_of(f), SAMPLE)
    assert code == OPCHECK.code
    assert message.startswith("torch.library.opcheck, test_faketensor: ")


def test_an_alias_that_is_annotated_and_not_tagged_cannot_be_traced(
    namespace: str, library: Any
) -> None:
    for name, tags in (("f_", ()), ("g_", torch.Tag.inplace)):
        library.define(f"{name}(Tensor(a!) x) -> Tensor(a!)", tags=tags)
        library.impl(name, lambda x: x.mul_(2), "CPU")
        torch.library.register_fake(f"{namespace}::{name}", lambda x: x, lib=library)
    ops = getattr(torch.ops, namespace)
    ((_, message),) = observed(CHECK, op_of(ops.f_.default), SAMPLE)
    assert "alias annotations" in message
    assert observed(CHECK, op_of(ops.g_.default), SAMPLE) == []


def test_what_opcheck_cannot_look_at_is_no_breach(namespace: str, library: Any) -> None:
    @torch.library.custom_op(f"{namespace}::device", mutates_args={"x"})
    def device(x: Tensor, where: torch.device) -> None:
        x.add_(1)

    @torch.library.custom_op(f"{namespace}::nan", mutates_args=())
    def nan(x: Tensor) -> Tensor:
        return x * float("nan")

    @torch.library.custom_op(f"{namespace}::unwritten", mutates_args=())
    def unwritten(x: Tensor) -> Tensor:
        return torch.empty(3000)

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        return torch.rand(x.shape, generator=generator)

    library.define("draw(Tensor x, Generator generator) -> Tensor")
    library.impl("draw", draw, "CPU")
    torch.library.register_fake(f"{namespace}::draw", lambda x, generator: x * 2, lib=library)

    @torch.library.custom_op(f"{namespace}::positive", mutates_args=())
    def positive(x: Tensor) -> Tensor:
        return x[x > 0]

    @torch.library.custom_op(f"{namespace}::small_", mutates_args={"x"})
    def small_(x: Tensor) -> None:
        x.copy_(x.float() * 2)

    nan.register_fake(torch.empty_like)
    unwritten.register_fake(lambda x: torch.empty(3000))
    positive.register_fake(lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size()))
    x = SAMPLE.args[0]
    assert observed(CHECK, op_of(device), Sample((x, torch.device("cpu")), {}, "cpu")) == []
    drawing = op_of(getattr(torch.ops, namespace).draw.default, draw)
    assert observed(CHECK, drawing, Sample((x, torch.Generator()), {}, "seeded")) == []
    eighth = SAMPLE.args[0].to(torch.float8_e4m3fn)
    assert observed(CHECK, op_of(small_), Sample((eighth,), {}, "8 bits")) == []
    for op in (nan, unwritten, positive):
        assert observed(CHECK, op_of(op), SAMPLE) == []


def test_a_written_list_that_may_hold_none_is_a_limit_of_the_platform(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"xs"})
    def f(xs: list[Tensor | None]) -> None:
        for x in xs:
            if x is not None:
                x.add_(1)

    sample = Sample(([torch.ones(3), None],), {}, "gap")
    assert codes(CHECK, op_of(f), sample) == {OPTIONAL_LIST_WRITTEN.code}


def test_grad_is_not_tried_where_autograd_is_refused(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"out"}, tags=torch.Tag.out)
    def f(x: Tensor, *, out: Tensor) -> Tensor:
        return out.copy_(x)

    x = torch.ones(3)
    plain = Sample((x,), {"out": torch.zeros(3)}, "plain")
    grad = Sample((x.clone().requires_grad_(),), {"out": torch.zeros(3)}, "grad", grad_mode=True)
    assert observed(CHECK, op_of(f), plain, grad) == []
