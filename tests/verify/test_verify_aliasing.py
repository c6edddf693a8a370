from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import RETURN_KEPT, RETURN_SHARES_MEMORY
from opscaffold.verify.checks.aliasing import CHECK
from opscaffold.verify.sample import Sample

SAMPLE = Sample((torch.arange(6.0).reshape(2, 3),), {}, "plain")

SHARING: dict[str, Callable[[Tensor], Tensor]] = {
    "numpy": lambda x: torch.from_numpy(x.numpy()),
    "as_tensor": lambda x: torch.as_tensor(x.numpy()),
    "dlpack": torch.utils.dlpack.from_dlpack,
    "every other column": lambda x: torch.from_numpy(x.numpy()[:, ::2]),
    "other dtype": lambda x: torch.from_numpy(x.numpy().view("int32")),
    "itself": lambda x: x,
    "detached": lambda x: x.detach(),
    "a row": lambda x: x[1],
}


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", SHARING)
def test_a_return_over_the_memory_of_an_input_is_named(
    namespace: str, library: Any, form: str, low_level: bool
) -> None:
    def f(x: Tensor) -> Tensor:
        return SHARING[form](x)

    def g(x: Tensor) -> Tensor:
        return SHARING[form](x).clone()

    for kernel, expected in ((f, {RETURN_SHARES_MEMORY.code}), (g, set())):
        name = f"{namespace}::{kernel.__name__}"
        if low_level:
            library.define(f"{kernel.__name__}(Tensor x) -> Tensor")
            library.impl(kernel.__name__, kernel, "CPU")
            op = op_of(getattr(getattr(torch.ops, namespace), kernel.__name__).default, kernel)
        else:
            op = op_of(torch.library.custom_op(name, kernel, mutates_args=()))
        seen = observed(CHECK, op, SAMPLE)
        assert {code for code, _ in seen} == expected
        assert all("the argument x" in message for _, message in seen)


def test_new_memory_is_sound(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    assert observed(CHECK, op_of(f), SAMPLE) == []


def test_a_refused_result_is_told_with_argument_and_kernel(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::crop", mutates_args=())
    def crop(other: Tensor, tile: Tensor, keep: int) -> Tensor:
        return tile if keep >= tile.shape[0] else tile[:keep].clone()

    tile = torch.ones(3, 2)
    cut, whole = (Sample((tile + 1, tile, keep), {}, f"keep {keep}") for keep in (2, 3))
    op = op_of(crop)
    assert observed(CHECK, op, cut) == []
    (seen,) = CHECK.run(op, (cut, whole), None)
    assert seen.promise is RETURN_SHARES_MEMORY
    assert seen.sample is whole
    assert "the return is the argument tile itself" in seen.message
    assert f"{op.position.path}:{op.position.line}" in seen.message


def test_two_returns_over_one_storage_are_seen_though_they_are_disjoint(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::halves", mutates_args=())
    def halves(x: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([x, x])
        return both[:2], both[2:]

    # PyTorch goes by storage, and refuses; no byte is shared.
    ((code, message),) = observed(CHECK, op_of(halves), SAMPLE)
    assert code == RETURN_SHARES_MEMORY.code
    assert "return 1 has one storage with return 0" in message


def test_two_returns_over_the_same_bytes_are_named(namespace: str, library: Any) -> None:
    library.define("f(Tensor x) -> (Tensor, Tensor)")

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y, y.view(-1)

    library.impl("f", f, "CPU")
    seen = observed(CHECK, op_of(getattr(torch.ops, namespace).f.default, f), SAMPLE)
    assert seen == [(RETURN_SHARES_MEMORY.code, "return 1 shares memory with return 0")]


def test_columns_side_by_side_in_one_block_do_not_share(namespace: str, library: Any) -> None:
    library.define("f(Tensor x) -> (Tensor, Tensor)")

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.empty(2, 6)
        both[:, ::2] = x
        both[:, 1::2] = x
        return both[:, ::2], both[:, 1::2]

    library.impl("f", f, "CPU")
    assert observed(CHECK, op_of(getattr(torch.ops, namespace).f.default, f), SAMPLE) == []


@pytest.mark.parametrize("shares", [True, False])
def test_an_item_of_a_list_is_named(namespace: str, shares: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(xs: list[Tensor]) -> list[Tensor]:
        last = torch.from_numpy(xs[1].numpy())
        return [xs[0] * 2, last if shares else last.clone()]

    sample = Sample(([torch.ones(2), torch.zeros(2)],), {}, "two")
    message = "the return[1] shares memory with the argument xs[1]"
    expected = [(RETURN_SHARES_MEMORY.code, message)] if shares else []
    assert observed(CHECK, op_of(f), sample) == expected


def test_an_empty_result_shares_nothing(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy()) if x.numel() == 0 else x * 2

    assert observed(CHECK, op_of(f), Sample((torch.empty(0, 3),), {}, "empty")) == []


def test_an_empty_argument_that_comes_back_is_named_where_it_is_refused(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x

    ((_, message),) = observed(CHECK, op_of(f), Sample((torch.empty(0, 3),), {}, "empty"))
    assert "the return is the argument x itself" in message


def test_a_declared_view_may_share(namespace: str, library: Any) -> None:
    library.define("f(Tensor(a) x, Tensor y) -> Tensor(a)")
    op = getattr(torch.ops, namespace).f.default
    library.impl("f", lambda x, y: x[0], "CPU")
    sample = Sample((torch.ones(2, 2), torch.ones(2)), {}, "plain")
    assert observed(CHECK, op_of(op), sample) == []


KEEPING = ["returned again", "two that take turns", "written later", "argument of the call before"]


@pytest.mark.parametrize("form", [*KEEPING, "copied", "remembered"])
def test_what_is_kept_between_calls_is_seen(namespace: str, form: str) -> None:
    work = [torch.empty(2, 3), torch.empty(2, 3)]
    kept: list[Tensor] = []
    count = 0

    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        nonlocal count
        count += 1
        if form == "returned again":
            return torch.mul(x, 2, out=work[0])
        if form == "two that take turns":
            return torch.mul(x, 2, out=work[count % 2])
        if form == "copied":
            return torch.mul(x, 2, out=work[0]).clone()
        if form == "argument of the call before":
            kept.append(x)
            return kept[-2] if len(kept) > 1 else x * 1
        result = x * 2
        if form == "written later" and kept:
            kept[-1].zero_()
        kept.append(result)
        return result

    sample = Sample((torch.arange(6.0).reshape(2, 3),), {}, "plain")
    assert codes(CHECK, op_of(f), sample) == ({RETURN_KEPT.code} if form in KEEPING else set())


def test_in_place_ops_return_their_argument(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def f_(x: Tensor) -> Tensor:
        return x.mul_(2)

    assert not CHECK.applies(op_of(f_))
