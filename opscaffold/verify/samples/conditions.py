"""Tells how a test of a kernel comes out, from the names in its frame, without running its code.

Only what cannot do anything is evaluated: names, constants, arithmetic, and the metadata of
tensors. The rest is not known.
"""

from __future__ import annotations

import ast
import contextlib
import operator
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

_ATTRIBUTES = {
    *("shape", "dtype", "ndim", "device", "is_cuda", "requires_grad", "layout", "is_sparse"),
    *("is_complex", "type", "index", "is_floating_point"),
}
_METHODS = {
    *("dim", "size", "numel", "is_contiguous", "stride", "element_size", "storage_offset"),
    *("is_floating_point", "is_complex", "nelement", "ndimension", "data_ptr", "is_conj"),
    *("startswith", "endswith", "lower", "upper"),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "min": min,
    "max": max,
    "abs": abs,
    "bool": bool,
    "isinstance": isinstance,
    "tuple": tuple,
    "list": list,
}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, tuple, list)


class _UnknownError(Exception):
    pass


def outcome(test: ast.expr, local: Mapping[str, Any], space: Mapping[str, Any]) -> str:
    """``<``, ``==`` or ``>`` for a comparison of two numbers, else True or False; "" if unknown."""
    names = _Names(local, space)
    try:
        if isinstance(test, ast.Compare):
            left, right = names.value(test.left), names.value(test.comparators[0])
            if _is_number(left) and _is_number(right):
                return "<" if left < right else "==" if left == right else ">"
        return str(_truth(names.value(test)))
    except Exception:  # noqa: BLE001 -- what cannot be told is not told
        return ""


def holds(test: ast.expr, local: Mapping[str, Any], space: Mapping[str, Any]) -> str:
    """True or False, or "" where it is not known."""
    try:
        return str(_truth(_Names(local, space).value(test)))
    except Exception:  # noqa: BLE001 -- what cannot be told is not told
        return ""


Want = tuple[str, str, int, Any]
"""A tensor's name, what of it was compared ("shape", "dtype", "rank", "size"), of which dimension,
and with what."""


def wants(test: ast.expr, local: Mapping[str, Any], space: Mapping[str, Any]) -> list[Want]:
    """What a comparison would have a named tensor's metadata be."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
        return []
    found: list[Want] = []
    sides = (test.left, test.comparators[0])
    names = _Names(local, space)
    for own, other in (sides, sides[::-1]):
        with contextlib.suppress(Exception):
            # What cannot be told is not told.
            told = _metadata(own, names)
            if told is not None:
                found.append((*told, names.value(other)))
    return found


def _metadata(node: ast.expr, names: _Names) -> tuple[str, str, int] | None:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        what = {"shape": "shape", "dtype": "dtype", "ndim": "rank"}.get(node.attr)
        return (node.value.id, what, 0) if what else None
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        told = _metadata(node.value, names)
        if told is not None and told[1] == "shape":
            return told[0], "size", int(names.value(node.slice))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Name):
            if node.func.attr in ("dim", "ndimension"):
                return owner.id, "rank", 0
            if node.func.attr == "size":
                if not node.args:
                    return owner.id, "shape", 0
                return owner.id, "size", int(names.value(node.args[0]))
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _truth(value: object) -> bool:
    if not isinstance(value, _PLAIN):
        raise _UnknownError
    return bool(value)


class _Names:
    def __init__(self, local: Mapping[str, Any], space: Mapping[str, Any]) -> None:
        self._local = local
        self._space = space

    def value(self, node: ast.expr) -> Any:
        """The value of an expression. Raises _UnknownError, and what the operators raise."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.value(each) for each in node.elts)
        if isinstance(node, ast.Set):
            return {self.value(each) for each in node.elts}
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._item(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        return self._operation(node)

    def _name(self, name: str) -> Any:
        if name in self._local:
            return self._local[name]
        if name in self._space:
            return self._space[name]
        if name in _FUNCTIONS:
            return _FUNCTIONS[name]
        raise _UnknownError

    def _attribute(self, node: ast.Attribute) -> Any:
        owner = self.value(node.value)
        if isinstance(owner, ModuleType):
            return getattr(owner, node.attr)
        if isinstance(owner, (Tensor, torch.dtype, torch.device)) and node.attr in _ATTRIBUTES:
            return getattr(owner, node.attr)
        raise _UnknownError

    def _item(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        if not isinstance(owner, (tuple, list, str)):
            raise _UnknownError
        if isinstance(node.slice, ast.Slice):
            ends = [
                None if end is None else self.value(end)
                for end in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return owner[slice(*ends)]
        return owner[self.value(node.slice)]

    def _call(self, node: ast.Call) -> Any:
        if node.keywords:
            raise _UnknownError
        given = [self.value(each) for each in node.args]
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            if isinstance(owner, (Tensor, str)) and node.func.attr in _METHODS:
                return getattr(owner, node.func.attr)(*given)
        elif isinstance(node.func, ast.Name):
            function = self._name(node.func.id)
            if function in _FUNCTIONS.values() and not any(
                isinstance(each, Tensor) for each in given[: 0 if function is isinstance else None]
            ):
                return function(*given)
            if function is len:
                return len(*given)
        raise _UnknownError

    def _operation(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Compare):
            left = self.value(node.left)
            for how, side in zip(node.ops, node.comparators, strict=True):
                right = self.value(side)
                identity = isinstance(how, (ast.Is, ast.IsNot))
                if not identity and any(isinstance(v, Tensor) for v in (left, right)):
                    raise _UnknownError
                if not _COMPARE[type(how)](left, right):
                    return False
                left = right
            return True
        if isinstance(node, ast.BoolOp):
            value: Any = None
            stops = isinstance(node.op, ast.Or)
            for each in node.values:
                value = self.value(each)
                if _truth(value) is stops:
                    break
            return value
        if isinstance(node, ast.UnaryOp):
            value = self.value(node.operand)
            if isinstance(node.op, ast.Not):
                return not _truth(value)
            if isinstance(node.op, ast.USub) and _is_number(value):
                return -value
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            left, right = self.value(node.left), self.value(node.right)
            if _is_number(left) and _is_number(right):
                return _BINARY[type(node.op)](left, right)
        raise _UnknownError
