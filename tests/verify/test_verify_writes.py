from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import (
    CHANGES_METADATA,
    CHECK_FAILED,
    DECLARED_NEVER_WRITTEN,
    UNDECLARED_WRITE,
)
from opscaffold.verify.checks.base import Bench
from opscaffold.verify.checks.writes import CHECK
from opscaffold.verify.sample import Sample

Kernel = Callable[[Tensor, Tensor], Any]


def pair() -> Sample:
    return Sample((torch.arange(1.0, 7.0).reshape(2, 3), torch.zeros(2, 3)), {}, "plain")


def registered(namespace: str, library: Any, low_level: bool, written: str, kernel: Kernel) -> Any:
    """An op on x and count that returns nothing, and declares what is named."""
    if not low_level:

        def made(x: Tensor, count: Tensor) -> None:
            kernel(x, count)

        name = f"{namespace}::f"
        return op_of(torch.library.custom_op(name, made, mutates_args=tuple(written.split())))
    types = {name: "Tensor(a!)" if name in written.split() else "Tensor" for name in ("x", "count")}
    library.define(f"f({types['x']} x, {types['count']} count) -> ()")

    def plain(x: Tensor, count: Tensor) -> None:
        kernel(x, count)

    library.impl("f", plain, "CPU")
    return op_of(getattr(torch.ops, namespace).f.default, plain)


def through_numpy(x: Tensor, count: Tensor) -> None:
    count.numpy()[0] += x.numpy()[0]


def times_one_in_numpy(x: Tensor, count: Tensor) -> None:
    array = count.numpy()
    array *= 1.0


WRITES: dict[str, Kernel] = {
    "in place": lambda x, count: count.add_(x),
    "a view": lambda x, count: count[0].add_(1),
    "detached": lambda x, count: count.detach().view(-1)[2:].copy_(x.view(-1)[2:]),
    "numpy": through_numpy,
    "times one": lambda x, count: count.mul_(1.0),
    "plus nothing": lambda x, count: count.add_(0),
    "times one in numpy": times_one_in_numpy,
    "zeroed": lambda x, count: count.zero_(),
    "zeroed in numpy": lambda x, count: count.numpy().fill(0),
    "put back": lambda x, count: count.add_(1).sub_(1),
    "out=": lambda x, count: torch.mul(x, 2, out=count),
}


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", WRITES)
def test_an_undeclared_write_is_named_and_a_declared_one_is_not(
    namespace: str, library: Any, form: str, low_level: bool
) -> None:
    op = registered(namespace, library, low_level, "", WRITES[form])
    (first, *_) = CHECK.run(op, [pair()], Bench())
    assert first.promise is UNDECLARED_WRITE
    assert first.subject == "count"
    assert "the argument count" in first.message
    assert first.sample is not None
    assert first.sample.label.startswith("plain")


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("form", WRITES)
def test_a_declared_write_is_sound(
    namespace: str, library: Any, form: str, low_level: bool
) -> None:
    op = registered(namespace, library, low_level, "count", WRITES[form])
    assert observed(CHECK, op, pair()) == []


@pytest.mark.parametrize("low_level", [False, True])
def test_a_declared_argument_that_no_call_writes_is_named(
    namespace: str, library: Any, low_level: bool
) -> None:
    op = registered(namespace, library, low_level, "x count", lambda x, count: count.add_(x))
    ((code, message),) = observed(CHECK, op, pair())
    assert code == DECLARED_NEVER_WRITTEN.code
    assert "the argument x is declared" in message


@pytest.mark.parametrize("low_level", [False, True])
def test_an_in_place_op_that_never_writes_is_seen(
    namespace: str, library: Any, low_level: bool
) -> None:
    def f_(x: Tensor, low: float) -> Tensor:
        return x

    def g_(x: Tensor, low: float) -> Tensor:
        array = x.numpy()
        array.clip(low, 10, out=array)
        return x

    found = []
    for kernel in (f_, g_):
        if low_level:
            name = kernel.__name__
            library.define(f"{name}(Tensor(a!) x, float low) -> Tensor(a!)", tags=torch.Tag.inplace)
            library.impl(name, kernel, "CPU")
            op = op_of(getattr(getattr(torch.ops, namespace), name).default, kernel)
        else:
            made = torch.library.custom_op(
                f"{namespace}::{kernel.__name__}",
                kernel,
                mutates_args={"x"},
                tags=torch.Tag.inplace,
            )
            op = op_of(made)
        # Inside the range that is kept: on these values alone g_ writes nothing either.
        found.append(codes(CHECK, op, Sample((torch.ones(3), -10.0), {}, "inside")))
    assert found == [{DECLARED_NEVER_WRITTEN.code}, set()]


def test_a_write_behind_a_flag_is_found_from_the_other_side(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::tally", mutates_args=())
    def tally(count: Tensor, step: float) -> Tensor:
        if step:
            count.add_(step)
        return count * 2

    sample = Sample((torch.zeros(4), 0.0), {}, "lazy")
    (first, *_) = CHECK.run(op_of(tally), [sample], Bench())
    assert first.promise is UNDECLARED_WRITE
    assert "element 0 was 0.0 and is 1.0" in first.message


def test_the_element_of_a_strided_argument_is_told(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        x[1:].add_(1)
        return x * 2

    (first, *_) = CHECK.run(op_of(f), [Sample((torch.zeros(6)[::2],), {}, "strided")], Bench())
    assert "element 1 was 0.0 and is 1.0" in first.message


def test_an_item_of_a_list_is_named(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(xs: list[Tensor]) -> Tensor:
        xs[1].add_(1)
        return xs[0] * 2

    @torch.library.custom_op(f"{namespace}::g", mutates_args={"xs"})
    def g(xs: list[Tensor]) -> Tensor:
        xs[1].add_(1)
        return xs[0] * 2

    sample = Sample(([torch.ones(2), torch.zeros(2)],), {}, "two")
    assert "the argument xs[1]" in observed(CHECK, op_of(f), sample)[0][1]
    assert observed(CHECK, op_of(g), sample) == []


def test_a_write_before_a_result_is_refused_counts(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x.mul_(2)

    @torch.library.custom_op(f"{namespace}::g", mutates_args={"slot"})
    def g(x: Tensor, slot: Tensor) -> Tensor:
        return slot.copy_(x)

    assert codes(CHECK, op_of(f), Sample((torch.ones(2),), {}, "s")) == {UNDECLARED_WRITE.code}
    assert observed(CHECK, op_of(g), Sample((torch.ones(2), torch.zeros(2)), {}, "s")) == []


def test_a_write_to_one_argument_is_not_blamed_on_another_over_the_same_memory(
    namespace: str,
) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"x"})
    def f(x: Tensor, y: Tensor) -> None:
        x.add_(1)

    block = torch.zeros(4)
    assert observed(CHECK, op_of(f), Sample((block[:3], block[1:]), {}, "overlapping")) == []


def test_a_branch_that_leaves_an_optional_argument_alone_is_sound(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"log", "x"})
    def f(x: Tensor, log: Tensor | None = None) -> None:
        x.add_(1)
        if log is not None:
            log.copy_(x)

    given = Sample((torch.ones(2), torch.zeros(2)), {}, "given")
    left = Sample((torch.ones(2),), {}, "left out")
    assert observed(CHECK, op_of(f), left, given) == []
    assert codes(CHECK, op_of(f), left) == {CHECK_FAILED.code}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: x.resize_(5), "shape from (2, 3) to (5,)"),
        (lambda x: x.t_(), "shape from (2, 3) to (3, 2)"),
        (lambda x: x.requires_grad_(), "requires_grad from False to True"),
        (lambda x: x.set_(x.clone()), "memory"),
        (lambda x: setattr(x, "data", x.clone()), "memory"),
    ],
)
@pytest.mark.parametrize("low_level", [False, True])
def test_changed_metadata_is_told(
    namespace: str, library: Any, low_level: bool, change: Any, told: str
) -> None:
    def kernel(x: Tensor, count: Tensor) -> None:
        count.add_(x)
        change(x)

    op = registered(namespace, library, low_level, "count", kernel)
    (seen, *_) = CHECK.run(op, [pair()], Bench())
    assert seen.promise is CHANGES_METADATA
    assert seen.subject == "x"
    assert told in seen.message


def test_an_op_that_refuses_other_values_is_judged_on_those_it_takes(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"x"})
    def f(x: Tensor, on: bool) -> None:
        if not on or not bool((x == 1).all()):
            raise ValueError("no")
        x.mul_(2)

    assert observed(CHECK, op_of(f), Sample((torch.ones(3), True), {}, "ones")) == []


def test_global_modes_are_left_as_they_were(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    with torch.no_grad():
        observed(CHECK, op_of(f), pair())
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
