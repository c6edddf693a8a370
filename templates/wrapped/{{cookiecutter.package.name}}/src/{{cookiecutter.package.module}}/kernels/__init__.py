"""The kernels: functions that were there before the ops, one module each."""

from collections.abc import Sequence

from torch import Tensor


def refuse_resized(op: str, sizes: Sequence[Sequence[int]], *buffers: Tensor) -> None:
    """Raise ValueError where a buffer has not the size that it came with.

    A kernel that resizes its buffer computes something else under torch.compile.
    """
    for size, buffer in zip(sizes, buffers, strict=True):
        if tuple(buffer.shape) != tuple(size):
            found, wanted = tuple(size), tuple(buffer.shape)
            raise ValueError(f"{op}: a buffer has shape {found}, but the result has {wanted}")
