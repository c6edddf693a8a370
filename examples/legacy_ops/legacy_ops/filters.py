"""Operators that change the shape of a wave."""

import torch


@torch.library.custom_op("legacy::soft_clip", mutates_args=("out",))
def soft_clip(
    signal: torch.Tensor, ceiling: float = 1.0, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Press a signal below ``ceiling``, more gently than a hard limit does."""
    if ceiling <= 0:
        raise ValueError(f"ceiling must be positive, not {ceiling}")
    if signal.numel() == 0:
        # Nothing to compute: the buffer, if any, is as empty as the signal.
        if out is None:
            return torch.empty_like(signal)
        return out
    if out is None:
        out = torch.empty_like(signal)
    torch.div(signal, ceiling, out=out)
    out.tanh_()
    out.mul_(ceiling)
    return out


@soft_clip.register_fake
def _(signal, ceiling=1.0, out=None):
    return torch.empty_like(signal) if out is None else out
