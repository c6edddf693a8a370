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

    Strides may leave holes in it, which belong to other tensors.
    """
    if tensor.layout != torch.strided or tensor.numel() == 0 or tensor.device.type == "meta":
        return None
    start = tensor.data_ptr()
    low = high = 0
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride >= 0:
            high += (size - 1) * stride
        else:
            low += (size - 1) * stride
    size = tensor.element_size()
    return start + low * size, start + (high + 1) * size


def share_memory(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have at least one byte in common."""
    first, second = extent(one), extent(other)
    if first is None or second is None or one.device != other.device:
        return False
    if first[0] >= second[1] or second[0] >= first[1]:
        return False
    if one.is_contiguous() and other.is_contiguous():
        return True
    return not addresses(one).isdisjoint(addresses(other))


def addresses(tensor: Tensor) -> set[int]:
    """The address of each byte of a tensor's elements."""
    offsets = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        offsets = offsets.unsqueeze(-1) + torch.arange(size) * stride
    size = tensor.element_size()
    starts = (offsets.flatten() * size + tensor.data_ptr()).tolist()
    return {start + byte for start in starts for byte in range(size)}


@dataclass(frozen=True)
class Snapshot:
    """What a tensor was at one moment: its bytes, and its metadata."""

    bytes: Tensor
    metadata: tuple[object, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> Snapshot:
        """Take a snapshot, of the elements alone: holes between them belong to others."""
        return cls(_bytes(tensor), metadata(tensor))

    def differs(self, tensor: Tensor) -> bool:
        """Whether any byte of the tensor's elements is another now, compared as bits."""
        now = _bytes(tensor)
        return now.shape != self.bytes.shape or not torch.equal(now, self.bytes)


def metadata(tensor: Tensor) -> tuple[object, ...]:
    """Shape, strides, offset, dtype, address and whether it requires grad."""
    return (
        tuple(tensor.shape),
        tensor.stride() if tensor.layout == torch.strided else (),
        tensor.storage_offset() if tensor.layout == torch.strided else 0,
        tensor.dtype,
        tensor.data_ptr() if tensor.layout == torch.strided and tensor.numel() else 0,
        tensor.requires_grad,
    )


def _bytes(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        if tensor.layout != torch.strided:
            tensor = tensor.to_dense()
        plain = tensor.detach().resolve_conj().resolve_neg().clone().contiguous()
        return plain.reshape(-1).view(torch.uint8).cpu()
