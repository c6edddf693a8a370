"""What the operators are used for together."""

import torch
from torch import Tensor

from . import levels
from .filters import soft_clip as clip
from .levels import gain


def normalise(signal: Tensor, peak: float = 1.0, out: Tensor | None = None) -> Tensor:
    """Scale a signal so that its highest sample is at ``peak``; into ``out`` if it is given."""
    factor = peak / float(signal.abs().max())
    return gain(signal, factor, out=out)


def master(signal: Tensor, scratch: Tensor) -> Tensor:
    """Fade a signal in, then clip it, using ``scratch`` for all that lies between."""
    levels.fade(signal, 0.0, 1.0, scratch, 2.0)  # a slow start
    torch.ops.legacy.gain(scratch.clone(), 4.0, scratch)
    return clip(scratch, ceiling=0.9)


def preview(signal: Tensor) -> Tensor:
    """Like master, quickly: no buffers, a straight fade."""
    faded = levels.fade(signal, 0.0, 1.0, None)
    return clip(torch.ops.legacy.gain.default(faded, 4.0, None), 0.9)
