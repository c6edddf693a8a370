"""Made-up samples: ops are taken in by what they accept, and their kernels run on every path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import op_of

from opscaffold.findings.promises import NO_SAMPLES, NOT_COVERED
from opscaffold.verify.checks.base import Bench
from opscaffold.verify.discover import Loaded
from opscaffold.verify.op import Op
from opscaffold.verify.run import Gathered
from opscaffold.verify.sample import Sample
from opscaffold.verify.samples.gather import MOST, Gatherer
from opscaffold.verify.samples.vary import layout_key

Define = Callable[..., Op]


@pytest.fixture
def define(namespace: str) -> Define:
    """Make an op of a function, by the name of that function."""

    def make(kernel: Any, writes: Sequence[str] = (), **options: Any) -> Op:
        name = f"{namespace}::{kernel.__name__}"
        return op_of(torch.library.custom_op(name, kernel, mutates_args=writes, **options))

    return make


def gathered(op: Op, *others: Op, **request: Any) -> Gathered:
    return Gatherer(Loaded([], [op, *others]), {"samples": [], **request}, Bench()).gather(op)


def made_up(op: Op) -> list[dict[str, Any]]:
    """The arguments of the samples that are not variations."""
    return [op.arguments(each) for each in gathered(op).samples if not each.varied]


def test_a_number_is_tried_below_at_and_above_the_size_it_is_compared_with(define: Define) -> None:
    def crop(x: Tensor, keep: int) -> Tensor:
        if keep >= x.shape[0]:
            return x
        return x[:keep].clone()

    seen = {
        (given["keep"] > given["x"].shape[0]) - (given["keep"] < given["x"].shape[0])
        for given in made_up(define(crop))
    }
    assert seen == {-1, 0, 1}


def pick_mode(x: Tensor, mode: str = "slow") -> Tensor:
    if mode == "fast":
        return x * 2
    return x.clone()


def pick_double(x: Tensor) -> Tensor:
    if x.dtype == torch.float64:
        return x * 2
    return x.clone()


def pick_dense(x: Tensor) -> Tensor:
    if not x.is_contiguous():
        return x.contiguous()
    return x.clone()


def pick_rank(x: Tensor) -> Tensor:
    if x.dim() == 3:
        return x.sum(0)
    return x.clone()


def pick_bias(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    y = x @ w
    if bias is not None:
        return y + bias
    return y


def pick_empty(x: Tensor) -> Tensor:
    if x.numel() == 0:
        return x.new_zeros(1)
    return x.clone()


def pick_both(x: Tensor, n: int, up: bool = False) -> Tensor:
    if up and n > 2:
        return x + n
    return x.clone()


def pick_in_a_helper(x: Tensor) -> Tensor:
    return _helper(x)


def _helper(x: Tensor) -> Tensor:
    if x.dtype == torch.bfloat16:
        return x.float()
    return x.clone()


@pytest.mark.parametrize(
    "kernel",
    [
        *(pick_mode, pick_double, pick_dense, pick_rank),
        *(pick_bias, pick_empty, pick_both, pick_in_a_helper),
    ],
)
def test_both_branches_of_a_test_are_taken(define: Define, kernel: Any) -> None:
    found = gathered(define(kernel))
    assert NOT_COVERED not in [each.promise for each in found.observations]
    lines = found.summary.split("; ")[-1].split()
    assert lines[0] == lines[2]


def test_lines_that_nothing_runs_are_told(define: Define) -> None:
    def secret(x: Tensor) -> Tensor:
        if x.sum() == 12345.678:
            return x * 2
        return x.clone()

    (told,) = gathered(define(secret)).observations
    assert told.promise is NOT_COVERED
    line = secret.__code__.co_firstlineno + 2
    assert told.message == f"no sample runs line {line} of {Path(__file__).name}"


def times(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def normed(x: Tensor, weight: Tensor) -> Tensor:
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight")
    return x * weight


def looked_up(table: Tensor, where: Tensor) -> Tensor:
    return table[where]


def joined(xs: list[Tensor]) -> Tensor:
    return torch.cat(xs)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    _, t, d = x.shape
    if cos.shape != (t, d // 2) or sin.shape != cos.shape:
        raise ValueError("tables")
    return x * 2


def in_blocks(x: Tensor) -> Tensor:
    if x.shape[-1] % 16:
        raise ValueError("not a multiple of 16")
    return x * 2


def laid_out(rows: int, columns: int, x: Tensor) -> Tensor:
    return x[: rows * columns].reshape(rows, columns).clone()


@pytest.mark.parametrize(
    ("kernel", "holds"),
    [
        (times, lambda x, w: x.dim() == w.dim() == 2 and x.shape[1] == w.shape[0]),
        (normed, lambda x, weight: x.dim() == 2 and weight.shape == x.shape[1:]),
        (looked_up, lambda table, where: where.dtype == torch.int64 and len(where) > 1),
        (joined, lambda xs: len(xs) == 2),
        (rotated, lambda x, cos, sin: cos.shape == sin.shape),
        (in_blocks, lambda x: x.shape[-1] % 16 == 0),
        (laid_out, lambda rows, columns, x: 0 < rows != columns > 0),
    ],
)
def test_arguments_that_must_fit_each_other_are_found(
    define: Define, kernel: Any, holds: Callable[..., bool]
) -> None:
    assert any(holds(**given) for given in made_up(define(kernel)))


def test_a_buffer_gets_the_shape_and_dtype_that_the_op_asks_for(define: Define) -> None:
    def best(x: Tensor, *, out: Tensor) -> Tensor:
        if out.shape != x.shape[:-1] or out.dtype != torch.int64:
            raise ValueError("out")
        return out.copy_(x.argmax(-1))

    found = made_up(define(best, ["out"], tags=torch.Tag.out))
    assert {len(given["x"].shape) for given in found} >= {1, 2, 3}
    assert all(given["out"].shape == given["x"].shape[:-1] for given in found)


def test_a_buffer_that_would_be_resized_is_made_of_the_right_size(define: Define) -> None:
    def product(out: Tensor, a: Tensor, b: Tensor) -> None:
        torch.mm(a, b, out=out)

    for given in made_up(define(product, ["out"])):
        assert given["out"].shape == (given["a"] @ given["b"]).shape


def test_tensors_and_buffers_of_one_unusual_dtype_are_found(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"q", "r"}, tags=torch.Tag.out)
    def f(x: Tensor, d: int, *, q: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        for each in (x, q, r):
            if each.dtype != torch.int64 or each.shape != x.shape:
                raise ValueError("no")
        return q.copy_(x // d), r.copy_(x % d)

    assert gathered(op_of(f)).samples


def test_a_call_that_breaks_the_contract_is_no_refusal(define: Define) -> None:
    def same(x: Tensor) -> Tensor:
        return x

    assert len(gathered(define(same)).samples) > 5


def test_an_op_that_takes_nothing_is_undecided(define: Define) -> None:
    def never(x: Tensor) -> Tensor:
        raise ValueError("not on this machine")

    found = gathered(define(never))
    assert [each.promise for each in found.observations] == [NO_SAMPLES]
    assert "ValueError: not on this machine" in found.observations[0].message


def test_a_kernel_that_does_not_end_is_stopped(define: Define) -> None:
    def down(x: Tensor, n: int) -> Tensor:
        while n != 2:
            n -= 1
        return x.clone()

    assert gathered(define(down)).samples


def test_every_call_is_varied_within_bounds(define: Define) -> None:
    op = define(pick_bias)
    samples = gathered(op).samples
    assert len(samples) <= MOST
    assert len({each.label for each in samples}) == len(samples)
    keys = [(layout_key(op.arguments(s).items()), s.inference) for s in samples]
    assert len(set(keys)) == len(keys)
    varied = {each.varied for each in samples}
    wanted = {"transposed", "non-contiguous", "storage offset", "expanded", "inference mode"}
    assert varied >= {*wanted, "float64", "bfloat16", "float16", "int64"}
    assert {given.numel() for s in samples for given in [s.args[0]]} >= {0, 12}


def test_what_is_written_is_never_expanded(define: Define) -> None:
    def bump(x: Tensor, by: Tensor) -> None:
        x.add_(by)

    op = define(bump, ["x"])
    samples = gathered(op).samples
    assert any(0 in op.arguments(s)["by"].stride() for s in samples)
    assert not any(
        0 in op.arguments(s)["x"].stride() and op.arguments(s)["x"].numel() for s in samples
    )


def test_gradients_are_asked_for_where_there_is_a_backward(define: Define) -> None:
    def double(x: Tensor) -> Tensor:
        return x * 2

    without = define(double)
    assert not any(each.grad_mode for each in gathered(without).samples)
    without.definition.register_autograd(lambda ctx, grad: grad * 2)
    assert [s.args[0].requires_grad for s in gathered(without).samples if s.grad_mode] == [True]


def test_a_call_that_the_fake_kernel_does_not_mean_is_left_out(define: Define) -> None:
    op = define(times)
    op.definition.register_fake(lambda x, w: x.new_empty(x.shape[0], w.shape[1]))
    assert all(s.args[0].dim() == s.args[1].dim() == 2 for s in gathered(op).samples)


def test_inference_mode_reaches_the_kernel(define: Define) -> None:
    seen: list[bool] = []

    def look(x: Tensor) -> Tensor:
        seen.append(torch.is_inference_mode_enabled())
        return x.clone()

    op = define(look)
    op(Sample((torch.ones(2),), {}, "plain"))
    op(Sample((torch.ones(2),), {}, "inference", inference=True))
    assert seen == [False, True]
    assert not torch.is_inference_mode_enabled()
