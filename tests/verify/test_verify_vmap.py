from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import WRONG_VMAP
from opscaffold.verify.checks.base import Bench
from opscaffold.verify.checks.vmap import CHECK
from opscaffold.verify.sample import Sample

ROWS = torch.tensor([[-3.5, 1.5, 0.5], [2.5, -0.5, -1.5]])
SAMPLE = Sample((ROWS, ROWS.flip(0)), {}, "plain")


def summed(namespace: str, rule: Any) -> Any:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sum(-1)

    f.register_vmap(rule)
    return f, op_of(f)


def test_a_right_rule_is_sound(namespace: str) -> None:
    def rule(info: Any, in_dims: Any, x: Tensor, y: Tensor) -> tuple[Tensor, int]:
        def front(tensor: Tensor, dim: int | None) -> Tensor:
            return (
                tensor.expand(info.batch_size, *tensor.shape)
                if dim is None
                else (tensor.movedim(dim, 0))
            )

        return f(front(x, in_dims[0]), front(y, in_dims[1])), 0

    f, op = summed(namespace, rule)
    assert observed(CHECK, op, SAMPLE, Sample((ROWS[0], ROWS[1]), {}, "1-d")) == []


def test_a_rule_that_takes_the_batch_for_the_first_dim_is_seen(namespace: str) -> None:
    def rule(info: Any, in_dims: Any, x: Tensor, y: Tensor) -> tuple[Tensor, int]:
        return f(x, y), 0

    f, op = summed(namespace, rule)
    found = observed(CHECK, op, SAMPLE)
    assert {code for code, _ in found} == {WRONG_VMAP.code}
    assert any("x -1, y -1" in message for _, message in found)


def test_a_wrong_out_dim_is_seen(namespace: str) -> None:
    def rule(info: Any, in_dims: Any, x: Tensor, y: Tensor) -> tuple[Tensor, int]:
        def front(tensor: Tensor, dim: int | None) -> Tensor:
            return (
                tensor.expand(info.batch_size, *tensor.shape)
                if dim is None
                else (tensor.movedim(dim, 0))
            )

        return f(front(x, in_dims[0]), front(y, in_dims[1])), 1

    f, op = summed(namespace, rule)
    assert codes(CHECK, op, SAMPLE) == {WRONG_VMAP.code}


@pytest.mark.parametrize("refuses", [True, False])
def test_a_rule_may_refuse_a_tensor_without_batch(namespace: str, refuses: bool) -> None:
    def rule(info: Any, in_dims: Any, x: Tensor, y: Tensor) -> tuple[Tensor, int]:
        if refuses and None in in_dims:
            raise NotImplementedError("both must be batched")
        return f(x.movedim(in_dims[0], 0), y.movedim(in_dims[1], 0)), 0

    f, op = summed(namespace, rule)
    found = observed(CHECK, op, SAMPLE)
    assert [code for code, _ in found] == ([] if refuses else [WRONG_VMAP.code] * 2)
    assert all("raises TypeError" in message for _, message in found)


@pytest.mark.parametrize("right", [True, False])
def test_what_is_written_is_compared(namespace: str, right: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"y"})
    def f(x: Tensor, y: Tensor) -> None:
        y += x

    def rule(info: Any, in_dims: Any, x: Tensor, y: Tensor) -> tuple[None, None]:
        given = x if in_dims[0] is None else x.movedim(in_dims[0], 0)
        f(given.expand(y.movedim(in_dims[1], 0).shape), y.movedim(in_dims[1], 0) if right else y)
        return None, None

    f.register_vmap(rule)
    assert codes(CHECK, op_of(f), SAMPLE) == (set() if right else {WRONG_VMAP.code})


@pytest.mark.parametrize("right", [True, False])
def test_a_list_is_batched_item_by_item(namespace: str, right: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(xs: list[Tensor]) -> Tensor:
        return xs[0] - xs[1]

    def rule(info: Any, in_dims: Any, xs: list[Tensor]) -> tuple[Tensor, int]:
        dims = in_dims[0]
        both = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(xs, dims if right else [dims[0]] * 2, strict=True)
        ]
        return f(both), 0

    f.register_vmap(rule)
    found = codes(CHECK, op_of(f), Sample(([ROWS, ROWS + 1],), {}, "plain"))
    assert found == (set() if right else {WRONG_VMAP.code})


def test_a_low_level_rule_is_compared(namespace: str, library: torch.library.Library) -> None:
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x.cumsum(0), "CPU")
    op = getattr(torch.ops, namespace).f.default
    torch.library.register_vmap(op, lambda info, in_dims, x: (op(x), in_dims[0]), lib=library)
    assert codes(CHECK, op_of(op), Sample((ROWS,), {}, "plain")) == {WRONG_VMAP.code}


def test_without_a_rule_there_is_nothing_to_compare(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    assert not CHECK.applies(op_of(f))


def test_the_call_is_shown_whole(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x.sum(0)

    f.register_vmap(lambda info, in_dims, x: (x.sum(0), 0))
    sample = Sample((torch.ones(3, 3),), {}, "plain")
    (first, *_) = CHECK.run(op_of(f), [sample], Bench())
    assert first.sample is not None
    assert first.sample.described() == "(float32[3, 3])"
