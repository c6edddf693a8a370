"""Tensors by shape, dtype and layout: what made-up samples are made of, and are written down as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Shape = tuple[int, ...]

CONTIGUOUS = "contiguous"
TRANSPOSED = "transposed"
STRIDED = "strided"


@dataclass(frozen=True)
class Recipe:
    """One tensor. ``number`` tells tensors apart; ``below`` bounds the numbers of an index."""

    shape: Shape
    dtype: torch.dtype = torch.float32
    number: int = 0
    layout: str = CONTIGUOUS
    below: int | None = None

    def make(self, device: torch.device) -> Tensor:
        """The tensor, with the same numbers each time."""
        return filled_tensor(
            device,
            self.shape,
            self.dtype,
            number=self.number,
            layout=self.layout,
            below=self.below,
        )

    def text(self, function: str) -> str:
        """The call of ``filled_tensor``, under the name it has in a file, that makes it."""
        shape = f"({', '.join(map(str, self.shape))}{',' * (len(self.shape) == 1)})"
        parts = ["device", shape, str(self.dtype)]
        if self.number:
            parts.append(f"number={self.number}")
        if self.layout != CONTIGUOUS:
            parts.append(f'layout="{self.layout}"')
        if self.below is not None:
            parts.append(f"below={self.below}")
        return f"{function}({', '.join(parts)})"


@dataclass(frozen=True)
class NewGenerator:
    """A random generator, seeded alike each time."""

    def make(self, device: torch.device) -> torch.Generator:
        """The generator."""
        return torch.Generator(device).manual_seed(0)


def made(value: Any, device: torch.device) -> Any:
    """A value of a call, with its recipes made; a device stands for the one it is made on."""
    if isinstance(value, (Recipe, NewGenerator)):
        return value.make(device)
    if isinstance(value, list):
        return [made(item, device) for item in value]
    if isinstance(value, torch.device):
        return device
    return value


def filled_tensor(
    device: torch.device,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    *,
    number: int = 0,
    layout: str = "contiguous",
    below: int | None = None,
) -> Tensor:
    """A tensor with the same numbers each time; ``number`` tells tensors apart.

    With ``below`` they are 0 and more, and less than that: what an index holds.
    """
    count = torch.Size(shape).numel()
    values = (torch.arange(count) * 5 + 3 * number) % 7
    if below is not None:
        values = values % max(below, 1)
    elif dtype == torch.bool:
        values = values % 2
    else:
        values = values - 3.5
    tensor = values.reshape(shape).to(device=device, dtype=dtype)
    if layout == "transposed" and len(shape) > 1:
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "strided" and shape:
        memory = tensor.new_zeros(*shape[:-1], 2 * shape[-1])
        return memory[..., ::2].copy_(tensor)
    return tensor
