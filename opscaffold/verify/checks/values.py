"""Other values for a sample: numbers on which a write shows, flags the other way, larger sizes.

Whatever is made here is tried, not demanded: an op that refuses it has refused it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opscaffold.contract.model import Parameter
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample, tensors_in

# A quiet NaN differs from a signalling one in its first bit: arithmetic that leaves every number
# as it is, such as x *= 1.0, turns one into the other.
_SIGNALLING_NAN = {
    torch.float16: (torch.int16, 0x7D00),
    torch.bfloat16: (torch.int16, 0x7FA0),
    torch.float32: (torch.int32, 0x7FA00000),
    torch.float64: (torch.int64, 0x7FF4000000000000),
}


def distinct(samples: Sequence[Sample], limit: int) -> list[Sample]:
    """The first sample of each structure: dtypes, ranks, layouts, flags, and what is None."""
    chosen: dict[object, Sample] = {}
    for sample in samples:
        chosen.setdefault(_structure([*sample.args, *sample.kwargs.items()]), sample)
    return list(chosen.values())[:limit]


def _structure(value: Any) -> object:
    if isinstance(value, Tensor):
        dense = value.layout != torch.strided or value.is_contiguous()
        return value.dtype, value.dim(), dense, value.numel() == 0, value.requires_grad
    if isinstance(value, (list, tuple)):
        return tuple(_structure(item) for item in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return type(value), value == 0
    return repr(value)


def random_values(sample: Sample, seed: int, wide: Collection[int] = ()) -> Sample:
    """The same call on random numbers, small and large, of both signs.

    Integers stay within the range that was given, since they may be indices; those of tensors
    whose ``id`` is in ``wide`` do not.
    """
    places = [number for number, tensor in enumerate(_all(sample)) if id(tensor) in wide]
    return _filled(sample, f"{sample.label}, random values {seed}", seed, places)


def telling_bits(sample: Sample, seed: int) -> Sample | None:
    """The same call with a signalling NaN and a negative zero; None without such dtypes."""
    if not any(t.dtype in _SIGNALLING_NAN and t.numel() for t in _all(sample)):
        return None
    made = _filled(sample, f"{sample.label}, signalling NaN and -0.0", seed, ())
    for tensor in _all(made):
        if tensor.dtype in _SIGNALLING_NAN and tensor.numel() and tensor.layout == torch.strided:
            integer, bits = _SIGNALLING_NAN[tensor.dtype]
            flat = _memory(tensor)
            first = tensor.storage_offset()
            last = first + sum(
                (size - 1) * stride
                for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
            )
            flat[last] = -0.0
            flat.view(integer)[first] = bits
    return made


def flags(op: Op, sample: Sample, limit: int) -> Iterator[Sample]:
    """The same call with one flag the other way: a bool, 0 or not 0, given or None."""
    given = op.arguments(sample)
    made = 0
    for parameter in op.contract.parameters:
        for value in _others(parameter, given):
            if made == limit:
                return
            made += 1
            label = f"{sample.label}, {parameter.name}={value!r}"
            yield op.with_arguments(sample, {**given, parameter.name: value}, label)


def _others(parameter: Parameter, given: dict[str, Any]) -> Iterator[Any]:
    default = parameter.default.value if parameter.default is not None else None
    value = given.get(parameter.name, default)
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, float):
        yield 0.0 if value else 1.0
    elif isinstance(value, int):
        if value in (0, 1):
            yield 1 - value
    elif value is not None and parameter.default is not None and default is None:
        yield None


def larger(sample: Sample) -> Sample | None:
    """The same call on tensors whose every size above 1 has grown by 1; None if none has one.

    Sizes that were equal stay equal. Overlapping arguments overlap no more.
    """
    if not any(size > 1 for tensor in _all(sample) for size in tensor.shape):
        return None
    source = torch.Generator().manual_seed(1)
    made = sample.fresh()

    def grow(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            items = [grow(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if not isinstance(value, Tensor) or value.layout != torch.strided:
            return value
        shape = [size + 1 if size > 1 else size for size in value.shape]
        like = torch.empty(shape, dtype=value.dtype, device=value.device)
        order = sorted(range(value.dim()), key=lambda dim: -value.stride()[dim])
        like = like.permute(order).contiguous().permute(_inverse(order))
        like.copy_(_random_like(like, value.detach(), source, wide=False))
        return like.requires_grad_(value.requires_grad)

    return replace(
        made,
        args=tuple(grow(value) for value in made.args),
        kwargs={name: grow(value) for name, value in made.kwargs.items()},
        label=f"{sample.label}, larger",
    )


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda position: order[position])


def _all(sample: Sample) -> list[Tensor]:
    return list(tensors_in([*sample.args, *sample.kwargs.values()]))


def _filled(
    sample: Sample,
    label: str,
    seed: int,
    wide: Collection[int],
) -> Sample:
    made = replace(sample.fresh(), label=label)
    source = torch.Generator().manual_seed(seed)
    filled: set[int] = set()
    with torch.no_grad():
        for number, tensor in enumerate(_all(made)):
            if tensor.layout != torch.strided or not tensor.numel():
                continue
            storage = tensor.untyped_storage().data_ptr()
            if storage not in filled:
                filled.add(storage)
                _randomise(tensor, source, wide=number in wide)
    return made


def _randomise(tensor: Tensor, source: torch.Generator, *, wide: bool) -> None:
    memory = _memory(tensor)
    memory.copy_(_random_like(memory, tensor.detach(), source, wide=wide))


def _memory(tensor: Tensor) -> Tensor:
    """All of a tensor's storage, flat: elements of an expanded tensor cannot be written."""
    storage = tensor.untyped_storage()
    count = storage.nbytes() // tensor.element_size()
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return flat.set_(storage, 0, (count,), (1,))


def _random_like(like: Tensor, known: Tensor, source: torch.Generator, *, wide: bool) -> Tensor:
    shape = tuple(like.shape)
    if like.dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=source) == 1
    if like.is_floating_point() or like.is_complex():
        small = torch.randn(shape, generator=source)
        return small * 10.0 ** torch.randint(-2, 4, shape, generator=source)
    if wide:
        low, high = (0, 100) if not like.dtype.is_signed else (-100, 100)
    elif known.numel() == 0:
        return torch.zeros(shape, dtype=torch.int64)
    else:
        numbers = known.to(torch.int64)
        low, high = int(numbers.min()), int(numbers.max())
        # All alike, they show no write of that same number.
        high += low == high
    return torch.randint(low, high + 1, shape, generator=source)
