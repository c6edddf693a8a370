"""Tries one call, and tells whether the op takes it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opscaffold.verify.checks.base import SEED
from opscaffold.verify.op import Op, author_of
from opscaffold.verify.sample import Sample, tensors_in
from opscaffold.verify.samples.watch import Seen, Watch

SECONDS = 0.7
"""What one call may take in the kernel."""


@dataclass(frozen=True)
class Outcome:
    """What came of a call.

    ``accepted`` is also said of a call that fails after the kernel is done: then the op breaks
    its contract, which is no refusal (FACTS section 2, "Call time").
    """

    accepted: bool
    error: BaseException | None
    seen: Seen
    left: Sample
    """The arguments as the call left them."""
    resized: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Arguments whose shape the call changed, with the new one."""
    ill_sized: bool = False
    """Whether PyTorch resized a buffer, and warned that it was of the wrong size."""


def kernels_of(op: Op) -> tuple[Callable[..., Any], ...]:
    """Every Python function that may do an op's work."""
    definition = op.definition
    found = [] if op.kernel is None else [op.kernel]
    if definition is not None:
        found += map(author_of, [definition._init_fn, *definition._backend_fns.values()])
    unique: dict[int, Callable[..., Any]] = {id(fn): fn for fn in found}
    return tuple(unique.values())


def attempt(op: Op, sample: Sample, watch: Watch, seconds: float = SECONDS) -> Outcome:
    """Call an op on a copy of a sample."""
    try:
        mine = sample.fresh()
    except RuntimeError as broken:
        # Not every tensor can be copied as it is: a recorded one may be broken.
        return Outcome(False, broken, Seen(), sample)
    torch.manual_seed(SEED)
    before = {name: _shapes(value) for name, value in op.arguments(mine).items()}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _, error, seen = watch.run(lambda: op(mine), seconds)
    ill_sized = any("was resized since it had shape" in str(each.message) for each in told)
    after = {name: _shapes(value) for name, value in op.arguments(mine).items()}
    resized = tuple(
        (name, new[0])
        for name, new in after.items()
        if new != before[name] and len(new) == 1 and len(before[name]) == 1
    )
    accepted = error is None or (
        isinstance(error, Exception) and seen.entered and not watch.raised_in_kernel(error)
    )
    return Outcome(accepted, error, seen, mine, resized, ill_sized)


def _shapes(value: Any) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for tensor in tensors_in(value)]


_SIZES = re.compile(r"[\[(]\s*((?:\d+\s*,?\s*)*)[\])]")
_WORDS = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Long": torch.int64,
    "Int": torch.int32,
    "Bool": torch.bool,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Byte": torch.uint8,
}


def shapes_named(error: BaseException) -> list[tuple[int, ...]]:
    """The shapes that the text of an error names: it often tells which one is asked for."""
    found: list[tuple[int, ...]] = []
    for text in _SIZES.findall(str(error)):
        sizes = [int(part) for part in text.replace(",", " ").split()]
        shape = tuple(sizes)
        if len(shape) <= 6 and all(size <= 64 for size in shape) and shape not in found:
            found.append(shape)
    return found[-4:]


def dtypes_named(error: BaseException) -> list[torch.dtype]:
    """The dtypes that the text of an error names."""
    text = str(error)
    found = [dtype for word, dtype in _WORDS.items() if re.search(rf"\b{word}\b", text)]
    for word in re.findall(r"torch\.(\w+)", text) + re.findall(r"\b[a-z]+\d+\b", text):
        dtype = getattr(torch, word, None)
        if isinstance(dtype, torch.dtype):
            found.append(dtype)
    return list(dict.fromkeys(found))


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor holds numbers of its own: no fake, functional or meta tensor."""
    plain = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.device.type != "meta"
    return plain and not torch._is_functional_tensor(tensor)
