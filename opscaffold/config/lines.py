"""On which line of a TOML text each key and each element stands: tomllib does not tell."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"[ \t]*")
# Also newlines and comments, as between the elements of an array.
_FILLER = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]}#\n]*")
_STRINGS = (
    re.compile(r'"""(?:\\.|[^\\])*?"{3,5}(?!")', re.DOTALL),
    re.compile(r"'''.*?'{3,5}(?!')", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)
_ESCAPE = re.compile(r'\\(["\\])')


def line_of(places: dict[Path, int], path: Path) -> int:
    """Return the line of a path, or of the nearest thing around it that has one."""
    while path and path not in places:
        path = path[:-1]
    return places.get(path, 1)


def key_lines(text: str) -> dict[Path, int]:
    """Return the line, from 1, of each table, key and array element of a valid TOML text."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.places


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.places: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}

    def document(self) -> None:
        """Read all statements."""
        table: Path = ()
        while True:
            self._skip(_FILLER)
            if self.at >= len(self.text):
                return
            before = self.at
            if self.text.startswith("[[", self.at):
                self.at += 2
                table = self._array_header(self._key())
            elif self.text[self.at] == "[":
                self.at += 1
                table = self._resolved(self._key())
                self._note(table, before)
            else:
                self._assignment(table)
                continue
            self._skip(re.compile(r"[^\n]*"))

    def _array_header(self, key: Path) -> Path:
        *outer, last = key
        array = (*self._resolved(tuple(outer)), last)
        number = self._counts.get(array, -1) + 1
        self._counts[array] = number
        table = (*array, number)
        self._note(array, self.at)
        self._note(table, self.at)
        return table

    def _resolved(self, key: Path) -> Path:
        """Lead a key through the last element of every array of tables on its way."""
        path: Path = ()
        for part in key:
            path = (*path, part)
            if path in self._counts:
                path = (*path, self._counts[path])
        return path

    def _assignment(self, table: Path) -> None:
        before = self.at
        path = (*table, *self._key())
        self._note(path, before)
        # At the equals sign.
        self.at += 1
        self._value(path)

    def _value(self, path: Path) -> None:
        self._skip(_SPACE)
        opening = self.text[self.at : self.at + 1]
        if opening == "[":
            self.at += 1
            self._elements(path, "]")
        elif opening == "{":
            self.at += 1
            self._elements(path, "}")
        elif not self._string():
            self._skip(_SCALAR)

    def _elements(self, path: Path, closing: str) -> None:
        number = 0
        while True:
            self._skip(_FILLER)
            if self.at >= len(self.text):
                return
            char = self.text[self.at]
            if char == closing:
                self.at += 1
                return
            if char == ",":
                self.at += 1
            elif closing == "}":
                self._assignment(path)
            else:
                self._note((*path, number), self.at)
                self._value((*path, number))
                number += 1

    def _key(self) -> Path:
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            before = self.at
            if self._string():
                quoted = self.text[before + 1 : self.at - 1]
                literal = self.text[before] == "'"
                parts.append(quoted if literal else _ESCAPE.sub(r"\1", quoted))
            else:
                match = _BARE_KEY.match(self.text, self.at)
                parts.append(match[0] if match else "")
                # One character is always consumed, so that nothing can go round for ever.
                self.at = match.end() if match else self.at + 1
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return tuple(parts)
            self.at += 1

    def _string(self) -> bool:
        for pattern in _STRINGS:
            match = pattern.match(self.text, self.at)
            if match:
                self.at = match.end()
                return True
        return False

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()

    def _note(self, path: Path, at: int) -> None:
        line = self.text.count("\n", 0, at) + 1
        for length in range(1, len(path)):
            self.places.setdefault(path[:length], line)
        self.places.setdefault(path, line)
