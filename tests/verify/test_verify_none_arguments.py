from __future__ import annotations

import torch
from torch import Tensor
from verifying import observed, op_of

from opscaffold.findings.promises import NONE_FOR_TENSOR, Verdict
from opscaffold.verify.checks.none_arguments import CHECK
from opscaffold.verify.sample import Sample

SAMPLE = Sample((torch.ones(3), torch.ones(3)), {}, "plain")


def test_a_kernel_that_takes_none_for_a_tensor_is_told_as_a_limit(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor, bias: Tensor) -> Tensor:
        return x * 2 if bias is None else x * 2 + bias

    expected = (NONE_FOR_TENSOR.code, "None is accepted for the Tensor argument bias")
    assert observed(CHECK, op_of(f), SAMPLE) == [expected]
    assert NONE_FOR_TENSOR.verdict is Verdict.LIMIT


def test_a_kernel_that_stumbles_over_none_is_not(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor, bias: Tensor) -> Tensor:
        return x * 2 + bias

    @torch.library.custom_op(f"{namespace}::g", mutates_args=())
    def g(x: Tensor, bias: Tensor | None) -> Tensor:
        return x * 2 if bias is None else x * 2 + bias

    assert observed(CHECK, op_of(f), SAMPLE) == []
    assert observed(CHECK, op_of(g), SAMPLE) == []
