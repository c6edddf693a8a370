"""What each argument is to the placeholder: a tensor, several of them, or a number."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from opscaffold.contract.model import (
    ListType,
    OpContract,
    OptionalType,
    Parameter,
    Return,
    base_name,
)
from opscaffold.contract.pytypes import annotation_text, default_text, strip_alias


class Shape(enum.Enum):
    """The form in which an argument arrives."""

    PLAIN = "plain"
    OPTIONAL = "optional"
    LIST = "list"
    OPTIONAL_LIST = "optional list"
    # A list whose elements may be None.
    GAPPED_LIST = "gapped list"


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter with what rendering asks of it."""

    parameter: Parameter

    @property
    def name(self) -> str:
        """Its name."""
        return self.parameter.name

    @property
    def base(self) -> str:
        """The element type: ``Tensor``, ``SymInt``..."""
        return base_name(self.parameter.type)

    @property
    def is_tensor(self) -> bool:
        """Whether it is a Tensor, an Optional or a list of them."""
        return self.parameter.is_tensor_like

    @property
    def is_plain_tensor(self) -> bool:
        """Whether it is one Tensor that is always given."""
        return self.is_tensor and self.shape is Shape.PLAIN

    @property
    def is_list(self) -> bool:
        """Whether it is a list, Optional or not."""
        return self.shape in (Shape.LIST, Shape.OPTIONAL_LIST, Shape.GAPPED_LIST)

    @property
    def shape(self) -> Shape:
        """Its form."""
        type_ = self.parameter.type
        optional = isinstance(type_, OptionalType)
        if isinstance(type_, OptionalType):
            type_ = type_.of
        if isinstance(type_, ListType):
            if isinstance(type_.of, OptionalType):
                return Shape.GAPPED_LIST
            return Shape.OPTIONAL_LIST if optional else Shape.LIST
        return Shape.OPTIONAL if optional else Shape.PLAIN

    @property
    def annotation(self) -> str:
        """Its annotation."""
        return annotation_text(strip_alias(self.parameter.type))

    @property
    def declaration(self) -> str:
        """``name: annotation``."""
        return f"{self.name}: {self.annotation}"

    @property
    def declaration_with_default(self) -> str:
        """``name: annotation = default``."""
        default = self.parameter.default
        if default is None:
            return self.declaration
        return f"{self.declaration} = {default_text(default, strip_alias(self.parameter.type))}"


def arguments_of(contract: OpContract) -> tuple[Argument, ...]:
    """The arguments of a contract, in order."""
    return tuple(Argument(p) for p in contract.parameters)


def signature(arguments: tuple[Argument, ...], *, defaults: bool = True) -> list[str]:
    """The parameters of a function as they are written, with the ``*``."""
    words: list[str] = []
    starred = False
    for argument in arguments:
        if argument.parameter.kw_only and not starred:
            words.append("*")
            starred = True
        words.append(argument.declaration_with_default if defaults else argument.declaration)
    return words


def passing(arguments: tuple[Argument, ...]) -> list[str]:
    """The arguments as a call hands them on under their own names."""
    return [f"{a.name}={a.name}" if a.parameter.kw_only else a.name for a in arguments]


def returns_tensor(returned: Return) -> bool:
    """Whether a return is a Tensor or a list of them."""
    return base_name(returned.type) == "Tensor"


def returns_list(returned: Return) -> bool:
    """Whether a return is a list of Tensors."""
    return isinstance(returned.type, ListType)


def spread(arguments: tuple[Argument, ...]) -> list[str]:
    """Every tensor argument as a variadic function of tensors takes it: ``x``, ``*ys``."""
    return [
        f"*({a.name} or [])"
        if a.shape is Shape.OPTIONAL_LIST
        else f"*{a.name}"
        if a.is_list
        else a.name
        for a in arguments
        if a.is_tensor
    ]
