from __future__ import annotations

import pytest
import torch
from torch import Tensor

from opscaffold.verify.memory import Snapshot, extent, share_memory

BLOCK = torch.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (BLOCK, BLOCK, True),
        (BLOCK, BLOCK.clone(), False),
        (BLOCK[0], BLOCK[1], False),
        (BLOCK[:2], BLOCK[1:], True),
        (BLOCK[:, ::2], BLOCK[:, 1::2], False),
        (BLOCK[:, ::2], BLOCK[:, 2::3], True),
        (BLOCK[:, :3], BLOCK[:, 3:], False),
        (BLOCK.t(), BLOCK[3, 5:], True),
        (BLOCK[:1].expand(4, 6), BLOCK[0, 5:], True),
        (BLOCK[:1].expand(4, 6), BLOCK[1], False),
        (BLOCK.view(torch.int16)[:, 1::2], BLOCK[:, ::2], True),
        (BLOCK.view(torch.int16)[:, 1::4], BLOCK[:, 1::2], False),
        (BLOCK[0], torch.from_numpy(BLOCK.numpy()), True),
        (BLOCK[:0], BLOCK, False),
        (torch.empty(3, device="meta"), torch.empty(3, device="meta"), False),
    ],
)
def test_memory_is_shared_where_a_byte_is(one: Tensor, other: Tensor, shared: bool) -> None:
    assert share_memory(one, other) is shared
    assert share_memory(other, one) is shared


def test_a_sparse_tensor_is_looked_into() -> None:
    sparse = torch.ones(3).to_sparse()
    assert share_memory(sparse, sparse.values())
    assert not share_memory(sparse, torch.ones(2))


def test_an_extent_ends_behind_the_last_element() -> None:
    first, behind = extent(BLOCK[:, ::2]) or (0, 0)
    assert first == BLOCK.data_ptr()
    assert behind - first == (24 - 1) * 4


@pytest.mark.parametrize(
    ("before", "now"), [(0.0, -0.0), (1.0, 1.0 + 2**-23), (float("nan"), 1.0), (2.0, -2.0)]
)
def test_a_snapshot_compares_bits(before: float, now: float) -> None:
    tensor = torch.tensor([before])
    kept = Snapshot.of(tensor)
    assert not kept.differs(tensor)
    tensor.numpy()[0] = now
    assert kept.differs(tensor)


def test_a_snapshot_leaves_holes_to_others() -> None:
    block = torch.zeros(6)
    kept = Snapshot.of(block[::2])
    block[1] = 5
    assert not kept.differs(block[::2])


def test_metadata_and_writes_are_told() -> None:
    tensor = torch.zeros(2, 3)
    kept = Snapshot.of(tensor)
    tensor.add_(1)
    assert kept.writes_since(tensor) == 1
    assert kept.changes(tensor) == {}
    tensor.t_()
    assert kept.changes(tensor) == {
        "shape": ((2, 3), (3, 2)),
        "strides": ((3, 1), (1, 3)),
    }


def test_a_snapshot_takes_one_element_of_any_stride() -> None:
    tensor = torch.arange(4.0)[2::4]
    before = Snapshot.of(tensor)
    assert not before.differs(tensor)
    assert before.differs(tensor.add_(1))
