"""The samples on which every op is tested: the one place to say what your kernels accept.

Each function below yields the samples of one op: positional arguments, keyword arguments, and a
label that is unique for the op. The first sample is the simplest one; some tests take it alone.
`opscaffold verify` takes them from here as well, and varies them further.
Tests of gradients take the samples whose floating-point tensors are all float64.

Change sizes, dtypes and values as your kernel demands. Keep in: each dtype that matters, an empty
tensor, a strided one, one that does not start at its storage's beginning, and, where the op takes
them, 0-d and channels-last tensors.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Sample(NamedTuple):
    """One call of an op."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    label: str


CONTIGUOUS = "contiguous"
STRIDED = "strided"
OFFSET = "offset"
EXPANDED = "expanded"
CHANNELS_LAST = "channels last"

CASES = (
    ("float32", (2, 3), torch.float32, CONTIGUOUS),
    ("float64", (2, 3), torch.float64, CONTIGUOUS),
    ("bfloat16", (2, 3), torch.bfloat16, CONTIGUOUS),
    ("int64", (2, 3), torch.int64, CONTIGUOUS),
    ("empty", (0, 3), torch.float32, CONTIGUOUS),
    ("0-d", (), torch.float32, CONTIGUOUS),
    ("strided", (2, 3), torch.float32, STRIDED),
    ("offset", (2, 3), torch.float32, OFFSET),
    ("expanded", (2, 3), torch.float32, EXPANDED),
    ("channels last", (2, 3, 4, 5), torch.float32, CHANNELS_LAST),
)


def devices() -> list[torch.device]:
    """The CPU and the first of each accelerator present."""
    found = [torch.device("cpu")]
    if torch.cuda.is_available():
        found.append(torch.device("cuda", 0))
    if torch.xpu.is_available():
        found.append(torch.device("xpu", 0))
    return found


class Make:
    """Makes the tensors of one sample, with the same numbers each time.

    ``number`` tells tensors apart. No floating-point number is 0, so that a kernel may test signs.
    """

    def __init__(
        self,
        device: torch.device,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        layout: str = CONTIGUOUS,
    ) -> None:
        """Say what the tensors have in common."""
        self.device = device
        self.shape = shape
        self.dtype = dtype
        self.layout = layout

    def __call__(
        self,
        number: int,
        *,
        shape: tuple[int, ...] | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """A tensor that is only read."""
        values = self._values(number, self.shape if shape is None else shape, dtype)
        return _laid_out(values, self.layout)

    def writable(
        self,
        number: int,
        *,
        shape: tuple[int, ...] | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """A tensor that is read and written: no two elements share memory."""
        values = self._values(number, self.shape if shape is None else shape, dtype)
        return _laid_out(values, CONTIGUOUS if self.layout == EXPANDED else self.layout)

    def buffer(self, shape: tuple[int, ...], *, dtype: torch.dtype | None = None) -> Tensor:
        """A tensor that is only written. torch.compile takes no buffer that is not contiguous."""
        return torch.zeros(shape, dtype=dtype or self.dtype, device=self.device)

    def _values(self, number: int, shape: tuple[int, ...], dtype: torch.dtype | None) -> Tensor:
        count = torch.Size(shape).numel()
        values = (torch.arange(count) * 5 + 3 * number) % 7 - 3.5
        return values.reshape(shape).to(device=self.device, dtype=dtype or self.dtype)


def _laid_out(tensor: Tensor, layout: str) -> Tensor:
    if layout == CHANNELS_LAST and tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    if layout == OFFSET:
        memory = tensor.new_zeros(tensor.numel() + 3)
        return memory[3:].view(tensor.shape).copy_(tensor)
    if tensor.dim() == 0:
        return tensor
    if layout == STRIDED:
        memory = tensor.new_zeros(*tensor.shape[:-1], 2 * tensor.shape[-1])
        return memory[..., ::2].copy_(tensor)
    if layout == EXPANDED:
        return tensor[:1].expand(tensor.shape)
    return tensor
{% for module in cookiecutter.package.modules %}
{% for samples in module.samples %}


{{ samples.head | join("\n") }}
    """Calls of {{ samples.qualname }}."""
{{ samples.body | join("\n") }}
{% endfor %}
{% endfor %}


{{ cookiecutter.package.sample_table | join("\n") }}
