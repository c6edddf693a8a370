"""The defaults of a schema: which literal each type takes, read and written."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from opscaffold.contract.lexer import SchemaError, Token, TokenKind, tokenize
from opscaffold.contract.model import (
    BaseType,
    DefaultValue,
    GenericType,
    ListType,
    OptionalType,
    SchemaType,
    Symbol,
)
from opscaffold.contract.schema_types import (
    COMMON_SYMBOLS,
    DEVICE,
    DEVICE_TYPES,
    DTYPE_SYMBOLS,
    FLOAT_MIN_NORMAL,
    INT_LIKE,
    INT_MAX,
    INT_MIN,
    LIST_DEFAULT_ELEMENTS,
    NONE_DEFAULT_TYPES,
    SCALAR_DEFAULT_TYPES,
)
from opscaffold.patterns import pattern

_CONSTANTS: dict[str, DefaultValue] = {"None": None, "True": True, "False": False}
_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "v": "\v",
    "t": "\t",
    "'": "'",
    '"': '"',
    "\\": "\\",
    "\n": "\n",
}
_ESCAPE = pattern(r"\\(?:([0-3][0-7]{2})|(.))", re.DOTALL)
_WRITTEN = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def parse_default(
    text: str, tokens: Sequence[Token], type_: SchemaType
) -> tuple[DefaultValue, int]:
    """Read the default of a parameter of ``type_`` from ``tokens``, which end in END.

    Returns the value and how many tokens it took. Raises SchemaError as PyTorch would refuse it.
    """
    reader = _Reader(text, tokens)
    return reader.value(type_), reader.at


def check_default(value: DefaultValue, type_: SchemaType) -> str | None:
    """Why PyTorch would refuse ``value`` as the default of a ``type_``, or None."""
    try:
        if type_ == BaseType("float") and type(value) is int:
            # PyTorch reads the digits as a float there, however many they are.
            value = float(value)
        written = write_default(value)
    except (ValueError, OverflowError) as error:
        return str(error)
    try:
        tokens = tokenize(written)
        _, used = parse_default(written, tokens, type_)
    except SchemaError as error:
        return error.reason
    if tokens[used].kind is not TokenKind.END:
        return f"{written} is no default of the schema language"
    return None


def write_default(value: DefaultValue) -> str:
    """Write a default the way PyTorch's parser takes it.

    Raises ValueError for a value that no schema can hold: inf, nan, an int beyond 64 bits, a
    subnormal float, a complex number with a real part, a list in a list.
    """
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, str):
        return '"' + "".join(_write_character(c) for c in value) + '"'
    if isinstance(value, tuple):
        if any(isinstance(item, tuple) for item in value):
            raise ValueError("a schema cannot hold a list of lists as a default")
        return "[" + ", ".join(write_default(item) for item in value) + "]"
    return _write_number(value)


def _write_character(c: str) -> str:
    if c in _WRITTEN:
        return _WRITTEN[c]
    return f"\\{ord(c):03o}" if ord(c) < 0x20 or ord(c) == 0x7F else c


def _write_number(value: complex) -> str:
    if isinstance(value, int):
        if not INT_MIN <= value <= INT_MAX:
            raise ValueError(f"{value} does not fit in 64 bits")
        return str(value)
    if isinstance(value, float):
        _check_float(value)
        return repr(value)
    if value.real != 0 or math.copysign(1.0, value.real) < 0:
        raise ValueError(f"a schema cannot hold the complex number {value} as a default")
    _check_float(value.imag)
    return f"{value.imag!r}j"


def _check_float(value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{value} has no spelling in a schema")
    if 0 < abs(value) < FLOAT_MIN_NORMAL:
        raise ValueError(f"{value} is too small for PyTorch's schema parser")


class _Reader:
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self.at = 0

    @property
    def token(self) -> Token:
        return self._tokens[self.at]

    def fail(self, reason: str, token: Token | None = None) -> SchemaError:
        return SchemaError(reason, self._text, (token or self.token).start + 1)

    def value(self, type_: SchemaType) -> DefaultValue:
        if isinstance(type_, OptionalType):
            inner = type_.of
            name = inner.name if isinstance(inner, BaseType) else ""
            if self.token.text == "[":
                raise self.fail("An Optional list can only default to None")
            return self._constant(name if name == "ScalarType" else "")
        if isinstance(type_, ListType):
            return self._list_default(type_)
        if isinstance(type_, GenericType) or (
            type_.name not in SCALAR_DEFAULT_TYPES | NONE_DEFAULT_TYPES | {"Device"}
        ):
            raise self.fail("PyTorch takes no default for an argument of this type")
        if type_.name in NONE_DEFAULT_TYPES:
            self._only_none(type_.name)
            return None
        return self._checked(type_.name)

    def _only_none(self, name: str) -> None:
        if self.token.text != "None":
            raise self.fail(f"A {name} can only default to None, found {self.token.describe()}")
        self.at += 1

    def _checked(self, name: str) -> DefaultValue:
        token = self.token
        value = self._constant(name)
        if name == "Device":
            match = DEVICE.match(value) if isinstance(value, str) else None
            if match is None or match["type"] not in DEVICE_TYPES:
                raise self.fail('A Device defaults to a string such as "cpu" or "cuda:0"', token)
        if name == "complex" and (type(value) is int or token.text.startswith(".")):
            raise self.fail("A complex default needs digits and a point or a j: 1.0, 1j", token)
        return value

    def _list_default(self, type_: ListType) -> DefaultValue:
        element = type_.of
        if not isinstance(element, BaseType) or element.name not in LIST_DEFAULT_ELEMENTS:
            raise self.fail("PyTorch takes no default for a list of this type")
        if self.token.text != "[" or self.token.kind is not TokenKind.PUNCTUATION:
            if type_.size is None:
                raise self.fail(f"Expected a list such as [1, 2], found {self.token.describe()}")
            return self._element(element.name, symbols=False)
        self.at += 1
        items: list[DefaultValue] = []
        if not self._accept("]"):
            items.append(self._element(element.name, symbols=True))
            while self._accept(","):
                items.append(self._element(element.name, symbols=True))
            if not self._accept("]"):
                raise self.fail(f"Expected ']' or ',', found {self.token.describe()}")
        return tuple(items)

    def _accept(self, text: str) -> bool:
        found = self.token.kind is TokenKind.PUNCTUATION and self.token.text == text
        self.at += found
        return found

    def _element(self, name: str, *, symbols: bool) -> DefaultValue:
        token = self.token
        value = self._constant(name if name == "float" else "")
        if name in INT_LIKE:
            good = type(value) is int or (symbols and isinstance(value, Symbol))
        elif name == "float":
            good = type(value) in (int, float)
        elif name == "complex":
            good = type(value) in (float, complex)
        else:
            good = type(value) is bool
        if not good:
            raise self.fail(f"{token.describe()} cannot stand in a list of {name}", token)
        return value

    def _constant(self, type_name: str) -> DefaultValue:
        token = self.token
        self.at += token.kind is not TokenKind.END
        if token.kind is TokenKind.NAME:
            return self._word(token, type_name)
        if token.kind is TokenKind.STRING:
            return self._string(token)
        if token.kind is TokenKind.PUNCTUATION and token.text == "-":
            number = self.token
            if number.kind is not TokenKind.NUMBER:
                raise self.fail(f"Expected a number behind '-', found {number.describe()}")
            self.at += 1
            return self._number(number, type_name, negative=True)
        if token.kind is not TokenKind.NUMBER:
            raise self.fail(f"Expected a default value, found {token.describe()}", token)
        return self._number(token, type_name, negative=False)

    def _word(self, token: Token, type_name: str) -> DefaultValue:
        if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        known = COMMON_SYMBOLS | (DTYPE_SYMBOLS if type_name == "ScalarType" else frozenset())
        if token.text not in known:
            raise self.fail(f"{token.text!r} is no default that PyTorch knows here", token)
        return Symbol(token.text)

    def _number(self, token: Token, type_name: str, *, negative: bool) -> DefaultValue:
        sign = -1 if negative else 1
        digits = token.text
        if digits.isdigit():
            # A longer row of digits cannot fit, and Python refuses to convert the longest.
            value = sign * int(digits) if len(digits.lstrip("0")) <= 20 else INT_MAX + 1
            if INT_MIN <= value <= INT_MAX:
                return value
            if type_name != "float":
                raise self.fail("This number does not fit in 64 bits", token)
        number = sign * float(digits.rstrip("j"))
        tiny = 0 < abs(number) < FLOAT_MIN_NORMAL
        lost = number == 0 and any(c in "123456789" for c in re.split("[eE]", digits)[0])
        if math.isinf(number) or tiny or lost:
            raise self.fail("This number is outside the range of a float", token)
        return complex(0.0, number) if digits.endswith("j") else number

    def _string(self, token: Token) -> str:
        quotes = 3 if token.text[:3] in ('"""', "'''") and len(token.text) >= 6 else 1
        body = token.text[quotes:-quotes]

        def replaced(match: re.Match[str]) -> str:
            if match[1] is not None:
                return chr(int(match[1], 8))
            if match[2] not in _ESCAPES:
                at = token.start + quotes + match.start() + 1
                raise SchemaError(f"PyTorch knows no escape \\{match[2]}", self._text, at)
            return _ESCAPES[match[2]]

        return _ESCAPE.sub(replaced, body)
