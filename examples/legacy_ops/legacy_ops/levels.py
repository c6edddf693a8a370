"""Operators that change how loud a signal is."""

from typing import Optional

import torch
from torch import Tensor
from torch.library import custom_op


@custom_op("legacy::gain", mutates_args=("out",))
def gain(signal: Tensor, factor: float, out: Optional[Tensor] = None) -> Tensor:
    """Multiply a signal by ``factor``."""
    if out is None:
        out = torch.empty_like(signal)
    # One pass over memory, whichever buffer it goes to.
    torch.mul(signal, factor, out=out)
    return out


@gain.register_fake
def _(signal, factor, out=None):
    if out is None:
        out = torch.empty_like(signal)
    return out


# `dst` was added before `curve`, so callers pass None for it to reach `curve` by position.
@custom_op("legacy::fade", mutates_args=("dst",))
def fade(
    signal: Tensor,
    start: float,
    stop: float,
    dst: Tensor | None = None,
    curve: float = 1.0,  # 1.0 is a straight line
) -> Tensor:
    """Fade a signal from one level to another along its samples."""
    result = torch.empty_like(signal) if dst is None else dst
    steps = torch.linspace(0.0, 1.0, signal.shape[-1], dtype=signal.dtype).pow(curve)
    torch.mul(signal, start + (stop - start) * steps, out=result)
    return result


@fade.register_fake
def _(signal, start, stop, dst=None, curve=1.0):
    return torch.empty_like(signal) if dst is None else dst
