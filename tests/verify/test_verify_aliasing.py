from __future__ import annotations

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import RETURN_KEPT, RETURN_SHARES_MEMORY
from opscaffold.verify.checks.aliasing import CHECK
from opscaffold.verify.sample import Sample

SAMPLE = Sample((torch.arange(6.0).reshape(2, 3),), {}, "plain")


def test_new_memory_is_sound(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    assert observed(CHECK, op_of(f), SAMPLE) == []


def test_a_new_storage_over_the_same_bytes_is_seen(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy())

    expected = [(RETURN_SHARES_MEMORY.code, "the return shares memory with the argument x")]
    assert observed(CHECK, op_of(f), SAMPLE) == expected


@pytest.mark.parametrize("kept", [True, False])
def test_a_buffer_kept_between_calls_is_seen(namespace: str, kept: bool) -> None:
    buffer = torch.empty(2, 3)

    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return torch.mul(x, 2, out=buffer if kept else torch.empty(2, 3))

    assert codes(CHECK, op_of(f), SAMPLE) == ({RETURN_KEPT.code} if kept else set())
