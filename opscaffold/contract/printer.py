"""Contracts to schema strings, in the spelling that ``torch._C.parse_schema`` takes."""

from __future__ import annotations

from opscaffold.contract.literals import write_default
from opscaffold.contract.model import (
    Alias,
    BaseType,
    Default,
    GenericType,
    ListType,
    OpContract,
    OptionalType,
    Parameter,
    Return,
    SchemaType,
)


def format_schema(contract: OpContract, *, qualified: bool = True) -> str:
    """Write a contract as a schema: ``ns::name.overload(Tensor x, *, int n=1) -> Tensor``.

    ``qualified=False`` leaves namespace, name and overload away: ``(Tensor x) -> Tensor``, the
    form that ``custom_op(schema=...)`` takes. Raises ValueError for a default that no schema can
    hold (inf, an int beyond 64 bits).
    """
    words: list[str] = []
    kw_only = False
    for parameter in contract.parameters:
        if parameter.kw_only and not kw_only:
            words.append("*")
            kw_only = True
        words.append(format_parameter(parameter))
    if contract.vararg:
        words.append("...")
    name = contract.qualname if qualified else ""
    return f"{name}({', '.join(words)}) -> {_returns(contract)}"


def format_parameter(parameter: Parameter) -> str:
    """Write one argument: ``Tensor(a!) x``, ``int n=1``."""
    default = "" if parameter.default is None else f"={format_default(parameter.default)}"
    return f"{format_type(parameter.type)} {parameter.name}{default}"


def format_default(default: Default) -> str:
    """Write a default as the schema holds it. Raises ValueError where it cannot be held."""
    return write_default(default.value)


def format_type(type_: SchemaType) -> str:
    """Write a type with its alias annotations."""
    if isinstance(type_, OptionalType):
        inner = format_type(type_.of)
        if type_.alias is not None:
            # PyTorch's parser takes an Optional's annotation on the element only.
            inner += format_alias(type_.alias)
        return f"{inner}?"
    if isinstance(type_, ListType):
        size = "" if type_.size is None else str(type_.size)
        return f"{format_type(type_.of)}[{size}]{_alias(type_.alias)}"
    if isinstance(type_, GenericType):
        items = ", ".join(format_type(item) for item in type_.args)
        name = "" if type_.name == "tuple" else type_.name
        return f"{name}({items}){_alias(type_.alias)}"
    return f"{type_.name}{_alias(type_.alias)}"


def format_alias(alias: Alias) -> str:
    """Write an alias annotation: ``(a!)``, ``(a -> *)``, ``!``."""
    if not alias.before:
        return "!" if alias.write else ""
    write = "!" if alias.write else ""
    after = f" -> {'|'.join(alias.after)}" if alias.after else ""
    return f"({'|'.join(alias.before)}{write}{after})"


def _alias(alias: Alias | None) -> str:
    return "" if alias is None else format_alias(alias)


def _returns(contract: OpContract) -> str:
    words = [_return(r) for r in contract.returns]
    if contract.varret:
        words.append("...")
    if len(words) == 1 and not _is_tuple(contract):
        return words[0]
    return f"({', '.join(words)})"


def _return(value: Return) -> str:
    return format_type(value.type) + (f" {value.name}" if value.name else "")


def _is_tuple(contract: OpContract) -> bool:
    """A lone return that starts with a parenthesis needs a pair around it."""
    type_: SchemaType = contract.returns[0].type if contract.returns else BaseType("")
    while not isinstance(type_, BaseType):
        type_ = type_.of
    return isinstance(type_, GenericType) and type_.name == "tuple"
