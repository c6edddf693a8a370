"""Which bytes a tensor occupies, and what they held.

Storage objects are no evidence: ``torch.from_numpy(x.numpy())`` has a new one over the same
bytes (FACTS S2). Addresses are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Range = tuple[int, int]


def extent(tensor: Tensor) -> Range | None:
    """First address and the one behind the last, of what the tensor can reach; None if empty.

    Strides may leave holes in it, which belong to other tensors. None too for what has no
    addresses: sparse layouts and meta tensors.
    """
    if tensor.layout != torch.strided or tensor.numel() == 0 or tensor.device.type == "meta":
        return None
    start = tensor.data_ptr()
    if start == 0:
        return None
    reach = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return start, start + (reach + 1) * tensor.element_size()


def share_memory(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have at least one byte in common."""
    if one.device != other.device:
        return False
    parts, others = _parts(one), _parts(other)
    if len(parts) > 1 or len(others) > 1:
        return any(share_memory(part, there) for part in parts for there in others)
    first, second = extent(one), extent(other)
    if first is None or second is None or first[0] >= second[1] or second[0] >= first[1]:
        return False
    if one.is_contiguous() and other.is_contiguous():
        return True
    starts, others_starts = _starts(one), _starts(other)
    # An element of the other one overlaps where it starts less than its size before this one
    # starts, or before this one ends.
    behind = torch.searchsorted(others_starts, starts - other.element_size(), right=True)
    before = torch.searchsorted(others_starts, starts + one.element_size())
    return bool((before > behind).any())


def _parts(tensor: Tensor) -> list[Tensor]:
    """The strided tensors of which a tensor is made: itself, or what a sparse one is stored in."""
    tensor = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def _starts(tensor: Tensor) -> Tensor:
    """The address of each element, sorted."""
    offsets = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        # Along a stride of 0 all elements are one.
        count = torch.arange(size if stride else 1)
        offsets = offsets.unsqueeze(-1) + count * stride
    return (offsets.flatten() * tensor.element_size() + tensor.data_ptr()).sort().values


@dataclass(frozen=True)
class Snapshot:
    """What a tensor was at one moment: its bytes, its metadata, and its version."""

    bytes: Tensor
    metadata: dict[str, object]
    version: int | None
    """How often PyTorch's own in-place ops wrote to it; None where that is not counted."""

    @classmethod
    def of(cls, tensor: Tensor) -> Snapshot:
        """Take a snapshot, of the elements alone: holes between them belong to others."""
        version = None if tensor.is_inference() else tensor._version
        return cls(_bytes(tensor), metadata(tensor), version)

    def differs(self, tensor: Tensor) -> bool:
        """Whether any byte of the tensor's elements is another now, compared as bits."""
        now = _bytes(tensor)
        return now.shape != self.bytes.shape or not torch.equal(now, self.bytes)

    def changes(self, tensor: Tensor) -> dict[str, tuple[object, object]]:
        """What of the metadata is another now, by name: what it was, and what it is."""
        now = metadata(tensor)
        return {
            name: (value, now[name]) for name, value in self.metadata.items() if value != now[name]
        }

    def writes_since(self, tensor: Tensor) -> int:
        """How often PyTorch's own in-place ops wrote to it since, as far as that is counted."""
        if self.version is None or tensor.is_inference():
            return 0
        return tensor._version - self.version


def metadata(tensor: Tensor) -> dict[str, object]:
    """Shape, dtype, strides, offset, address, and whether it requires grad."""
    known: dict[str, object] = {
        "shape": tuple(tensor.shape),
        "dtype": tensor.dtype,
        "requires_grad": tensor.requires_grad,
    }
    if tensor.layout == torch.strided:
        known["strides"] = tensor.stride()
        known["storage offset"] = tensor.storage_offset()
        known["address"] = tensor.data_ptr() if tensor.numel() else 0
    return known


def _bytes(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        parts = [part.resolve_conj().resolve_neg().cpu() for part in _parts(tensor)]
        # A clone of one element keeps its stride, through which no bytes can be viewed.
        flat = [torch.empty(part.numel(), dtype=part.dtype) for part in parts]
        for copy, part in zip(flat, parts, strict=True):
            copy.copy_(part.reshape(-1))
        return torch.cat([copy.view(torch.uint8) for copy in flat])
