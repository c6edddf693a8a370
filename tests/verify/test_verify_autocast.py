from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import AUTOCAST_DIFFERS, AUTOCAST_LOSES_WRITE
from opscaffold.verify.checks.autocast import CHECK
from opscaffold.verify.sample import Sample

ROWS = torch.tensor([[-3.5, 1.5, 0.5], [2.5, -0.5, -1.5]])
SAMPLES = (
    Sample((ROWS,), {}, "plain"),
    Sample((ROWS.double(),), {}, "double"),
    Sample((torch.arange(3),), {}, "integers"),
)


@pytest.mark.parametrize("kind", ["inplace", "mutable"])
def test_a_write_to_a_cast_copy_is_lost(namespace: str, kind: str) -> None:
    if kind == "inplace":

        @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
        def f(x: Tensor) -> Tensor:
            return x.mul_(2)
    else:

        @torch.library.custom_op(f"{namespace}::f", mutates_args={"x"})
        def f(x: Tensor) -> None:
            x.mul_(2)

    f.register_autocast("cpu", torch.bfloat16)
    ((code, message),) = observed(CHECK, op_of(f), *SAMPLES)
    assert code == AUTOCAST_LOSES_WRITE.code
    assert "the argument x is not written" in message
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_functional_op_computes_on_cast_inputs(namespace: str, dtype: torch.dtype) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    f.register_autocast("cpu", dtype)
    assert observed(CHECK, op_of(f), *SAMPLES) == []


def test_a_kernel_that_fails_on_what_it_is_cast_to_is_seen(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() * 2)

    f.register_autocast("cpu", torch.bfloat16)
    ((code, message),) = observed(CHECK, op_of(f), SAMPLES[0])
    assert code == AUTOCAST_DIFFERS.code
    assert "autocast to bfloat16 the op raises TypeError" in message


@pytest.mark.parametrize("forgets", [True, False])
def test_a_rule_written_by_hand_passes_every_argument(
    namespace: str, library: torch.library.Library, forgets: bool
) -> None:
    library.define("f(Tensor x, float scale=1.0) -> Tensor")
    library.impl("f", lambda x, scale=1.0: x * scale, "CPU")
    op = getattr(torch.ops, namespace).f.default

    def cast(x: Tensor, scale: float = 1.0) -> Any:
        with torch.autocast("cpu", enabled=False):
            return op(x.bfloat16()) if forgets else op(x.bfloat16(), scale)

    library.impl("f", cast, "AutocastCPU")
    found = codes(CHECK, op_of(op), Sample((ROWS, 3.0), {}, "tripled"))
    assert found == ({AUTOCAST_DIFFERS.code} if forgets else set())


def test_without_a_rule_there_is_nothing_to_compare(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"x"})
    def f(x: Tensor) -> None:
        x.mul_(2)

    assert not CHECK.applies(op_of(f))
