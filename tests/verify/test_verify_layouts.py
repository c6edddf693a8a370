from __future__ import annotations

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import DEPENDS_ON_LAYOUT
from opscaffold.verify.checks.layouts import CHECK
from opscaffold.verify.sample import Sample

WHOLE = torch.arange(12.0).reshape(3, 4)
TRANSPOSED = Sample((WHOLE.t(),), {}, "transposed")
OFFSET = Sample((WHOLE.flatten()[4:],), {}, "offset")


@pytest.mark.parametrize("lost", [True, False])
def test_a_write_to_a_contiguous_copy_is_seen(namespace: str, lost: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def f_(x: Tensor) -> Tensor:
        dense = x.contiguous().add_(1)
        if not lost:
            x.copy_(dense)
        return x

    found = observed(CHECK, op_of(f_), TRANSPOSED)
    told = "is another on contiguous copies of the same arguments: element 0 is 0.0 here and 1.0"
    expected = [f"the argument x {told} there", f"the return {told} there"]
    assert [message for _, message in found] == (expected if lost else [])


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("sample", [TRANSPOSED, OFFSET], ids=["transposed", "offset"])
def test_a_kernel_that_reads_raw_memory_is_seen(namespace: str, raw: bool, sample: Sample) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        if raw:
            return x.as_strided((x.numel(),), (1,), 0).reshape(x.shape) * 2
        return x * 2

    assert codes(CHECK, op_of(f), sample) == ({DEPENDS_ON_LAYOUT.code} if raw else set())


def test_random_numbers_in_the_order_of_memory_are_no_breach(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return torch.rand_like(x)

    assert codes(CHECK, op_of(f), TRANSPOSED) == set()


@pytest.mark.parametrize("lost", [True, False])
def test_a_write_to_a_strided_buffer_that_is_lost_is_seen(namespace: str, lost: bool) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"out"}, tags=torch.Tag.out)
    def f(x: Tensor, *, out: Tensor) -> Tensor:
        dense = out.contiguous().copy_(x)
        if not lost:
            out.copy_(dense)
        return out

    sample = Sample((WHOLE,), {"out": torch.zeros(3, 4)}, "plain")
    assert codes(CHECK, op_of(f), sample) == ({DEPENDS_ON_LAYOUT.code} if lost else set())
