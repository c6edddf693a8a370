"""The C++ types of arguments and results, as the stable ABI of torch 2.13 carries them."""

from __future__ import annotations

from collections.abc import Sequence

from opscaffold.contract.model import OpContract, OptionalType, Return, base_name
from opscaffold.contract.printer import format_type
from opscaffold.contract.pytypes import strip_alias
from opscaffold.scaffold.arguments import Argument, Shape, arguments_of, returns_list

_TYPES = {
    "Tensor": "Tensor",
    "int": "int64_t",
    "SymInt": "int64_t",
    "float": "double",
    "bool": "bool",
    "str": "std::string",
    "ScalarType": "ops::ScalarType",
    "Device": "ops::Device",
}
# Numbers and enums go by value.
_BY_VALUE = frozenset({"int", "SymInt", "float", "bool", "ScalarType", "Device"})


def parameter_type(argument: Argument) -> str:
    """The type of a parameter that takes the argument."""
    plain, shape = _TYPES[argument.base], argument.shape
    if shape is Shape.PLAIN and argument.base in _BY_VALUE:
        return plain
    if shape is Shape.OPTIONAL and argument.base in _BY_VALUE:
        return f"std::optional<{plain}>"
    held = {
        Shape.PLAIN: plain,
        Shape.OPTIONAL: f"std::optional<{plain}>",
        Shape.LIST: f"std::vector<{plain}>",
        Shape.OPTIONAL_LIST: f"std::optional<std::vector<{plain}>>",
        Shape.GAPPED_LIST: f"std::vector<std::optional<{plain}>>",
    }[shape]
    return f"const {held}&"


def result_type(returns: Sequence[Return]) -> str:
    """The type of a function that returns them."""
    types = [
        "std::vector<Tensor>" if returns_list(returned) else _TYPES[base_name(returned.type)]
        for returned in returns
    ]
    if len(types) > 1:
        return f"std::tuple<{', '.join(types)}>"
    return types[0] if types else "void"


def uncarried(contract: OpContract) -> str | None:
    """What the stable ABI does not carry of a contract, and what would do; None if it does all."""
    for argument in arguments_of(contract):
        if argument.base not in _TYPES:
            told = format_type(strip_alias(argument.parameter.type))
            return f"{argument.name} is a {told}, which {_none_of(argument.base)}"
        if argument.is_tensor and argument.shape is Shape.OPTIONAL_LIST:
            return (
                f"{argument.name} is an optional list of Tensors, which is not tried; nearest: a "
                "list that may be empty"
            )
    for returned in contract.returns:
        type_ = strip_alias(returned.type)
        if base_name(type_) not in _TYPES or isinstance(type_, OptionalType):
            return f"it returns a {format_type(type_)}, which {_none_of(base_name(type_))}"
    return None


def _none_of(base: str) -> str:
    nearest = "float" if base == "Scalar" else "a Tensor, int, float, bool or str"
    return f"PyTorch's stable ABI for C++ does not carry; nearest: {nearest}"
