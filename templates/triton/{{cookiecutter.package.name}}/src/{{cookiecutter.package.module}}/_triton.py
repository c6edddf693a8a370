"""Triton, where it is installed: without it ops can be imported, and raise when they are called.

Under Triton's interpreter (TRITON_INTERPRET=1, set before Triton is imported) kernels run on the
CPU, and no compiler can see into them.
"""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, TYPE_CHECKING

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental import proxy_tensor

INSTALLED = find_spec("triton") is not None
INTERPRETED = INSTALLED and os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on")

if TYPE_CHECKING or INSTALLED:
    import triton
    import triton.language as tl
else:
    tl = SimpleNamespace(constexpr=int)

__all__ = [
    "INSTALLED",
    "INTERPRETED",
    "blocks",
    "dense",
    "jit",
    "require_triton",
    "runs_triton",
    "scratch",
    "tl",
    "wrap_triton",
]

# Under a name of its own: PyTorch finds kernels by calls of wrap_triton.
_wrap: Any = torch.library.wrap_triton


def runs_triton(device: torch.device) -> bool:
    """Whether kernels run on a device, or would if Triton were installed."""
    return INTERPRETED or not INSTALLED or device.type != "cpu"


def require_triton(op: str, /, **given: Tensor | Sequence[Tensor | None] | None) -> None:
    """Raise RuntimeError where there is no Triton, ValueError for a tensor where it does not run."""
    if not INSTALLED:
        raise RuntimeError(f"{op}: Triton is not installed; install triton, or torch with it")
    if INTERPRETED:
        return
    for name, value in given.items():
        for tensor in [value] if isinstance(value, Tensor) else value or ():
            if tensor is not None and tensor.device.type == "cpu":
                remedy = "move it to a GPU, or set TRITON_INTERPRET=1 before Triton is imported"
                raise ValueError(f"{op}: {name} is on the CPU, where Triton does not run; {remedy}")


def jit(function: Callable[..., None]) -> Any:
    """``triton.jit``; without Triton the function as it is, which nothing calls."""
    return triton.jit(function) if INSTALLED else function


def wrap_triton(kernel: Any) -> Any:
    """``torch.library.wrap_triton``, which shows a kernel to compilers; an interpreted one is run.

    Raises RuntimeError where there is no Triton.
    """
    if not INSTALLED:
        raise RuntimeError("Triton is not installed; install triton, or torch with it")
    return _Interpreted(kernel) if INTERPRETED else _wrap(kernel)


class _Interpreted:
    """An interpreted kernel, which fake tensors have no memory for."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            traced = proxy_tensor.get_proxy_mode() is not None
            if traced or any(isinstance(arg, FunctionalTensor) for arg in args):
                # Left out, the program would be compiled without it.
                raise RuntimeError("no compiler can see into a kernel that Triton interprets")
            if not any(isinstance(arg, FakeTensor) for arg in args):
                self.kernel[grid](*args, **kwargs)

        return launch


def blocks(count: int, size: int) -> tuple[int]:
    """The grid of a kernel whose programs take ``size`` of ``count`` elements each."""
    return (-(-count // size),)


def dense(tensor: Tensor | None, shape: Sequence[int] | None = None) -> Any:
    """A tensor as a kernel reads it: broadcast to a shape, its elements side by side in order."""
    if tensor is None:
        return None
    return (tensor if shape is None else tensor.expand(shape)).contiguous()


def scratch(buffer: Tensor) -> Tensor:
    """Memory for a kernel to fill in order: the buffer's own where its elements lie so."""
    if buffer.is_contiguous():
        return buffer
    return torch.empty_like(buffer, memory_format=torch.contiguous_format)
