"""Default values in Python source to values of the schema language, without running the code."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

from opscaffold.contract.annotations import Resolver, dotted_name
from opscaffold.contract.model import Default, DefaultValue, Symbol
from opscaffold.contract.schema_types import DTYPE_SYMBOLS
from opscaffold.records import dataclass

Evaluator = Callable[[ast.expr], "Default | None"]


@dataclass(eq=False)
class DefaultRefusedError(Exception):
    """A default that infer_schema refuses, or (``known`` False) whose value cannot be told."""

    node: ast.expr
    reason: str
    remedy: str
    known: bool = True


# Second names of dtypes; PyTorch writes the first.
DTYPE_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
_CONSTANTS: dict[str, float] = {
    f"{module}.{name}": value
    for module in ("math", "torch", "numpy", "np")
    for name, value in (("inf", math.inf), ("nan", math.nan), ("pi", math.pi), ("e", math.e))
}
_CONSTANTS["math.tau"] = math.tau

_Number = int | float
_BINARY: dict[type[ast.operator], Callable[[_Number, _Number], _Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_BITS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
# No default needs more, and a chain of powers must not hang the reader.
_MAX_SHIFT = 1100
_MAX_BITS = 1 << 13

_LISTS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.GeneratorExp, ast.Lambda)


@dataclass(frozen=True, slots=True)
class DefaultReader:
    """Reads default expressions: literals, arithmetic, inf, dtypes, ``torch.device("cpu")``.

    ``resolver`` tells the origin of a name; ``evaluate`` is asked for what is left, such as a
    constant of the module.
    """

    resolver: Resolver | None = None
    evaluate: Evaluator | None = None

    def read(self, node: ast.expr) -> Default:
        """The default's value. Raises DefaultRefusedError."""
        if isinstance(node, _LISTS) or (
            isinstance(node, ast.Constant) and isinstance(node.value, bytes | complex)
        ):
            raise DefaultRefusedError(
                node,
                "infer_schema reads no list, tuple, complex number or function as a default",
                "make the argument Optional with the default None, and fill it in the kernel",
            )
        try:
            return Default(self._value(node))
        except _Unknown:
            pass
        except (ArithmeticError, ValueError):
            raise DefaultRefusedError(
                node, "this default cannot be computed", "write a number"
            ) from None
        found = self.evaluate(node) if self.evaluate is not None else None
        if found is not None:
            return found
        raise DefaultRefusedError(
            node,
            f"the value of {ast.unparse(node)} is not known without running the code",
            "write the value as a literal",
            known=False,
        )

    def _value(self, node: ast.expr) -> DefaultValue:
        if isinstance(node, ast.Constant):
            if node.value is None or isinstance(node.value, str | bool | int | float):
                return node.value
            raise _Unknown
        if isinstance(node, ast.Name | ast.Attribute):
            return self._named(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        return self._number(node)

    def _named(self, node: ast.expr) -> DefaultValue:
        origin = self._origin(node)
        if origin in _CONSTANTS:
            return _CONSTANTS[origin]
        module, _, name = origin.rpartition(".")
        if module in ("torch", "th") and name in DTYPE_SYMBOLS:
            return Symbol(DTYPE_ALIASES.get(name, name))
        raise _Unknown

    def _origin(self, node: ast.expr) -> str:
        dotted = self.resolver(node) if self.resolver is not None else None
        return dotted or dotted_name(node) or ""

    def _call(self, node: ast.Call) -> DefaultValue:
        origin = self._origin(node.func)
        arguments = [*node.args, *(k.value for k in node.keywords if k.arg in ("type", "index"))]
        if len(arguments) != len(node.args) + len(node.keywords):
            raise _Unknown
        values = [self._value(a) for a in arguments]
        if origin in ("torch.device", "th.device", "device"):
            return _device(values)
        if origin in ("float", "int", "bool", "str") and len(values) == 1 and not node.keywords:
            return _converted(origin, values[0])
        raise _Unknown

    def _number(self, node: ast.expr) -> int | float:
        if isinstance(node, ast.UnaryOp):
            value = self._operand(node.operand)
            if isinstance(node.op, ast.Not):
                return not value
            if isinstance(node.op, ast.USub):
                return -value
            if isinstance(node.op, ast.UAdd):
                return +value
            if isinstance(value, int):
                return ~int(value)
        if isinstance(node, ast.BinOp):
            left, right = self._operand(node.left), self._operand(node.right)
            return _bounded(_binary(node.op, left, right))
        raise _Unknown

    def _operand(self, node: ast.expr) -> int | float:
        value = self._value(node)
        if isinstance(value, int | float):
            return value
        raise _Unknown


class _Unknown(Exception):  # noqa: N818
    """Only running the code would tell."""


def _binary(op: ast.operator, left: float, right: float) -> int | float:
    if type(op) in _BINARY:
        return _BINARY[type(op)](left, right)
    if isinstance(op, ast.Pow) and abs(right) <= _MAX_SHIFT and abs(left) < 2**64:
        power = left**right
        if isinstance(power, int | float):
            return power
    if type(op) in _BITS and isinstance(left, int) and isinstance(right, int):
        if abs(right) > _MAX_SHIFT and isinstance(op, ast.LShift | ast.RShift):
            raise _Unknown
        return _BITS[type(op)](left, right)
    raise _Unknown


def _bounded(value: float) -> int | float:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise _Unknown
    return value


def _device(values: list[DefaultValue]) -> str:
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    if len(values) == 2 and isinstance(values[0], str) and type(values[1]) is int:
        return f"{values[0]}:{values[1]}"
    raise _Unknown


def _converted(name: str, value: DefaultValue) -> DefaultValue:
    if not isinstance(value, str | int | float):
        raise _Unknown
    if name == "str":
        return str(value)
    if name == "bool":
        return bool(value)
    if name == "float":
        return float(value)
    return int(value)
