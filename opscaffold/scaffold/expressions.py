"""Small expressions of generated code."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from opscaffold.contract.model import Return
from opscaffold.scaffold.arguments import Argument, Shape
from opscaffold.scaffold.names import Names


def number_text(argument: Argument, name: str, names: Names) -> str:
    """A number made of an argument that is no tensor and is called ``name`` in code.

    None of the samples makes it 0, which would hide all else.
    """
    shape = argument.shape
    if argument.is_list:
        given = f"{name} or []" if shape is Shape.OPTIONAL_LIST else name
        return f"{names.sum}({given})"
    if argument.base == "str":
        return f'len({name} or "")' if shape is Shape.OPTIONAL else f"len({name})"
    text, none = {
        "bool": (f"1 + {name}", 0),
        "ScalarType": (f"{name}.itemsize", 0),
        "Device": (f"len({name}.type)", 0),
    }.get(argument.base, (name, 1))
    if shape is Shape.OPTIONAL:
        return f"({none} if {name} is None else {text})"
    return f"({text})" if argument.base == "bool" else text


def number_result(returned: Return, index: int, like: str) -> str:
    """What a return that is no tensor is: made of metadata alone, so that the fake can say it."""
    kind = getattr(returned.type, "name", "")
    if kind == "bool":
        return f"{like}.dim() > {index}" if like else "True"
    if kind in ("int", "SymInt"):
        return f"{like}.dim() + {index + 1}" if like else f"{index + 1}"
    return f"{like}.dim() + {index}.5" if like else f"{index}.5"


def weighted(weight: int, text: str) -> str:
    """``text``, or ``weight * text``."""
    return text if weight == 1 else f"{weight} * {text}"


def tuple_text(items: Sequence[str]) -> str:
    """A tuple of any length."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def words_of(expressions: Sequence[str]) -> list[str]:
    """The names that stand by themselves or before a dot in expressions."""
    return [
        node.id
        for text in expressions
        for node in ast.walk(ast.parse(text, mode="eval"))
        if isinstance(node, ast.Name)
    ]


def or_default(argument: Argument | None, default: str) -> str:
    """An argument's value, or ``default`` where there is none."""
    if argument is None:
        return default
    return f"{argument.name} or {default}" if argument.shape is Shape.OPTIONAL else argument.name
