"""Varies a call in what a kernel may not have been tried on: dtypes, sizes, layouts, modes.

A variation is kept where the op takes it. Written tensors are given no layout in which elements
share memory, and buffers of out= ops stay contiguous: torch.compile takes no others (FACTS S9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from opscaffold.contract.model import Kind, base_name
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample, tensors_in
from opscaffold.verify.samples.recipes import filled_tensor

Change = Callable[[Tensor], Tensor]
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
OTHERS = (torch.int64, torch.bool)


@dataclass(frozen=True)
class Variation:
    """A varied call. ``bold`` ones count only where the fake kernel describes them as well."""

    sample: Sample
    bold: bool = False


def variations(op: Op, base: Sample, devices: Sequence[torch.device]) -> Iterator[Variation]:
    """The variations of a call, what matters most first. Their labels are those of the base."""
    yield from _Varied(op, base).all(devices)


class _Varied:
    def __init__(self, op: Op, base: Sample) -> None:
        self.op = op
        self.base = base
        self.written = {p.name for p in op.written}
        self.buffers = self.written if op.kind is Kind.OUT else set[str]()
        self.tensors = [
            (name, tensor)
            for name, value in op.arguments(base).items()
            for tensor in tensors_in(value)
        ]

    def all(self, devices: Sequence[torch.device]) -> Iterator[Variation]:
        if self.tensors:
            yield from self._layouts()
            yield from self._dtypes()
            yield from self._sizes()
            yield from self._modes()
            yield from self._overlapping()
            yield from self._mixed()
        yield from self._target_dtypes()
        for device in devices[1:]:
            yield from self._made(f"on {device}", partial(_moved, device=device), device=device)

    # Layouts.

    def _layouts(self) -> Iterator[Variation]:
        for name, change in (
            ("transposed", _transposed),
            ("non-contiguous", _strided),
            ("storage offset", _offset),
            ("channels last", _channels_last),
            ("expanded", _expanded),
        ):
            kept = self.written if change is _expanded else self.buffers
            yield from self._made(name, change, kept=kept)
        if len(self.tensors) > 1:
            for own in dict.fromkeys(name for name, _ in self.tensors if name not in self.buffers):
                yield from self._made(f"{own} transposed", _transposed, only=own)

    # Dtypes.

    def _dtypes(self) -> Iterator[Variation]:
        now = self._dtype()
        for dtype in (*FLOATS, *OTHERS):
            if dtype != now:
                change = partial(_cast, before=now, after=dtype)
                bold = now.is_floating_point and not dtype.is_floating_point
                yield from self._made(_short(dtype), change, bold=bold)
                if self.buffers:
                    name = f"{_short(dtype)} to {_short(now)}"
                    yield from self._made(name, change, kept=self.buffers, bold=True)

    def _dtype(self) -> torch.dtype:
        """The dtype that counts: a floating-point one where there is one."""
        dtypes = [t.dtype for n, t in self.tensors if n not in self.buffers]
        dtypes = dtypes or [t.dtype for _, t in self.tensors]
        return next((dtype for dtype in dtypes if dtype.is_floating_point), dtypes[0])

    def _mixed(self) -> Iterator[Variation]:
        now = self._dtype()
        other = torch.float64 if now != torch.float64 else torch.float32
        found = [n for n, t in self.tensors if t.dtype == now and n not in self.buffers]
        names = list(dict.fromkeys(found))
        for own in names[:3] if len(names) > 1 else []:
            change = partial(_cast, before=now, after=other)
            yield from self._made(f"{own} in {_short(other)}", change, only=own, bold=True)

    def _target_dtypes(self) -> Iterator[Variation]:
        """An argument that names a dtype: the one the tensors have, and others."""
        given = self.op.arguments(self.base)
        wanted = [self._dtype()] if self.tensors else []
        for parameter in self.op.contract.parameters:
            if base_name(parameter.type) != "ScalarType":
                continue
            for dtype in dict.fromkeys([*wanted, torch.float32, torch.float64, torch.bfloat16]):
                if given.get(parameter.name) != dtype:
                    arguments = {**given, parameter.name: dtype}
                    sample = self.op.with_arguments(self.base, arguments, self.base.label)
                    name = f"{parameter.name} {_short(dtype)}"
                    yield Variation(replace(sample, varied=name), bold=bool(self.buffers))

    # Sizes.

    def _sizes(self) -> Iterator[Variation]:
        every = dict.fromkeys(size for _, t in self.tensors for size in t.shape)
        sizes = [size for size in every if size > 1][:3]
        for new, name in ((0, "empty"), (1, "size 1")):
            for size in sizes:
                change = partial(_resized, size=size, new=new)
                yield from self._made(f"{name} where it was {size}", change)
        lead = self.tensors[0][1].shape
        if lead:
            yield from self._made("0-d", partial(_reshaped, before=lead, after=()), bold=True)
        if len(lead) != 4:
            change = partial(_reshaped, before=lead, after=(2, 3, 4, 5))
            yield from self._made("4-d", change, bold=True)
            for sample in self._changed(change):
                inner = _Varied(self.op, sample)
                name = "4-d, channels last"
                yield from inner._made(name, _channels_last, kept=self.buffers, bold=True)

    # Modes.

    def _modes(self) -> Iterator[Variation]:
        if self.op.kind is Kind.FUNCTIONAL and self.op.has_autograd and not self.base.grad_mode:
            for sample in self._changed(_requiring_grad):
                given = [*sample.args, *sample.kwargs.values()]
                if any(tensor.requires_grad for tensor in tensors_in(given)):
                    yield Variation(replace(sample, varied="requires grad", grad_mode=True))
        if not self.base.grad_mode and not self.base.inference:
            yield Variation(replace(self.base, varied="inference mode", inference=True))

    # Overlapping inputs.

    def _overlapping(self) -> Iterator[Variation]:
        """One tensor passed twice, where neither argument is written.

        With one written, the result depends on the order in which a kernel reads and writes, and
        compiled programs may differ for any op (FACTS section 10).
        """
        given = self.op.arguments(self.base)
        reads = [
            (name, value)
            for name, value in given.items()
            if isinstance(value, Tensor) and name not in self.written
        ]
        for number, (name, value) in enumerate(reads):
            for other, tensor in reads[:number]:
                if (tensor.shape, tensor.dtype) == (value.shape, value.dtype):
                    arguments = {**given, name: tensor}
                    sample = self.op.with_arguments(self.base, arguments, self.base.label)
                    yield Variation(replace(sample, varied=f"{other} as {name} too"))

    # Making.

    def _made(
        self,
        name: str,
        change: Change,
        *,
        only: str = "",
        kept: Collection[str] = (),
        bold: bool = False,
        device: torch.device | None = None,
    ) -> Iterator[Variation]:
        for sample in self._changed(change, only, kept, device):
            yield Variation(replace(sample, varied=name), bold)

    def _changed(
        self,
        change: Change,
        only: str = "",
        kept: Collection[str] = (),
        device: torch.device | None = None,
    ) -> Iterator[Sample]:
        """The call with tensors changed, if that changes any and can be done."""
        before = self.op.arguments(self.base)
        after = dict(before)
        try:
            with torch.no_grad():
                for name, value in before.items():
                    if name not in kept and only in ("", name):
                        after[name] = _mapped(value, change, device)
        except (RuntimeError, IndexError, TypeError, NotImplementedError):
            return
        if layout_key(after.values()) != layout_key(before.values()):
            yield self.op.with_arguments(self.base, after, self.base.label)


def layout_key(values: Any) -> tuple[Any, ...]:
    """What tells one call from another, numbers in tensors aside; tensors passed twice count."""
    seen: dict[int, int] = {}

    def key(value: Any) -> Any:
        if isinstance(value, Tensor):
            number = seen.setdefault(id(value), len(seen))
            strided = value.layout == torch.strided
            layout = (value.stride(), value.storage_offset()) if strided else ()
            if value.numel() == 0:
                layout = ()
            flags = (value.requires_grad, str(value.device), number)
            return (tuple(value.shape), value.dtype, layout, *flags)
        if isinstance(value, (list, tuple)):
            return tuple(key(item) for item in value)
        return repr(value)

    return tuple(key(value) for value in values)


def _mapped(value: Any, change: Change, device: torch.device | None) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, change, device) for item in value)
    if device is not None and isinstance(value, torch.device):
        return device
    return value


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _cast(tensor: Tensor, before: torch.dtype, after: torch.dtype) -> Tensor:
    return tensor.to(after) if tensor.dtype == before else tensor


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    return tensor.to(device)


def _resized(tensor: Tensor, size: int, new: int) -> Tensor:
    shape = tuple(new if each == size else each for each in tensor.shape)
    return tensor if shape == tuple(tensor.shape) else _filled(tensor, shape)


def _reshaped(tensor: Tensor, before: torch.Size, after: tuple[int, ...]) -> Tensor:
    return _filled(tensor, after) if tensor.shape == before else tensor


def _transposed(tensor: Tensor) -> Tensor:
    if tensor.dim() < 2:
        return tensor
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def _strided(tensor: Tensor) -> Tensor:
    if tensor.dim() == 0:
        return tensor
    memory = tensor.new_zeros(*tensor.shape[:-1], 2 * tensor.shape[-1])
    return memory[..., ::2].copy_(tensor)


def _offset(tensor: Tensor) -> Tensor:
    memory = tensor.new_zeros(tensor.numel() + 3)
    return memory[3:].view(tensor.shape).copy_(tensor)


def _channels_last(tensor: Tensor) -> Tensor:
    if tensor.dim() != 4:
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last)


def _expanded(tensor: Tensor) -> Tensor:
    if tensor.dim() == 0 or tensor.shape[0] == 0:
        return tensor
    return tensor[:1].contiguous().expand(tensor.shape)


def _filled(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor of another shape; an index holds zeros, which any size allows."""
    is_index = not tensor.dtype.is_floating_point and tensor.dtype != torch.bool
    bound = 1 if is_index else None
    return filled_tensor(tensor.device, shape, tensor.dtype, below=bound)


def _requiring_grad(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point() and not tensor.is_complex():
        return tensor
    return tensor.detach().clone().requires_grad_()
