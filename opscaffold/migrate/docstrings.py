"""Editing what a docstring says of one parameter, in Google, NumPy or Sphinx style."""

from __future__ import annotations

import re

_GOOGLE = re.compile(r"^(?P<pad>\s*)(?:Args|Arguments|Parameters|Keyword Args|Params):\s*$")
_TYPE = re.compile(r"^(\s*:type[^:]*:)[^\r\n]*")
_UNDERLINE = re.compile(r"^\s*-{3,}\s*$")


def without_entry(text: str, name: str) -> str:
    """The docstring's text without the entry on one parameter.

    ``text`` is the literal as written, quotes and all; a section left empty goes too.
    """
    text, closing = _opened(text)
    lines = text.splitlines(keepends=True)
    span = _entry(lines, name)
    if span is None:
        return text + closing
    start, end = span
    header = _empty_section(lines, start, end)
    if header is not None:
        start = header
        while start > 1 and not lines[start - 1].strip():
            start -= 1
    kept = "".join(lines[:start] + lines[end:])
    # Where the closing quotes stood behind the entry, they now stand behind what was before it.
    return (kept if text.endswith(("\n", " ", "\t")) else kept.rstrip()) + closing


def with_entry(text: str, name: str, sentence: str) -> str:
    """The docstring's text with the description of one parameter replaced."""
    text, closing = _opened(text)
    lines = text.splitlines(keepends=True)
    span = _entry(lines, name)
    if span is None:
        return text + closing
    start, end = span
    first = lines[start]
    pad = first[: len(first) - len(first.lstrip())]
    newline = "\r\n" if first.endswith("\r\n") else "\n"
    sphinx = re.match(rf"\s*:param(?=\s)[^:]*\s{re.escape(name)}\s*:", first)
    if sphinx:
        replacement = [f"{sphinx[0]} {sentence}{newline}"]
        types = [line for line in lines[start + 1 : end] if line.lstrip().startswith(":type")]
        replacement += [_TYPE.sub(r"\1 Tensor", line) for line in types]
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
    written = "".join(lines[:start] + replacement + blanks + lines[end:])
    return (written if text.endswith("\n") or end < len(lines) else written.rstrip()) + closing


def _opened(text: str) -> tuple[str, str]:
    """A literal without its closing quotes, and these."""
    quotes = text[-1:] * (3 if text.endswith(text[-1:] * 3) else 1)
    return text.removesuffix(quotes), quotes


def _entry(lines: list[str], name: str) -> tuple[int, int] | None:
    """The lines of the entry: from its first to the one behind its last."""
    google = re.compile(rf"^\s*\*{{0,2}}{re.escape(name)}\s*(?:\([^)]*\)\s*)?:(\s|$)")
    sphinx = re.compile(rf"^\s*:(?:param|type)(?=\s)[^:]*\s{re.escape(name)}\s*:")
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
