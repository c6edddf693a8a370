"""One call of an op, and how to make it anew without a trace of an earlier run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sample:
    """Arguments of one call, in the order of the schema.

    Never call an op on them: call it on those of ``fresh()``. ``label`` is unique for an op.
    ``origin`` says where it comes from, for reports: a file, a function, "synthesised". ``varied``
    names the variation by which it came about; empty for a sample as it was given.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    label: str
    origin: str = ""
    varied: str = ""
    grad_mode: bool = False
    """Whether the call is made with grad mode on; tensors that require grad need it."""
    inference: bool = False
    """Whether the call is made in inference mode."""

    def fresh(self) -> Sample:
        """The same call on new memory, laid out alike and shared alike."""
        copy = Copies()
        return replace(
            self,
            args=tuple(copy.of(value) for value in self.args),
            kwargs={name: copy.of(value) for name, value in self.kwargs.items()},
        )

    def described(self) -> str:
        """The call in one line, as a reader would write it."""
        given = [describe(value) for value in self.args]
        given += [f"{name}={describe(value)}" for name, value in self.kwargs.items()]
        return f"({', '.join(given)})"


class Copies:
    """Copies values; tensors that share a storage share one afterwards too."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._tensors: dict[int, Tensor] = {}

    def of(self, value: Any) -> Any:
        """A copy of a value, whatever lists and tuples its tensors stand in."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self.of(item) for item in value)
        if isinstance(value, torch.Generator):
            return value.clone_state()
        return value

    def _tensor(self, tensor: Tensor) -> Tensor:
        known = self._tensors.get(id(tensor))
        if known is not None:
            return known
        copy = self._copied(tensor)
        self._tensors[id(tensor)] = copy
        return copy

    def _copied(self, tensor: Tensor) -> Tensor:
        if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        old = tensor.untyped_storage()
        key = old.data_ptr() or id(old)
        if key not in self._storages:
            self._storages[key] = old.clone()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            copy.set_(
                self._storages[key],
                tensor.storage_offset(),
                tensor.size(),
                tensor.stride(),
            )
        if tensor.is_conj():
            copy = torch._conj(copy)
        if tensor.is_neg():
            copy = torch._neg_view(copy)
        return copy.requires_grad_(tensor.requires_grad)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in a value, whatever lists, tuples and dicts it stands in."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def describe(value: Any) -> str:
    """A value in a few words: of a tensor dtype, shape and what is unusual about its layout."""
    if isinstance(value, Tensor):
        name = str(value.dtype).removeprefix("torch.")
        words = [f"{name}{list(value.shape)}"]
        if value.layout == torch.strided:
            if not value.is_contiguous():
                words.append(f"strides {list(value.stride())}")
            if value.storage_offset():
                words.append(f"offset {value.storage_offset()}")
        if value.device.type != "cpu":
            words.append(str(value.device))
        if value.requires_grad:
            words.append("requires grad")
        return " ".join(words)
    if isinstance(value, (list, tuple)):
        inner = ", ".join(describe(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)
