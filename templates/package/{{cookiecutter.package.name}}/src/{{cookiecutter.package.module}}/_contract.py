"""What the contracts of the ops need and PyTorch does not check."""

from collections.abc import Sequence
from typing import Any

{% if "numpy" in cookiecutter.package.languages %}
import numpy as np
{% endif %}
import torch
{% if "numpy" in cookiecutter.package.languages %}
from numpy.typing import ArrayLike, NDArray
{% endif %}
from torch import Tensor
from torch.autograd import forward_ad

# PyTorch gives these no types.
_broadcast_shapes: Any = torch.broadcast_shapes
_unpack_dual: Any = forward_ad.unpack_dual
{% if cookiecutter.package.library %}
_increment_version: Any = torch.autograd.graph.increment_version
{% endif %}


def broadcast_metadata(*tensors: Tensor) -> tuple[Sequence[int], torch.dtype, torch.device]:
    """The shape to which tensors broadcast, the dtype to which they promote, and their device."""
    shape: Sequence[int] = _broadcast_shapes(*[tensor.shape for tensor in tensors])
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return shape, dtype, tensors[0].device


def first_place(*tensors: Tensor | None) -> tuple[torch.dtype, torch.device]:
    """Dtype and device of the first tensor that is given; float32 on the CPU where none is."""
    for tensor in tensors:
        if tensor is not None:
            return tensor.dtype, tensor.device
    return torch.float32, torch.device("cpu")


def empty_result(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A contiguous tensor for a kernel to fill, or for a fake kernel to return."""
    return torch.empty(shape, dtype=dtype, device=device)


def fit_gradient(gradient: Tensor, like: Tensor) -> Tensor:
    """A gradient in the shape and dtype of its input.

    It is summed where the input was broadcast, and repeated where the input was summed.
    """
    if gradient.dim() == 0:
        return gradient.expand(like.shape).to(like.dtype)
    return gradient.sum_to_size(like.shape).to(like.dtype)


def check_buffer(
    op: str,
    name: str,
    buffer: Tensor,
    shape: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Raise ValueError for a tensor that cannot take the result.

    Nothing else would: PyTorch resizes or casts where the kernel lets it.
    """
    if tuple(buffer.shape) != tuple(shape):
        found, wanted = tuple(buffer.shape), tuple(shape)
        raise ValueError(f"{op}: {name} has shape {found}, but the result has {wanted}")
    if buffer.dtype != dtype:
        raise ValueError(f"{op}: {name} has dtype {buffer.dtype}, but the result has {dtype}")
    if buffer.device != device:
        raise ValueError(f"{op}: {name} is on {buffer.device}, but the result is on {device}")


def refuse_lost_gradients(op: str, *tensors: Tensor | None) -> None:
    """Raise RuntimeError where autograd would have to follow what ``op`` writes.

    It cannot: gradients would be wrong in silence. Only the caller of an op can tell; inside a
    kernel, grad mode is off.
    """
    refuse_reverse_mode(op, *tensors)
    refuse_forward_mode(op, *tensors)


def refuse_reverse_mode(op: str, *tensors: Tensor | None) -> None:
    """Raise RuntimeError where a gradient is asked for that would be lost."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                lost = "requires grad, and its gradient would be lost"
                remedy = "call it under torch.no_grad(), or on detached tensors"
                raise RuntimeError(f"{op}: an argument {lost}; {remedy}")


def refuse_forward_mode(op: str, *tensors: Tensor | None) -> None:
    """Raise RuntimeError under forward-mode differentiation: the tangent would be lost."""
    for tensor in tensors:
        if tensor is not None and _unpack_dual(tensor).tangent is not None:
            refused = "forward-mode differentiation is not supported; use reverse mode"
            raise RuntimeError(f"{op}: {refused}")
{% if cookiecutter.package.library %}


def count_writes(*tensors: Tensor | None) -> None:
    """Tell autograd that the tensors were written, so that backward refuses what was saved before.

    PyTorch's own ops do so themselves; a kernel that writes to memory does not.
    """
    for tensor in tensors:
        # Those made in inference mode have no version.
        if tensor is not None and not tensor.is_inference():
            _increment_version(tensor)
{% endif %}
{% if "numpy" in cookiecutter.package.languages %}


def as_array(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor for numpy to read: the array cannot be written.

    It is over the tensor's own memory, except for bfloat16, which numpy lacks: that is copied as
    float32. Write results with ``fill``; a tensor made of such an array would share its memory.
    """
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    array: NDArray[Any] = tensor.numpy()
    array.setflags(write=False)
    return array


def fill(buffer: Tensor, numbers: ArrayLike) -> None:
    """Copy numbers into a tensor, broadcast to its shape and cast to its dtype."""
    buffer.copy_(_as_tensor(numbers))


def new_tensor(numbers: ArrayLike, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of its own memory that holds the numbers."""
    return _as_tensor(numbers).to(device=device, dtype=dtype)


def _as_tensor(numbers: ArrayLike) -> Tensor:
    # A copy: torch.from_numpy shares memory, and takes no array that runs backwards.
    return torch.from_numpy(np.array(numbers))


def require_cpu(op: str, /, **given: Tensor | Sequence[Tensor | None] | None) -> None:
    """Raise ValueError for a tensor that is not on the CPU, where alone numpy computes."""
    for name, value in given.items():
        for tensor in [value] if isinstance(value, Tensor) else value or ():
            if tensor is not None and tensor.device.type not in ("cpu", "meta"):
                where = f"{name} is on {tensor.device}"
                raise ValueError(f"{op}: {where}, and numpy computes on the CPU; move it there")
{% endif %}
{% if "vmap" in cookiecutter.package.additions %}


def each_of_batch(
    op: Any,
    size: int,
    dims: Sequence[Any],
    args: Sequence[Any],
    kwargs: Any,
    *,
    writes: Sequence[int] = (),
) -> list[Any]:
    """What an op returns for each element of a batch; ``dims`` are those that torch.vmap tells.

    Raises RuntimeError where an argument that is written, by position, is no batch.
    """
    for position in writes:
        if args[position] is not None and _is_shared(args[position], dims[position]):
            told = f"argument {position} is written, and the elements of the batch share it"
            raise RuntimeError(f"{told}; give torch.vmap one for each")
    elements = ([_element(a, d, n) for a, d in zip(args, dims, strict=True)] for n in range(size))
    return [op(*element, **kwargs) for element in elements]


def _is_shared(value: Any, dim: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_shared(*each) for each in zip(value, dim, strict=True))
    return dim is None


def _element(value: Any, dim: Any, number: int) -> Any:
    if isinstance(value, (list, tuple)) and isinstance(dim, (list, tuple)):
        return [_element(*each, number) for each in zip(value, dim, strict=True)]
    return value if dim is None else value.select(dim, number)


def stack_batch(results: Sequence[Any]) -> tuple[Any, Any]:
    """The results of the elements as torch.vmap takes them: batches, and their dimensions."""
    first = results[0]
    if isinstance(first, Tensor):
        return torch.stack([*results]), 0
    stacked = [stack_batch(each) for each in zip(*results, strict=True)]
    values, dims = [value for value, _ in stacked], [dim for _, dim in stacked]
    return (tuple(values), tuple(dims)) if isinstance(first, tuple) else (values, dims)
{% endif %}
