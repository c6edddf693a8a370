"""The answers file: TOML in, TOML out, with the line of every key for errors.

The package's answers stand on top, one ``[[op]]`` table an op below. The file that a generated
package keeps has a table ``[opscaffold]`` besides, which is no answer and is passed over here.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from opscaffold.scaffold.given import AnswerError, Answers, Given, Value
from opscaffold.scaffold.questions import OP, PACKAGE, Question, Shape

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HEADER = re.compile(r"""\[\[?[ \t]*(?P<name>[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')""")
_KEY = re.compile(r"""[ \t]*(?P<name>[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')""")
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)
_AT_LINE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
_BARE = {"\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r", '"': r"\"", "\\": r"\\"}

RECORD = "opscaffold"

Place = tuple[str | int, ...]


def load(path: Path) -> Answers:
    """Read an answers file. Raises AnswerError, naming file and line, for all it cannot use."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AnswerError(f"cannot be read: {error.strerror or error}", str(path)) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise AnswerError("is not UTF-8; save it as UTF-8", f"{path}:{line}") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Answers:
    """Like ``load``, for text; ``name`` is the file's name in errors."""
    text = text.replace("\r\n", "\n")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _AT_LINE.search(message)
        line = int(found["line"]) if found and found["line"] else text.count("\n") + 1
        reason = _AT_LINE.sub("", message)
        raise AnswerError(f"is not valid TOML: {reason}", f"{name}:{line}") from None
    except (RecursionError, ValueError):
        raise AnswerError("is not valid TOML: nested or numbered beyond reason", name) from None
    lines = _lines(text)
    if not isinstance(data.pop(RECORD, {}), dict):
        raise AnswerError(
            f"{RECORD} is the table of a package's record; leave it out",
            _at(name, lines, (RECORD,)),
        )
    ops = data.pop("op", [])
    if not isinstance(ops, list) or not all(isinstance(op, dict) for op in ops):
        raise AnswerError(
            "op holds the ops; write each as a table under a line [[op]]",
            _at(name, lines, ("op",)),
        )
    package = _table(data, PACKAGE, (), name, lines, extra="op")
    tables = tuple(_table(op, OP, ("op", i), name, lines) for i, op in enumerate(ops))
    return Answers(package, tables)


def _table(
    data: Mapping[str, object],
    questions: Mapping[str, Question],
    where: Place,
    name: str,
    lines: Mapping[Place, int],
    extra: str = "",
) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for key, value in data.items():
        origin = _at(name, lines, (*where, key))
        if key not in questions:
            known = [*questions, *([extra] if extra else [])]
            table = "[[op]]" if where else "the package's table"
            raise AnswerError(
                f"unknown key {key!r} in {table}; nearest known key: {nearest(key, known)}",
                origin,
            )
        given[key] = Given(_value(value, questions[key], origin), origin)
    return given


def nearest(word: str, known: Collection[str]) -> str:
    """The known word most like ``word``."""
    return difflib.get_close_matches(word, known, n=1, cutoff=0.0)[0]


def _value(value: object, question: Question, origin: str) -> Value:
    key = question.key
    if question.shape is Shape.FLAG:
        if isinstance(value, bool):
            return value
        raise AnswerError(f"{key} is true or false, without quotes", origin, (key,))
    if isinstance(value, str):
        return value
    if question.shape is Shape.LIST:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise AnswerError(f"{key} is a list of strings in quotes", origin, (key,))
    raise AnswerError(f"{key} is a string; put it in quotes", origin, (key,))


def _at(name: str, lines: Mapping[Place, int], place: Place) -> str:
    while place and place not in lines:
        place = place[:-1]
    return f"{name}:{lines[place]}" if place else name


def _lines(text: str) -> dict[Place, int]:
    """The line of each top-level key, each ``[[op]]`` and each key in one, of valid TOML."""
    lines: dict[Place, int] = {}
    table: Place = ()
    count = 0
    position, line, depth = 0, 1, 0
    fresh = True
    while position < len(text):
        if fresh:
            fresh = False
            start = position
            while start < len(text) and text[start] in " \t":
                start += 1
            header = _HEADER.match(text, start)
            if header:
                table = (header["name"].strip("\"'"),)
                lines.setdefault(table, line)
                if table == ("op",):
                    table = ("op", count)
                    count += 1
                    lines[table] = line
                position = text.find("\n", start)
                if position < 0:
                    break
                continue
            key = _KEY.match(text, start)
            if key:
                lines.setdefault((*table, key["name"].strip("\"'")), line)
                position = key.end()
        token = _TOKEN.search(text, position)
        if token is None:
            break
        found = token[0]
        position = token.end()
        if found in ("[", "{"):
            depth += 1
        elif found in ("]", "}"):
            depth -= 1
        line += found.count("\n")
        fresh = found == "\n" and depth <= 0
    return lines


def dump(answers: Answers, record: Mapping[str, str | int] | None = None) -> str:
    """Write answers as TOML that ``parse`` reads back to the same values.

    ``record`` is what a generated package notes besides, in a table of its own.
    """
    out = ["# Answers of `opscaffold new`. The same package again: opscaffold new --answers FILE\n"]
    out += [line_of(key, given.value) for key, given in answers.package.items()]
    if record is not None:
        out.append(f"\n# What made the package: opscaffold update starts from it.\n[{RECORD}]\n")
        out += [line_of(key, value) for key, value in record.items()]
    for table in answers.ops:
        out.append("\n[[op]]\n")
        out += [line_of(key, given.value) for key, given in table.items()]
    return "".join(out)


def line_of(key: str, value: Value | int) -> str:
    """A key with its value, as a line of TOML."""
    if isinstance(value, bool):
        return f"{key} = {'true' if value else 'false'}\n"
    if isinstance(value, int):
        return f"{key} = {value}\n"
    if isinstance(value, str):
        return f"{key} = {_quoted(value)}\n"
    return f"{key} = [{', '.join(_quoted(item) for item in value)}]\n"


def _quoted(text: str) -> str:
    return (
        '"'
        + "".join(_BARE.get(c, c) if c >= " " and c != "\x7f" else _escape(c) for c in text)
        + '"'
    )


def _escape(character: str) -> str:
    return _BARE.get(character, f"\\u{ord(character):04x}")
