from __future__ import annotations

import enum

import torch
from torch import Tensor

from opscaffold.contract.model import Kind
from opscaffold.verify.schema import contract_of, text_of


class Mode(enum.Enum):
    FAST = 1


def test_what_pytorch_prints_and_does_not_read_is_read(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"x"})
    def f(
        x: Tensor,
        generator: torch.Generator,
        mode: Mode,
        near: torch.device = torch.device("cpu"),  # noqa: B008
        far: torch.device = torch.device("cuda", 1),  # noqa: B008
        none: torch.device | None = None,
    ) -> None:
        pass

    contract = contract_of(f._opoverload)
    defaults = [p.default and p.default.value for p in contract.parameters]
    assert defaults == [None, None, None, "cpu", "cuda:1", None]
    assert contract.kind is Kind.MUTABLE
    assert 'Device near="cpu", Device far="cuda:1"' in text_of(f._opoverload)


def test_tags_are_part_of_a_contract(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def f_(x: Tensor) -> Tensor:
        return x

    assert contract_of(f_._opoverload).kind is Kind.INPLACE
