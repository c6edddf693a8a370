"""Operators that keep or change memory of their caller."""

import torch
from torch import Tensor


@torch.library.custom_op("legacy::trim", mutates_args=())
def trim(signal: Tensor, samples: int) -> Tensor:
    """Keep the first samples of a signal."""
    if samples >= signal.shape[-1]:
        return signal  # short enough already
    return signal[..., :samples].clone()


@trim.register_fake
def _(signal, samples):
    return signal.new_empty(*signal.shape[:-1], min(samples, signal.shape[-1]))


def _raise_to(peaks: Tensor, levels: Tensor) -> None:
    peaks.copy_(torch.maximum(peaks, levels))


@torch.library.custom_op("legacy::meter", mutates_args=())
def meter(signal: Tensor, peaks: Tensor) -> Tensor:
    """Measure how loud each channel is, and remember the highest levels so far."""
    levels = signal.abs().amax(-1)
    _raise_to(peaks, levels)
    return levels


@meter.register_fake
def _(signal, peaks):
    return torch.empty_like(peaks)


@torch.library.custom_op("legacy::invert_", mutates_args=("signal",))
def invert_(signal: Tensor) -> Tensor:
    """Turn a signal upside down, where it stands."""
    return signal.neg_()


@invert_.register_fake
def _(signal):
    return signal
