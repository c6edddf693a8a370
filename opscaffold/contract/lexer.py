"""The words of a PyTorch schema string, and the error that says where one is wrong."""

from __future__ import annotations

import enum
import re

from opscaffold.contract.schema_types import words
from opscaffold.patterns import pattern
from opscaffold.records import dataclass


class SchemaError(ValueError):
    """A string is not a schema that PyTorch would take.

    ``text`` is the whole string, ``column`` counts its characters from 1 to the one at fault
    (one past the end where something is missing), ``reason`` is the message without the picture.
    """

    def __init__(self, reason: str, text: str, column: int) -> None:
        """Build the message: the reason, the line at fault, a caret below the column."""
        self.reason = reason
        self.text = text
        self.column = column
        start = max(text.rfind(mark, 0, column - 1) for mark in "\n\r") + 1
        line = re.split(r"[\n\r]", text[start:], maxsplit=1)[0]
        # A tab is kept in the padding: the caret then stands right at any tab width.
        padding = "".join("\t" if c == "\t" else " " for c in text[start : column - 1])
        super().__init__(f"{reason} (column {column})\n  {line}\n  {padding}^")


class TokenKind(enum.Enum):
    """What a token is; punctuation carries its own text."""

    NAME = "a name"
    NUMBER = "a number"
    STRING = "a string"
    PUNCTUATION = "punctuation"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; ``start`` is its 0-based offset in the schema string."""

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset one past the token's last character."""
        return self.start + len(self.text)

    def describe(self) -> str:
        """How an error message names the token."""
        return "the end of the schema" if self.kind is TokenKind.END else repr(self.text)


# Words that PyTorch's schema lexer keeps for TorchScript: no name in a schema can be one.
RESERVED_WORDS = words(
    "False None NoneType True and as assert break class continue def del elif else for global if "
    "import in is not or pass raise return while with"
)

_SPACE = pattern(r"(?:[ \t\r\v\f]|\\\n|#[^\n]*)+")
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = pattern(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?j?")
_STRING = pattern(
    r'"""(?:[^\\]|\\.)*?"""'
    r"|'''(?:[^\\]|\\.)*?'''"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
_PUNCTUATION = pattern(r"\.\.\.|->|::|[()\[\],*!?|=.:-]")


def tokenize(text: str) -> tuple[Token, ...]:
    """Split a schema string into tokens, the last of kind END.

    Raises SchemaError at a character that starts no token, and at a line break that does not
    stand inside parentheses or at either end.
    """
    return tuple(_Lexer(text).run())


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[Token] = []
        self._depth = 0

    def run(self) -> list[Token]:
        text, at = self._text, 0
        while at < len(text):
            if space := _SPACE.match(text, at):
                at = space.end()
            elif text[at] == "\n":
                self._line_break(at)
                at += 1
            else:
                at = self._token(at)
        self._tokens.append(Token(TokenKind.END, "", len(text)))
        return self._tokens

    def _line_break(self, at: int) -> None:
        if self._depth > 0 or not self._tokens or not self._text[at:].strip():
            return
        raise SchemaError("A schema cannot break its line outside parentheses", self._text, at + 1)

    def _token(self, at: int) -> int:
        text = self._text
        for kind, shape in (
            (TokenKind.NAME, _NAME),
            (TokenKind.STRING, _STRING),
            (TokenKind.NUMBER, _NUMBER),
            (TokenKind.PUNCTUATION, _PUNCTUATION),
        ):
            # "..." is punctuation, and ".5" a number: the number pattern wants a digit.
            if match := shape.match(text, at):
                self._depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(match.group(), 0)
                self._tokens.append(Token(kind, match.group(), at))
                return match.end()
        if text[at] in "\"'":
            raise SchemaError("This string is not closed on its line", text, at + 1)
        raise SchemaError(f"A schema cannot contain {text[at]!r} here", text, at + 1)
