"""Jupyter notebooks as Python source: the code cells of one as the text of one module."""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import Any

from opscaffold.patterns import pattern
from opscaffold.records import dataclass

SUFFIX = ".ipynb"

# A cell that starts with one of these holds Python all the same; with any other, it does not.
_PYTHON_MAGICS = frozenset({"capture", "prun", "python", "python3", "time", "timeit"})
_CELL_MAGIC = pattern(r"%%\s*(\w+)")
_LINE_MAGIC = pattern(r"\s*([%!?]|[\w.\[\]]+\?{1,2}\s*$)")
_ASSIGNED = pattern(r"([\w.,\s*\[\]'\"]+=\s*)[%!](?!=).*$")
_INDENT = pattern(r"\s*")


class NotebookError(Exception):
    """A file that is no notebook with Python in it."""


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook that was read.

    ``text`` holds the code cells, one after the other; ``starts`` the line (from 1) each of them
    starts on, and ``numbers`` which cell of the notebook (from 1, text counted) it is. What
    IPython alone understands is blank in it, so that no line moves.
    """

    text: str
    starts: tuple[int, ...]
    numbers: tuple[int, ...]

    def place(self, line: int) -> tuple[int, int]:
        """Return the cell that a line of ``text`` stands in, and its line there, both from 1."""
        at = bisect_right(self.starts, line) - 1
        if at < 0:
            return 1, line
        return self.numbers[at], line - self.starts[at] + 1


def read_notebook(data: bytes) -> Notebook:
    """Read a notebook. Raises NotebookError for what is none, and for other languages."""
    try:
        document: Any = json.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise NotebookError(f"is no notebook: {error}") from None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise NotebookError("is no notebook, or one of a version before 4: it has no cells")
    language = _language(document)
    if language not in ("", "python"):
        raise NotebookError(f"is a notebook in {language}")
    lines: list[str] = []
    starts: list[int] = []
    numbers: list[int] = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        starts.append(len(lines) + 1)
        numbers.append(number)
        lines += _python(_source(cell))
    return Notebook("".join(f"{line}\n" for line in lines), tuple(starts), tuple(numbers))


def _language(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    for key, field in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(key) if isinstance(metadata, dict) else None
        name = part.get(field) if isinstance(part, dict) else None
        if isinstance(name, str):
            return name.lower()
    return ""


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def _python(source: str) -> list[str]:
    """Return the lines of a cell; those that are no Python as blank as they can be."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found: list[str] = []
    continued = False
    for number, line in enumerate(lines):
        magic = _CELL_MAGIC.match(line)
        if magic is not None and not any(found):
            if magic[1] not in _PYTHON_MAGICS:
                return [""] * len(lines)
            found.append("")
            continue
        goes_on = number > 0 and not continued and lines[number - 1].endswith("\\")
        assigned = None if continued or goes_on else _ASSIGNED.match(line)
        if continued:
            found.append("")
        elif assigned is not None:
            found.append(f"{assigned[1]}...")
        elif not goes_on and _LINE_MAGIC.match(line):
            # A block must not be left without a statement.
            indent = _INDENT.match(line)
            found.append(f"{indent[0]}pass" if indent is not None and indent[0] else "")
        else:
            found.append(line)
            continue
        continued = line.endswith("\\") and number + 1 < len(lines)
    return found
