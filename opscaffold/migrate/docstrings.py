"""Editing what a docstring says of one parameter, in Google, NumPy or Sphinx style."""

from __future__ import annotations

import re

_GOOGLE = re.compile(r"^(?P<pad>\s*)(?:Args|Arguments|Parameters|Keyword Args|Params):\s*$")
_UNDERLINE = re.compile(r"^\s*-{3,}\s*$")


def without_entry(text: str, name: str) -> str:
    """The docstring's text without the entry on one parameter.

    ``text`` is the literal as written, quotes and all; a section left empty goes too.
    """
    lines = text.splitlines(keepends=True)
    span = _entry(lines, name)
    if span is None:
        return text
    start, end = span
    header = _empty_section(lines, start, end)
    if header is not None:
        start = header
        while start > 1 and not lines[start - 1].strip():
            start -= 1
    return "".join(lines[:start] + lines[end:])


def with_entry(text: str, name: str, sentence: str) -> str:
    """The docstring's text with the description of one parameter replaced."""
    lines = text.splitlines(keepends=True)
    span = _entry(lines, name)
    if span is None:
        return text
    start, end = span
    first = lines[start]
    pad = first[: len(first) - len(first.lstrip())]
    newline = "\r\n" if first.endswith("\r\n") else "\n"
    sphinx = re.match(rf"\s*:param\s+(?:[^:]*\s)?{re.escape(name)}\s*:", first)
    if sphinx:
        replacement = [f"{sphinx[0]} {sentence}{newline}"]
        replacement += [
            line for line in lines[start + 1 : end] if line.lstrip().startswith(":type")
        ]
    elif re.match(rf"\s*{re.escape(name)}\s*:\s*\S*\s*", first) and _in_numpy(lines, start):
        deeper = next((line for line in lines[start + 1 : end] if line.strip()), "")
        inner = deeper[: len(deeper) - len(deeper.lstrip())] or pad + "    "
        replacement = [f"{pad}{name} : Tensor{newline}", f"{inner}{sentence}{newline}"]
    else:
        replacement = [f"{pad}{name}: {sentence}{newline}"]
    trailing = lines[start:end]
    blanks: list[str] = []
    while trailing and not trailing[-1].strip():
        blanks.insert(0, trailing.pop())
    return "".join(lines[:start] + replacement + blanks + lines[end:])


def _entry(lines: list[str], name: str) -> tuple[int, int] | None:
    """The lines of the entry: from its first to the one behind its last."""
    google = re.compile(rf"^\s*\*{{0,2}}{re.escape(name)}\s*(\([^)]*\))?\s*:(\s|$)")
    sphinx = re.compile(rf"^\s*:(?:param|type)\s+(?:[^:]*\s)?{re.escape(name)}\s*:")
    for index, line in enumerate(lines):
        if sphinx.match(line):
            end = index + 1
            while end < len(lines) and (
                sphinx.match(lines[end]) or _continues(lines[index], lines[end])
            ):
                end += 1
            return index, end
        if google.match(line) and (_in_google(lines, index) or _in_numpy(lines, index)):
            end = index + 1
            while end < len(lines) and _continues(line, lines[end]):
                end += 1
            return index, end
    return None


def _continues(first: str, line: str) -> bool:
    """Whether a line goes on with an entry: it is indented deeper than the entry's first."""
    return bool(line.strip()) and _indent(line) > _indent(first) and line.strip() not in _CLOSERS


_CLOSERS = frozenset({'"""', "'''"})


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _in_google(lines: list[str], index: int) -> bool:
    for back in range(index - 1, -1, -1):
        header = _GOOGLE.match(lines[back])
        if header:
            return _indent(lines[index]) > len(header["pad"])
        if lines[back].strip() and _indent(lines[back]) < _indent(lines[index]):
            return False
    return False


def _in_numpy(lines: list[str], index: int) -> bool:
    for back in range(index - 1, 0, -1):
        if _UNDERLINE.match(lines[back]):
            return lines[back - 1].strip() in {"Parameters", "Other Parameters"}
    return False


def _empty_section(lines: list[str], start: int, end: int) -> int | None:
    """The first line of the section's header where the entry is all the section holds."""
    before, after = start - 1, end
    if after < len(lines) and lines[after].strip() and lines[after].strip() not in _CLOSERS:
        numpy_next = after + 1 < len(lines) and _UNDERLINE.match(lines[after + 1])
        if _indent(lines[after]) >= _indent(lines[start]) and not numpy_next:
            return None
    if before < 0:
        return None
    if _GOOGLE.match(lines[before]):
        return before
    if before > 0 and _UNDERLINE.match(lines[before]):
        return before - 1
    return None
