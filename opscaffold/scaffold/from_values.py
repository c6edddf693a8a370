"""Values to try of arguments that are no tensors: what the function itself compares them with."""

from __future__ import annotations

import ast
import re

from opscaffold.contract.model import ListType, OptionalType, Parameter, base_name
from opscaffold.contract.pytypes import default_text, strip_alias
from opscaffold.scaffold.layout import quote

_MOST = 6
_AXIS = re.compile(r"(^|_)(dim|dims|axis|axes)(_|$)")
_SMALL = re.compile(r"(^|_)(eps|epsilon|tol|atol|rtol)(_|$)")


def values_of(function: ast.FunctionDef, parameter: Parameter) -> tuple[str, ...]:
    """Python expressions for an argument, the likeliest first. Empty for Tensors."""
    if parameter.is_tensor_like:
        return ()
    type_ = parameter.type
    optional = isinstance(type_, OptionalType)
    inner = type_.of if isinstance(type_, OptionalType) else type_
    is_list = isinstance(inner, ListType)
    base = base_name(type_)
    compared = () if is_list else _compared(function, parameter.name, base)
    found = [quote(v) if isinstance(v, str) else repr(v) for v in compared]
    if not found or base != "str":
        found += [v for v in _plain(parameter.name, base) if v not in found]
    default = parameter.default
    if default is not None:
        text = default_text(default, strip_alias(type_))
        if base == "str":
            found = [text, *(v for v in found if v != text)]
        elif text in found and len(found) > 1:
            # A default that is ignored is only seen where another value is given.
            found = [*(v for v in found if v != text), text]
    if is_list:
        found = [f"[{v}, {v}]" for v in found] + [f"[{v}]" for v in found[:1]]
        if _AXIS.search(parameter.name):
            found = ["[-1]", "[0]", *found]
    if optional:
        found.append("None")
    return tuple(dict.fromkeys(found))[:_MOST]


def _plain(name: str, base: str) -> list[str]:
    if _AXIS.search(name) and base in ("int", "SymInt"):
        return ["-1", "0", "1"]
    return {
        "int": ["2", "1", "0", "4"],
        "SymInt": ["2", "1", "0", "4"],
        "float": ["1e-05"] if _SMALL.search(name) else ["0.75", "2.0"],
        "Scalar": ["0.75", "2"],
        "bool": ["True", "False"],
        "str": ['"sample"'],
        "ScalarType": ["torch.float32", "torch.float64"],
        "Device": ["device"],
    }.get(base, [])


def _compared(function: ast.FunctionDef, name: str, base: str) -> list[object]:
    """The constants of its type that an argument is compared with, or looked up among."""
    wanted: dict[str, type[object]] = {"str": str, "int": int, "SymInt": int}
    kind = wanted.get(base)
    if kind is None:
        return []
    found: list[object] = []
    for node in ast.walk(function):
        parts: list[ast.AST] = []
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                if any(isinstance(s, ast.Name) and s.id == name for s in sides):
                    parts = [*sides]
            case ast.Match(subject=ast.Name(id=subject)) if subject == name:
                parts = [case.pattern for case in node.cases]
            case ast.Subscript(value=ast.Dict(keys=keys), slice=ast.Name(id=index)):
                if index == name:
                    parts = [k for k in keys if k is not None]
        for part in parts:
            constants = [n.value for n in ast.walk(part) if isinstance(n, ast.Constant)]
            found += [value for value in constants if type(value) is kind]
    return [v for v in dict.fromkeys(found) if not isinstance(v, str) or v.isprintable()]
