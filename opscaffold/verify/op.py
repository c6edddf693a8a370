"""One registered op as it stands in the dispatcher, with what is known of its source."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch._library import custom_ops

from opscaffold.contract.model import Kind, OpContract, Parameter
from opscaffold.findings.model import Position
from opscaffold.verify.sample import Sample
from opscaffold.verify.schema import contract_of

_TORCH = Path(torch.__file__).parent
_MOST_WRAPPED = 8


@dataclass(frozen=True)
class Op:
    """An op that can be called. Raises SchemaError where its schema cannot be read."""

    overload: Any
    """The ``torch._ops.OpOverload``; calling it calls the op."""
    position: Position
    """Where it is defined, or where it was registered if its kernel is out of sight."""
    kernel: Callable[..., Any] | None = None
    """The Python function that does the work, None where there is none."""
    contract: OpContract = field(init=False)

    def __post_init__(self) -> None:
        """Read the schema."""
        object.__setattr__(self, "contract", contract_of(self.overload))

    @property
    def qualname(self) -> str:
        """``ns::name``, with ``.overload`` where it is one."""
        return self.contract.qualname

    @property
    def kind(self) -> Kind:
        """The kind that is declared."""
        return self.contract.kind

    @property
    def definition(self) -> custom_ops.CustomOpDef | None:
        """The CustomOpDef, for an op that ``torch.library.custom_op`` made."""
        return custom_ops.OPDEFS.get(self.qualname)

    @property
    def written(self) -> tuple[Parameter, ...]:
        """The parameters that the schema declares as mutated."""
        return tuple(p for p in self.contract.parameters if p.mutated)

    @property
    def has_autograd(self) -> bool:
        """Whether an autograd formula is registered."""
        if self.definition is not None:
            return getattr(self.definition, "_backward_fn", None) is not None
        keys = ("Autograd", "AutogradCPU", "AutogradCUDA")
        return any(
            torch._C._dispatch_has_kernel_for_dispatch_key(self._dispatch_name, key) for key in keys
        )

    def has_kernel(self, key: str) -> bool:
        """Whether a kernel is registered for a dispatch key."""
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(self._dispatch_name, key))

    @property
    def _dispatch_name(self) -> str:
        name: str = self.overload._schema.name
        overload: str = self.overload._schema.overload_name
        return f"{name}.{overload}" if overload else name

    def __call__(self, sample: Sample) -> Any:
        """Call it on the very tensors of a sample: pass ``sample.fresh()``."""
        mode: Any = torch.inference_mode()
        if not sample.inference:
            mode = torch.set_grad_enabled(sample.grad_mode)
        with mode:
            return self.overload(*sample.args, **sample.kwargs)

    def arguments(self, sample: Sample) -> dict[str, Any]:
        """What a sample passes for each parameter by name; those left to their default are out."""
        positional = [p.name for p in self.contract.parameters if not p.kw_only]
        return {**dict(zip(positional, sample.args, strict=False)), **sample.kwargs}

    def with_arguments(self, sample: Sample, given: Mapping[str, Any], label: str) -> Sample:
        """A sample that passes ``given`` by name, positional where the schema has it so.

        What follows a gap is passed by keyword.
        """
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        gap = False
        for parameter in self.contract.parameters:
            if parameter.name not in given:
                gap = True
            elif parameter.kw_only or gap:
                kwargs[parameter.name] = given[parameter.name]
            else:
                args.append(given[parameter.name])
        return replace(sample, args=tuple(args), kwargs=kwargs, label=label)


def results(value: Any) -> list[Any]:
    """What a call returned, as one item a return of the schema."""
    if value is None:
        return []
    return list(value) if isinstance(value, tuple) else [value]


def author_of(function: Any) -> Any:
    """The function that an author wrote, where torch wraps it, and more than once."""
    for _ in range(_MOST_WRAPPED):
        code = getattr(function, "__code__", None)
        if code is None or not Path(code.co_filename).is_relative_to(_TORCH):
            break
        inner = inspect.getclosurevars(function).nonlocals.get("fn")
        if not callable(inner):
            break
        function = inner
    return function


def place_of(function: Any, otherwise: Position) -> Position:
    """Where a function is defined: the line of its ``def``, without decorators where known."""
    plain = inspect.unwrap(function) if callable(function) else function
    code = getattr(plain, "__code__", None)
    if code is None:
        return otherwise
    return Position(Path(code.co_filename), code.co_firstlineno)


def in_order(ops: Iterable[Op]) -> list[Op]:
    """The ops by file, line and name."""
    return sorted(ops, key=lambda op: (str(op.position.path), op.position.line, op.qualname))
