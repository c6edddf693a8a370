"""What may be passed for each argument of an op, the likely first."""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Iterator
from typing import Any

import torch

from opscaffold.contract.model import (
    BaseType,
    Kind,
    ListType,
    OptionalType,
    Parameter,
    base_name,
)
from opscaffold.verify.op import Op
from opscaffold.verify.samples.points import LEADS, Given, Omitted, Point, Several
from opscaffold.verify.samples.reading import Clues
from opscaffold.verify.samples.recipes import NewGenerator, Shape

_TEXTS = ("mean", "sum", "none", "sample", "")


def is_list(parameter: Parameter) -> bool:
    """Whether a parameter is a list, under any Optional."""
    type_ = parameter.type
    return isinstance(type_.of if isinstance(type_, OptionalType) else type_, ListType)


def is_optional(parameter: Parameter) -> bool:
    """Whether None can be passed."""
    return isinstance(parameter.type, OptionalType)


class Choices:
    """The values to choose from for the arguments of one op."""

    def __init__(self, op: Op, clues: Clues) -> None:
        self.op = op
        self.clues = clues
        self.parameters = {p.name: p for p in op.contract.parameters}
        self._numbers = {name: number for number, name in enumerate(self.parameters)}
        self._integers: dict[str, int] = {}
        for p in self.parameters.values():
            if base_name(p.type) in ("int", "SymInt") and not is_list(p):
                self._integers[p.name] = 2 + len(self._integers)

    def start(self, lead: Shape = LEADS[0]) -> Point:
        """The call to begin with: tensors alike, defaults and None left out."""
        return Point(
            lead,
            tuple((name, self._first(parameter)) for name, parameter in self.parameters.items()),
        )

    def leads(self) -> list[Shape]:
        """Leading shapes, those of a rank that the kernel looks for first."""
        wanted = [lead for lead in _LEADS if len(lead) in self.clues.ranks]
        return list(dict.fromkeys([*wanted, *LEADS]))

    def tensor(self, parameter: Parameter, relation: str = "same") -> Given:
        """The tensor to pass for a parameter."""
        name = parameter.name
        given = Given(relation, torch.float32, self._numbers[name])
        if parameter.mutated:
            return given
        if name in self.clues.indices:
            return Given("first", torch.int64, given.number, index=True)
        if name in self.clues.masks:
            return Given(relation, torch.bool, given.number)
        return given

    def others(self, parameter: Parameter, point: Point) -> Iterator[Any]:
        """What else may be passed where it is a tensor or not, None and nothing included."""
        now = point.get(parameter.name)
        seen = [now]
        for value in self._values(parameter, point):
            if not any(type(value) is type(old) and value == old for old in seen):
                seen.append(value)
                yield value

    def _first(self, parameter: Parameter) -> Any:
        if parameter.default is not None:
            return Omitted()
        if is_optional(parameter):
            return None
        return self._plain(parameter)

    def _plain(self, parameter: Parameter) -> Any:
        return next(iter(self._given(parameter, LEADS[0])), Omitted())

    def _values(self, parameter: Parameter, point: Point) -> Iterator[Any]:
        if parameter.is_tensor_like:
            yield from self._tensors(parameter)
        else:
            yield from self._given(parameter, point.lead)
        if is_optional(parameter):
            yield None
        if parameter.default is not None:
            yield Omitted()

    def _tensors(self, parameter: Parameter) -> Iterator[Any]:
        given = self.tensor(parameter)
        if not is_list(parameter):
            yield given
            return
        other = Given(given.relation, given.dtype, given.number + len(self.parameters))
        yield Several((given, other))
        yield Several((given,))
        yield Several((given, other, given))
        yield Several(())
        if _has_gaps(parameter):
            yield Several((given, None))

    def _given(self, parameter: Parameter, lead: Shape) -> Iterator[Any]:
        if parameter.is_tensor_like:
            yield from self._tensors(parameter)
            return
        singles = list(dict.fromkeys(_typed(v) for v in self._singles(parameter, lead)))
        values = [value for _, value in singles]
        if not is_list(parameter):
            yield from values
            return
        yield from self._lists(parameter, values, lead)

    def _lists(self, parameter: Parameter, values: list[Any], lead: Shape) -> Iterator[Any]:
        size = parameter.type.size if isinstance(parameter.type, ListType) else None
        for value in values[:4]:
            yield (value,) * (size or 2)
        yield tuple(values[: size or 2])
        if size is not None:
            return
        if base_name(parameter.type) in ("int", "SymInt"):
            yield lead
            yield (-1,)
            yield (0, 1)
            yield tuple(reversed(lead))
            yield tuple(range(len(lead)))
        yield tuple(values[:1])
        yield ()

    def _singles(self, parameter: Parameter, lead: Shape) -> Iterator[Any]:
        kind = base_name(parameter.type)
        default = parameter.default.value if parameter.default is not None else None
        if kind in ("int", "SymInt"):
            yield self._integers.get(parameter.name, 2)
            yield from (1, 2, 3, 4)
            for size in dict.fromkeys(lead):
                yield from (size, size - 1, size + 1)
            for number in self.clues.integers:
                yield from (number, number + 1, number - 1)
            yield from (0, -1)
        elif kind == "float":
            yield from (1.5 if default != 1.5 else 2.5, 1.0, 0.0, -1.0, 0.5)
            for told in self.clues.floats:
                yield from (told, told + 1.0, told - 1.0)
        elif kind == "Scalar":
            yield from (2.25 if default != 2.25 else 2.75, 2, 1, 0, -1, 1.0, 0.0)
            yield from self.clues.floats
        elif kind == "bool":
            yield from (not default, bool(default))
        elif kind == "complex":
            yield 1.5 + 2j
        else:
            yield from self._named(parameter, kind)

    def _named(self, parameter: Parameter, kind: str) -> Iterator[Any]:
        if kind == "str":
            yield from dict.fromkeys([*self.clues.texts, *_TEXTS])
        elif kind == "ScalarType":
            yield from (torch.float64, torch.float32)
            yield from self.clues.dtypes
            yield from (torch.bfloat16, torch.int64)
        elif kind == "Device":
            yield torch.device("cpu")
        elif kind == "Layout":
            yield torch.strided
        elif kind == "MemoryFormat":
            yield from (torch.contiguous_format, torch.preserve_format)
        elif kind == "Generator":
            yield NewGenerator()
        else:
            yield from _members(self.op, parameter.name)


_LEADS: tuple[Shape, ...] = (*LEADS, (2, 2, 4, 3, 2), (2, 2, 2, 4, 3, 2))


def _typed(value: Any) -> tuple[str, Any]:
    # 1, 1.0 and True are one key otherwise.
    return type(value).__name__, value


def _has_gaps(parameter: Parameter) -> bool:
    type_ = parameter.type
    inner = type_.of if isinstance(type_, OptionalType) else type_
    return isinstance(inner, ListType) and not isinstance(inner.of, BaseType)


def _members(op: Op, name: str) -> list[Any]:
    """The members of an enumeration, or a generator, that the kernel's annotation names."""
    if op.kernel is None:
        return []
    plain = inspect.unwrap(op.kernel)
    try:
        type_ = typing.get_type_hints(plain).get(name)
    except Exception:  # noqa: BLE001 -- annotations hold any code
        return []
    for each in (type_, *typing.get_args(type_)):
        if each is torch.Generator:
            return [NewGenerator()]
        if isinstance(each, type) and issubclass(each, enum.Enum):
            return list(each)
    return []


def buffers_of(op: Op) -> list[Parameter]:
    """The arguments of an out= op that it only writes."""
    return [p for p in op.written if op.kind is Kind.OUT]
