"""Schema strings to contracts: PyTorch's schema grammar, as ``torch._C.parse_schema`` reads it.

Alias annotations may be written as torchgen writes them (``a!``, ``a -> *``, ``a|b``), as
``infer_schema`` does (``a0!``), or by the shorthand ``Tensor!``. What PyTorch prints for an
Optional in a list, ``Tensor?(a!)[]``, is read too although its own parser refuses it.
"""

from __future__ import annotations

import difflib
from dataclasses import replace

from opscaffold.contract.lexer import RESERVED_WORDS, SchemaError, Token, TokenKind, tokenize
from opscaffold.contract.literals import parse_default
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
    Tag,
)
from opscaffold.contract.printer import format_alias, format_default, format_schema, format_type
from opscaffold.contract.schema_types import (
    ALIASED_GENERICS,
    GENERIC_TYPES,
    SIMPLE_TYPES,
    TYPE_VARIABLE,
)
from opscaffold.patterns import pattern

__all__ = [
    "SchemaError",
    "format_alias",
    "format_default",
    "format_schema",
    "format_type",
    "parse_schema",
    "parse_type",
]

# Deep enough for any real type; PyTorch's own parser recurses without a limit.
_MAX_DEPTH = 50

_STARTS_CLASS_PATH = pattern(r"[a-z]|__torch__\Z")


def parse_schema(
    text: str, *, namespace: str = "", tags: frozenset[Tag] = frozenset()
) -> OpContract:
    """Read a schema: ``ns::name.overload(...) -> ...``, or ``(...) -> ...`` without a name.

    The bare form is what ``custom_op(schema=...)`` takes; its contract has an empty ``name``.
    ``namespace`` is used where the text has none, and ``tags`` are given to the contract as they
    are: whether they fit is for ``opscaffold.contract.legality`` to say.

    Raises SchemaError, which points at the column.
    """
    return _Parser(text).schema(namespace, tags)


def parse_type(text: str) -> SchemaType:
    """Read one type of the schema language, such as ``Tensor(a!)[]`` or ``SymInt[2]?``.

    Raises SchemaError, which points at the column.
    """
    parser = _Parser(text)
    type_ = parser.type_()
    parser.finish()
    return type_


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._at]

    def fail(self, reason: str, token: Token | None = None) -> SchemaError:
        return SchemaError(reason, self.text, (token or self.token).start + 1)

    def peek(self, text: str, ahead: int = 0) -> bool:
        at = min(self._at + ahead, len(self._tokens) - 1)
        token = self._tokens[at]
        return token.kind is TokenKind.PUNCTUATION and token.text == text

    def take(self) -> Token:
        token = self.token
        if token.kind is not TokenKind.END:
            self._at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.peek(text):
            self._at += 1
            return True
        return False

    def expect(self, text: str, where: str) -> None:
        if not self.accept(text):
            raise self.fail(f"Expected {text!r} {where}, found {self.token.describe()}")

    def name(self, what: str) -> str:
        token = self.token
        if token.kind is not TokenKind.NAME:
            raise self.fail(f"Expected {what}, found {token.describe()}")
        if token.text in RESERVED_WORDS:
            raise self.fail(f"{token.text!r} is a reserved word and cannot be {what}")
        return self.take().text

    def finish(self) -> None:
        if self.token.kind is not TokenKind.END:
            raise self.fail(f"Expected the end, found {self.token.describe()}")

    def schema(self, namespace: str, tags: frozenset[Tag]) -> OpContract:
        name = overload = ""
        if not self.peek("("):
            name = self.name("the name of an op")
            if self.accept("::"):
                namespace, name = name, self.name("the name of an op behind '::'")
            if self.accept("."):
                overload = self._overload()
        if not self.peek("("):
            raise self.fail(f"Expected '(' and the arguments, found {self.token.describe()}")
        parameters, vararg = self._parameters()
        self.expect("->", "and the returns behind the arguments")
        returns, varret = self._returns()
        self.finish()
        return OpContract(
            namespace=namespace,
            name=name,
            overload=overload,
            parameters=parameters,
            returns=returns,
            tags=tags,
            vararg=vararg,
            varret=varret,
        )

    def _overload(self) -> str:
        token = self.token
        overload = self.name("an overload name behind '.'")
        if overload == "default" or overload.startswith("__"):
            raise self.fail(f"PyTorch keeps the overload name {overload!r} for itself", token)
        return overload

    def _parameters(self) -> tuple[tuple[Parameter, ...], bool]:
        self.expect("(", "before the arguments")
        parameters: list[Parameter] = []
        kw_only = vararg = False
        if self.accept(")"):
            return (), False
        while True:
            if vararg:
                raise self.fail("'...' must be the last argument")
            if self.accept("..."):
                vararg = True
            elif self.accept("*"):
                kw_only = True
            else:
                parameters.append(self._parameter(kw_only))
            if not self.accept(","):
                break
        self.expect(")", "or ',' behind an argument")
        return tuple(parameters), vararg

    def _parameter(self, kw_only: bool) -> Parameter:
        type_ = self.type_()
        name = self.name("the name of an argument")
        default: Default | None = None
        if self.accept("="):
            start = self._at
            value, length = parse_default(self.text, self._tokens[start:], type_)
            self._at = start + length
            default = Default(value)
        return Parameter(name=name, type=type_, default=default, kw_only=kw_only)

    def _returns(self) -> tuple[tuple[Return, ...], bool]:
        if self.accept("..."):
            return (), True
        if not self.accept("("):
            return (self._return(),), False
        returns: list[Return] = []
        varret = False
        if self.accept(")"):
            return (), False
        while True:
            if varret:
                raise self.fail("'...' must be the last return")
            if self.accept("..."):
                varret = True
            else:
                returns.append(self._return())
            if not self.accept(","):
                break
        self.expect(")", "or ',' behind a return")
        return tuple(returns), varret

    def _return(self) -> Return:
        type_ = self.type_()
        named = self.token.kind is TokenKind.NAME
        return Return(type_, self.name("the name of a return") if named else None)

    def type_(self) -> SchemaType:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.fail(f"Types are nested more than {_MAX_DEPTH} deep")
        type_ = self._suffixes(self._element())
        self._depth -= 1
        return type_

    def _element(self) -> SchemaType:
        if self.accept("("):
            items = self._type_list()
            return GenericType("tuple", args=items)
        token = self.take()
        if token.kind is not TokenKind.NAME:
            raise self.fail(f"Expected a type, found {token.describe()}", token)
        if token.text in RESERVED_WORDS - {"None", "NoneType"}:
            raise self.fail(f"{token.text!r} is a reserved word, not a type", token)
        if self.peek(".") and _STARTS_CLASS_PATH.match(token.text):
            return BaseType(self._class_path(token.text), self._alias())
        if token.text in GENERIC_TYPES:
            return self._generic(token)
        self._known(token)
        if token.text in ("None", "NoneType"):
            return BaseType("NoneType")
        return BaseType(token.text, self._alias())

    def _class_path(self, path: str) -> str:
        while self.accept("."):
            path += "." + self.name("the rest of a class path")
        return path

    def _generic(self, token: Token) -> SchemaType:
        self.expect("(", f"behind {token.text}")
        items = self._type_list()
        low, high = GENERIC_TYPES[token.text]
        if not low <= len(items) <= high:
            count = str(low) if low == high else f"{low} or more"
            raise self.fail(f"{token.text} takes {count} types, found {len(items)}", token)
        alias = self._alias() if token.text in ALIASED_GENERICS else None
        return GenericType(token.text, alias, items)

    def _type_list(self) -> tuple[SchemaType, ...]:
        if self.accept(")"):
            return ()
        items = [self.type_()]
        while self.accept(","):
            items.append(self.type_())
        self.expect(")", "or ',' behind a type")
        return tuple(items)

    def _known(self, token: Token) -> None:
        if token.text in SIMPLE_TYPES or TYPE_VARIABLE.match(token.text):
            return
        near = difflib.get_close_matches(token.text, sorted(SIMPLE_TYPES | set(GENERIC_TYPES)), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise self.fail(f"{token.text!r} is no type of the schema language{hint}", token)

    def _suffixes(self, type_: SchemaType) -> SchemaType:
        while True:
            if self.accept("["):
                size = self._size()
                self.expect("]", "behind the size of a list")
                type_ = ListType(type_, size, self._alias())
            elif self.peek("?"):
                type_ = self._optional(type_)
            else:
                return type_
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise self.fail(f"Types are nested more than {_MAX_DEPTH} deep")

    def _size(self) -> int | None:
        if self.peek("]"):
            return None
        token = self.take()
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit() or len(token.text) > 9:
            raise self.fail(f"Expected the size of a list, found {token.describe()}", token)
        return int(token.text)

    def _optional(self, type_: SchemaType) -> SchemaType:
        question = self.take()
        if isinstance(type_, BaseType) and type_.name == "NoneType":
            raise self.fail("None cannot be Optional", question)
        alias_at = self.token
        alias = self._alias()
        if alias is not None:
            # An Optional has no alias set of its own: PyTorch gives it that of its element.
            inner = type_.of if isinstance(type_, OptionalType) else type_
            if inner.alias is not None or isinstance(inner, GenericType):
                raise self.fail("A second alias annotation on one type", alias_at)
            return OptionalType(replace(inner, alias=alias))
        return type_ if isinstance(type_, OptionalType) else OptionalType(type_)

    def _alias(self) -> Alias | None:
        if self.accept("!"):
            return Alias((), write=True)
        if not self.accept("("):
            return None
        before = self._alias_set()
        write = self.accept("!")
        after = self._alias_set() if self.accept("->") else ()
        self.expect(")", "behind an alias annotation")
        return Alias(before, write, after)

    def _alias_set(self) -> tuple[str, ...]:
        names: list[str] = []
        while True:
            if self.accept("*"):
                names.append("*")
                return tuple(names)
            names.append(self.name("an alias set"))
            if not self.accept("|"):
                return tuple(names)
