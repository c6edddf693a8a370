from __future__ import annotations

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import CLONE_REMOVED, COMPILE_FAILS, OUT_LOWERING
from opscaffold.verify.checks import compiled, lowering
from opscaffold.verify.checks.inductor import CHECK
from opscaffold.verify.sample import Sample

pytestmark = pytest.mark.slow

SQUARE = torch.arange(16.0).reshape(4, 4)


@pytest.mark.parametrize("returns", [True, False])
def test_a_buffer_that_may_be_left_out_beside_a_return_dies(namespace: str, returns: bool) -> None:
    if returns:

        @torch.library.custom_op(f"{namespace}::f", mutates_args={"dst"})
        def f(x: Tensor, dst: Tensor | None = None) -> Tensor:
            if dst is not None:
                dst.copy_(x * 0.5)
            return x * 0.5

        f.register_fake(lambda x, dst=None: torch.empty_like(x))
    else:

        @torch.library.custom_op(f"{namespace}::f", mutates_args={"dst"})
        def f(x: Tensor, dst: Tensor | None = None) -> None:
            if dst is not None:
                dst.copy_(x * 0.5)

    sample = Sample((SQUARE, torch.zeros(4, 4)), {}, "given")
    assert codes(compiled.CHECK, op_of(f), sample) == set()
    found = dict(observed(CHECK, op_of(f), sample))
    assert (COMPILE_FAILS.code in found) is returns


def test_a_clone_that_is_left_out_is_a_limit(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"y"})
    def f(y: Tensor, x: Tensor) -> None:
        y.zero_()
        y.add_(x)

    ((code, message),) = observed(CHECK, op_of(f), Sample((SQUARE, SQUARE + 1), {}, "plain"))
    assert code == CLONE_REMOVED.code
    assert "y = x.clone()" in message


@pytest.mark.parametrize("name", ["f.out", "f_out"])
def test_an_out_overload_is_called_with_other_arguments(namespace: str, name: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor, k: int = 2) -> Tensor:
        return x * k

    f.register_fake(lambda x, k=2: torch.empty_like(x))

    @torch.library.custom_op(f"{namespace}::{name}", mutates_args={"out"}, tags=torch.Tag.out)
    def f_out(x: Tensor, k: int = 2, *, out: Tensor) -> Tensor:
        return torch.mul(x, k, out=out)

    sample = Sample((SQUARE, 3), {}, "tripled")
    found = observed(lowering.CHECK, op_of(f), sample)
    if name == "f_out":
        assert not lowering.CHECK.applies(op_of(f))
        return
    assert {code for code, _ in found} == {OUT_LOWERING.code}
    assert all(f"{namespace}::f.out" in message for _, message in found)
    assert codes(CHECK, op_of(f), sample) == set()


def test_optional_arguments_reach_the_overload_in_another_order(
    namespace: str, library: torch.library.Library
) -> None:
    library.define("f(Tensor x, Tensor? a=None, Tensor? b=None) -> Tensor")
    library.define(
        "f.out(Tensor x, Tensor? a=None, Tensor? b=None, *, Tensor(a!) out) -> Tensor(a!)",
        tags=(torch.Tag.out,),
    )

    def kernel(x: Tensor, a: Tensor | None = None, b: Tensor | None = None) -> Tensor:
        return x + (0 if a is None else a) - (0 if b is None else b)

    library.impl("f", kernel, "CPU")
    library.impl("f", lambda x, a=None, b=None: torch.empty_like(x), "Meta")
    library.impl("f.out", lambda x, a=None, b=None, *, out: out.copy_(kernel(x, a, b)), "CPU")
    op = op_of(getattr(torch.ops, namespace).f.default)
    found = observed(lowering.CHECK, op, Sample((SQUARE, SQUARE, SQUARE * 2), {}, "both"))
    wrong = [message for code, message in found if "of the return as" in message]
    assert {code for code, _ in found} == {OUT_LOWERING.code}
    assert wrong


def test_one_of_two_returns_alone_is_compiled(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 0.5, x.sum(-1)

    f.register_fake(lambda x: (torch.empty_like(x), x.new_empty(x.shape[:-1])))

    @torch.library.custom_op(
        f"{namespace}::f.out", mutates_args={"half", "total"}, tags=torch.Tag.out
    )
    def f_out(x: Tensor, *, half: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        return torch.mul(x, 0.5, out=half), torch.sum(x, -1, out=total)

    found = observed(lowering.CHECK, op_of(f), Sample((SQUARE,), {}, "plain"))
    assert any("return 0 alone" in message for _, message in found)


def test_a_float_among_returns_is_a_limit_of_inductor(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> tuple[Tensor, float]:
        return x.clone(), 2.0

    @f.register_fake
    def _(x: Tensor) -> tuple[Tensor, float]:
        return torch.empty_like(x), 2.0

    assert codes(CHECK, op_of(f), Sample((torch.ones(3),), {}, "plain")) == {"OPS786"}


def test_two_calls_of_a_sound_out_op_that_are_mixed_up_are_a_limit(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"out"}, tags=torch.Tag.out)
    def f(x: Tensor, by: float, *, out: Tensor) -> Tensor:
        return out.copy_(x + by)

    samples = [Sample((SQUARE, by), {"out": torch.zeros(4, 4)}, f"by {by}") for by in (1.5, 2.5)]
    assert codes(CHECK, op_of(f), *samples) <= {"OPS788"}


@pytest.mark.parametrize("tagged", [True, False])
def test_buffers_made_in_a_program_are_mixed_up_where_the_op_is_tagged(
    namespace: str, tagged: bool
) -> None:
    if tagged:

        @torch.library.custom_op(f"{namespace}::f", mutates_args={"out"}, tags=torch.Tag.out)
        def tagged_op(x: Tensor, by: float, *, out: Tensor) -> Tensor:
            return out.copy_(x + by)

    else:

        @torch.library.custom_op(f"{namespace}::f", mutates_args={"out"})
        def untagged_op(x: Tensor, by: float, out: Tensor) -> None:
            out.copy_(x + by)

    overload = getattr(torch.ops, namespace).f.default

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        one, other = torch.empty_like(x), torch.empty_like(x)
        overload(x, 1.0, out=one)
        overload(x, 2.0, out=other)
        return one, other

    one, other = torch.compile(program, fullgraph=True)(torch.zeros(4))
    assert (one[0].item(), other[0].item()) == ((2.0, 2.0) if tagged else (1.0, 2.0))
