"""Faults that opcheck, definition and call let pass, each with a sound twin.

The names of the tests are those of the rows of FACTS, "NOT caught".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import (
    CHANGES_METADATA,
    DECLARED_NEVER_WRITTEN,
    NONE_FOR_TENSOR,
    RETURN_KEPT,
    RETURN_SHARES_MEMORY,
    RETURNS_OTHER_OBJECT,
    UNDECLARED_WRITE,
)
from opscaffold.verify.checks import aliasing, identity, none_arguments, writes
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample

MATRIX = torch.arange(1.0, 7.0).reshape(2, 3)
PLAIN = Sample((MATRIX,), {}, "plain")


def passes_opcheck(op: Op, sample: Sample) -> bool:
    """Whether the utilities that trace nothing are content, and the call raises nothing."""
    utilities = ("test_schema", "test_autograd_registration", "test_faketensor")
    mine = sample.fresh()
    torch.library.opcheck(op.overload, mine.args, mine.kwargs, test_utils=utilities)
    return True


def functional(
    namespace: str, library: Any, low_level: bool, kernel: Callable[[Tensor], Tensor]
) -> Op:
    """An op on one tensor whose fake kernel is right."""

    def f(x: Tensor) -> Tensor:
        return kernel(x)

    def fake(x: Tensor) -> Tensor:
        shape, dtype = SHAPES.get(kernel, (lambda t: t.shape, None))
        return x.new_empty(shape(x), dtype=dtype or x.dtype)

    if not low_level:
        made = torch.library.custom_op(f"{namespace}::f", f, mutates_args=())
        made.register_fake(fake)
        return op_of(made)
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", f, "CPU")
    torch.library.register_fake(f"{namespace}::f", fake, lib=library)
    return op_of(getattr(torch.ops, namespace).f.default, f)


def contiguous(x: Tensor) -> Tensor:
    return x.contiguous()


def to_float(x: Tensor) -> Tensor:
    return x.to(torch.float32)


def flat(x: Tensor) -> Tensor:
    return x.reshape(-1)


def contiguous_copy(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def float_copy(x: Tensor) -> Tensor:
    return x.to(torch.float32, copy=True)


def flat_copy(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format).reshape(-1)


SHAPES: dict[Any, Any] = {
    to_float: (lambda t: t.shape, torch.float32),
    float_copy: (lambda t: t.shape, torch.float32),
    flat: (lambda t: (t.numel(),), None),
    flat_copy: (lambda t: (t.numel(),), None),
}
MAYBE = {
    contiguous: (contiguous_copy, MATRIX.t()),
    to_float: (float_copy, MATRIX.double()),
    flat: (flat_copy, MATRIX.t()),
}


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("kernel", MAYBE)
def test_s1_an_alias_on_the_branch_that_the_author_did_not_try(
    namespace: str, library: Any, kernel: Any, low_level: bool
) -> None:
    twin, copied = MAYBE[kernel]
    tried = Sample((copied,), {}, "as the author tried it")
    op = functional(namespace, library, low_level, kernel)
    assert passes_opcheck(op, tried)
    assert codes(aliasing.CHECK, op, tried) == set()
    assert codes(aliasing.CHECK, op, tried, PLAIN) == {RETURN_SHARES_MEMORY.code}
    if not low_level:
        sound = functional(f"{namespace}_twin", library, False, twin)
        assert codes(aliasing.CHECK, sound, tried, PLAIN) == set()


@pytest.mark.parametrize("low_level", [False, True])
def test_s2_a_new_storage_over_the_old_memory(
    namespace: str, library: Any, low_level: bool
) -> None:
    op = functional(namespace, library, low_level, lambda x: torch.from_numpy(x.numpy()))
    assert passes_opcheck(op, PLAIN)
    assert codes(aliasing.CHECK, op, PLAIN) == {RETURN_SHARES_MEMORY.code}


def test_s2_a_copy_made_in_numpy_is_sound(namespace: str, library: Any) -> None:
    op = functional(namespace, library, False, lambda x: torch.from_numpy(x.numpy().copy()))
    assert codes(aliasing.CHECK, op, PLAIN) == set()


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("returned", [True, False])
def test_s3_a_workspace_that_is_returned(
    namespace: str, library: Any, returned: bool, low_level: bool
) -> None:
    work = torch.empty(2, 3)

    def kernel(x: Tensor) -> Tensor:
        torch.mul(x, 2, out=work)
        return work if returned else work.clone()

    op = functional(namespace, library, low_level, kernel)
    assert passes_opcheck(op, PLAIN)
    assert codes(aliasing.CHECK, op, PLAIN) == ({RETURN_KEPT.code} if returned else set())


@pytest.mark.parametrize("low_level", [False, True])
@pytest.mark.parametrize("writing", [True, False])
def test_s4_a_write_that_changes_no_number(
    namespace: str, library: Any, writing: bool, low_level: bool
) -> None:
    def kernel(x: Tensor) -> Tensor:
        return (x.mul_(1.0) if writing else x.mul(1.0)) * 2

    op = functional(namespace, library, low_level, kernel)
    assert passes_opcheck(op, PLAIN)
    assert codes(writes.CHECK, op, PLAIN) == ({UNDECLARED_WRITE.code} if writing else set())


@pytest.mark.parametrize("also", [True, False])
def test_s4_an_argument_that_is_declared_too_much(namespace: str, also: bool) -> None:
    def f(x: Tensor, y: Tensor) -> None:
        x.add_(y)

    names = ("x", "y") if also else ("x",)
    op = op_of(torch.library.custom_op(f"{namespace}::f", f, mutates_args=names))
    sample = Sample((MATRIX, MATRIX + 1), {}, "plain")
    assert passes_opcheck(op, sample)
    expected = {DECLARED_NEVER_WRITTEN.code} if also else set()
    assert codes(writes.CHECK, op, sample) == expected


@pytest.mark.parametrize("writing", [True, False])
def test_s4_an_in_place_op_that_writes_nothing(namespace: str, writing: bool) -> None:
    def f_(x: Tensor) -> Tensor:
        return x.clamp_(min=0) if writing else x

    made = torch.library.custom_op(
        f"{namespace}::f_", f_, mutates_args={"x"}, tags=torch.Tag.inplace
    )
    op = op_of(made)
    assert passes_opcheck(op, PLAIN)
    # On the sample as it is, neither of the two changes a number.
    expected = set() if writing else {DECLARED_NEVER_WRITTEN.code}
    assert codes(writes.CHECK, op, PLAIN) == expected


@pytest.mark.parametrize(
    "change", [lambda x: x.resize_(8), lambda x: x.requires_grad_(), lambda x: None]
)
def test_s4_a_mutable_op_that_changes_metadata(namespace: str, change: Any) -> None:
    def f(x: Tensor) -> None:
        x.add_(1)
        change(x)

    op = op_of(torch.library.custom_op(f"{namespace}::f", f, mutates_args={"x"}))
    sound = change(MATRIX.clone()) is None
    assert codes(writes.CHECK, op, PLAIN) == (set() if sound else {CHANGES_METADATA.code})


@pytest.mark.parametrize("other", [True, False])
def test_s10_a_low_level_in_place_op_that_returns_another_tensor(
    namespace: str, library: Any, other: bool
) -> None:
    def f_(x: Tensor) -> Tensor:
        x.mul_(2)
        return x.clone() if other else x

    library.define("f_(Tensor(a!) x) -> Tensor(a!)", tags=torch.Tag.inplace)
    library.impl("f_", f_, "CPU")
    torch.library.register_fake(f"{namespace}::f_", f_, lib=library)
    op = op_of(getattr(torch.ops, namespace).f_.default, f_)
    assert passes_opcheck(op, PLAIN)
    assert codes(identity.CHECK, op, PLAIN) == ({RETURNS_OTHER_OBJECT.code} if other else set())


def test_s13_none_for_a_tensor_is_a_limit_of_the_platform(namespace: str, library: Any) -> None:
    op = functional(namespace, library, False, lambda x: MATRIX * 2 if x is None else x * 2)
    seen = observed(none_arguments.CHECK, op, PLAIN)
    assert [code for code, _ in seen] == [NONE_FOR_TENSOR.code]
    other = functional(f"{namespace}_twin", library, False, lambda x: x * 2)
    assert observed(none_arguments.CHECK, other, PLAIN) == []
