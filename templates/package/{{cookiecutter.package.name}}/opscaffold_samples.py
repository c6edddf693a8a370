"""The samples on which every op is tested: the one place to say what your kernels accept.

Each function below yields the samples of one op: positional arguments, keyword arguments, and a
label that is unique for the op. The first sample is the simplest one; some tests take it alone.
`opscaffold verify` takes them from here as well, and varies them further.
Tests of gradients take the samples whose floating-point tensors are all float64.

Change sizes, dtypes and values as your kernel demands. Keep in: each dtype that matters, an empty
tensor, a strided one, one that does not start at its storage's beginning, and, where the op takes
them, 0-d and channels-last tensors.
"""

{% if "wrapped" in cookiecutter.package.languages %}
import itertools
{% endif %}
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
{% if "triton" in cookiecutter.package.languages %}

from {{ cookiecutter.package.module }}._triton import runs_triton
{% endif %}


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
{% if "wrapped" in cookiecutter.package.languages %}


class Slot(NamedTuple):
    """What to try for one argument of a function that was there before the op.

    ``role`` is how its tensors are made: floats, writable, buffer, indices, mask, or empty where
    it takes none of them but ``values``.
    """

    role: str = ""
    values: tuple[Any, ...] = ()
    optional: bool = False
    listed: bool = False
    keyword: bool = False
    has_default: bool = False


class Call(NamedTuple):
    """One call to try: shape and role of each tensor, and which of its values a slot takes."""

    label: str
    shapes: dict[str, tuple[int, ...]]
    roles: dict[str, str]
    numbers: dict[str, int]
    dtype: torch.dtype = torch.float32
    layout: str = CONTIGUOUS
    none: bool = False
    defaults: bool = False
    lone: bool = False


SHAPES = ((2, 3), (4, 4), (4,), (2, 4, 4), (2, 4, 4, 4), ())
_FOUND: dict[Any, Call | None] = {}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64)


def tried(
    kernel: Callable[..., Any],
    device: torch.device,
    slots: dict[str, Slot],
    *,
    omitted: tuple[str, ...] = (),
    sized: str = "",
    op: Callable[..., Any] | None = None,
) -> Iterator[Sample]:
    """The samples that a function takes, of many that are tried: it is run on each.

    ``omitted`` are arguments that get None. ``sized`` is a buffer as large as what the function
    returns without it. An ``op`` that holds results to a rule has to take the samples as well.
    Where nothing fits, write samples in place of the call of this function.
    """
    base = _first_taken(kernel, device, slots, omitted, sized)
    if base is None:
        raise LookupError(f"the function takes no call that was tried: write samples for {slots}")
    for call in (base, *_varied(base, slots)):
        try:
            given = _given(kernel, device, slots, omitted, sized, call)
            result = kernel(**given, **dict.fromkeys(omitted))
            if _has_nan(result):
                continue
            if op is not None:
                op(**_given(kernel, device, slots, omitted, sized, call))
        except Exception:  # it says in this way that it does not take the call
            continue
        given = _given(kernel, device, slots, omitted, sized, call)
        keywords = [name for name in given if slots[name].keyword or call.defaults]
        args = tuple(value for name, value in given.items() if name not in keywords)
        yield Sample(args, {name: given[name] for name in keywords}, call.label)


def _has_nan(value: Any) -> bool:
    """Whether a result equals nothing, not even itself: opcheck takes it for a difference."""
    if isinstance(value, Tensor):
        return value.is_floating_point() and bool(value.isnan().any())
    return isinstance(value, list | tuple) and any(_has_nan(item) for item in value)


def _first_taken(
    kernel: Callable[..., Any],
    device: torch.device,
    slots: dict[str, Slot],
    omitted: tuple[str, ...],
    sized: str,
) -> Call | None:
    key = (kernel, device, repr(slots))
    if key not in _FOUND:
        _FOUND[key] = None
        for place in dict.fromkeys((torch.device("cpu"), device)):
            for call in _candidates(slots, sized) if _FOUND[key] is None else ():
                try:
                    given = _given(kernel, place, slots, omitted, sized, call)
                    result = kernel(**given, **dict.fromkeys(omitted))
                except Exception:  # it says in this way that it does not take the call
                    continue
                if not _has_nan(result):
                    _FOUND[key] = call
                    break
    return _FOUND[key]


def _candidates(slots: dict[str, Slot], sized: str) -> Iterator[Call]:
    """Calls of one shape first, then of several; where no name tells, with indices or masks."""
    tensors = [name for name, slot in slots.items() if slot.role and name != sized]
    told = {name: slots[name].role for name in tensors}
    each = [told]
    each += [{**told, n: role} for n in reversed(tensors) for role in ("indices", "mask")]
    most = max((len(slot.values) for slot in slots.values()), default=1)
    for dtype, roles in itertools.product((torch.float32, torch.int64), each):
        for number in range(max(most, 1)):
            numbers = {n: min(number, len(s.values) - 1) for n, s in slots.items() if s.values}
            for shapes in _shapes(tensors):
                yield Call("first", shapes, roles, numbers, dtype)


def _shapes(tensors: list[str]) -> Iterator[dict[str, tuple[int, ...]]]:
    for shape in SHAPES:
        yield dict.fromkeys(tensors, shape)
    if 1 < len(tensors) <= 4:
        for mixed in itertools.product(((4, 4), (4,), (2, 4, 4), ()), repeat=len(tensors)):
            if len(set(mixed)) > 1:
                yield dict(zip(tensors, mixed, strict=True))


def _varied(base: Call, slots: dict[str, Slot]) -> Iterator[Call]:
    for dtype in DTYPES:
        if dtype != base.dtype:
            yield base._replace(label=str(dtype).removeprefix("torch."), dtype=dtype)
    for layout in (STRIDED, OFFSET, EXPANDED):
        yield base._replace(label=layout, layout=layout)
    shapes = dict.fromkeys(base.shapes.values())
    if len(shapes) == 1:
        for shape in ((0, 3), *SHAPES):
            if shape not in shapes:
                label = f"size {'x'.join(map(str, shape)) or '0-d'}"
                yield base._replace(label=label, shapes=dict.fromkeys(base.shapes, shape))
        large = dict.fromkeys(base.shapes, (2, 3, 4, 5))
        yield base._replace(label=CHANNELS_LAST, shapes=large, layout=CHANNELS_LAST)
    for name, slot in slots.items():
        for number, value in enumerate(slot.values):
            if number != base.numbers[name]:
                numbers = {**base.numbers, name: number}
                yield base._replace(label=f"{name} {value}", numbers=numbers)
    if any(slot.optional for slot in slots.values()):
        yield base._replace(label="none", none=True)
    if any(slot.has_default for slot in slots.values()):
        yield base._replace(label="defaults", defaults=True)
    if any(slot.listed for slot in slots.values()):
        yield base._replace(label="one in a list", lone=True)


def _given(
    kernel: Callable[..., Any],
    device: torch.device,
    slots: dict[str, Slot],
    omitted: tuple[str, ...],
    sized: str,
    call: Call,
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for number, (name, slot) in enumerate(slots.items()):
        if name == sized or (call.defaults and slot.has_default):
            continue
        if call.none and slot.optional:
            given[name] = None
        elif not slot.role:
            given[name] = slot.values[call.numbers[name]]
        else:
            make = Make(device, call.shapes[name], call.dtype, call.layout)
            first = _made(make, call.roles[name], number)
            more = [] if call.lone else [_made(make, call.roles[name], number + len(slots))]
            given[name] = [first, *more] if slot.listed else first
    if sized:
        result = kernel(**given, **dict.fromkeys((*omitted, sized)))
        given[sized] = torch.zeros(result.shape, dtype=result.dtype, device=result.device)
        return {name: given[name] for name in slots if name in given}
    return given


def _made(make: Make, role: str, number: int) -> Tensor:
    shape = make.shape
    if role == "buffer":
        return make.buffer(shape)
    if role in ("indices", "mask"):
        count = torch.Size(shape).numel()
        index = torch.arange(count, device=make.device) % min((*shape, 4))
        return (index % 2 == 0).reshape(shape) if role == "mask" else index.reshape(shape)
    return make.writable(number) if role == "writable" else make(number)
{% endif %}
{% for module in cookiecutter.package.modules %}
{% for samples in module.samples %}


{{ samples.head | join("\n") }}
    """Calls of {{ samples.qualname }}."""
{{ samples.body | join("\n") }}
{% endfor %}
{% endfor %}


{{ cookiecutter.package.sample_table | join("\n") }}
