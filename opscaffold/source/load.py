"""One Python file, read and parsed; and where its nodes stand in its text."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from bisect import bisect_right
from pathlib import Path
from weakref import WeakKeyDictionary

from opscaffold.fs.text import SourceText
from opscaffold.patterns import pattern
from opscaffold.records import dataclass
from opscaffold.source.model import Module
from opscaffold.source.nodes import parents_of

_LINE_END = pattern(r"\r\n|\r|\n")

# Grammar that a later Python reads and an earlier one calls a syntax error: the release, and
# what the line at the error looks like. Some take the square of what they read, hence a limit.
_LONGEST_LINE = 1_000
_NEWER_LINES = (
    ((3, 12), r"^\s*type\s+\w+\s*(\[.*\])?\s*="),
    ((3, 12), r"^\s*(async\s+)?def\s+\w+\s*\["),
    ((3, 12), r"^\s*class\s+\w+\s*\["),
    ((3, 11), r"^\s*except\s*\*"),
    ((3, 11), r"\w\s*\[[^\]]*(?<![\w)\]])\*\w"),
    # An f-string that reuses its own quote inside a replacement field.
    ((3, 12), r"(?<![\w'\"])(?:[fF][rR]?|[rR][fF])(['\"])[^'\"]*\{[^}'\"]*\1"),
    ((3, 14), r"^\s*except\s+[\w.]+\s*,\s*[\w.]+(\s*,\s*[\w.]+)*\s*:"),
    ((3, 14), r"(?<![\w\"'])([tT][rR]?|[rR][tT])[\"']"),
    ((3, 15), r"^\s*lazy\s+(import|from)\b"),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A file, or a place in it, that could not be understood. Counts from 1."""

    path: Path
    line: int
    column: int
    message: str


def parse_module(path: Path, name: str, source: SourceText) -> Module | Problem:
    """Parse source. Never raises for what it holds; nothing in it is run."""
    try:
        with warnings.catch_warnings():
            # Invalid escapes and the like are the author's to hear from Python.
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
    except SyntaxError as error:
        line, column = error.lineno or 1, max(error.offset or 1, 1)
        return Problem(path, line, column, _explain(error, source.text))
    except (RecursionError, MemoryError):
        return Problem(path, 1, 1, "is nested too deeply to be read")
    except ValueError as error:
        return Problem(path, 1, 1, f"cannot be parsed: {error}")
    return Module(path, name, source, tree, parents_of(tree))


def _explain(error: SyntaxError, text: str) -> str:
    lines = _LINE_END.split(text)
    at = (error.lineno or 1) - 1
    line = lines[at][:_LONGEST_LINE] if 0 <= at < len(lines) else ""
    for release, looks in _NEWER_LINES:
        if sys.version_info < release and re.search(looks, line):
            return f"needs a newer Python to read ({release[0]}.{release[1]} or later)"
    if sys.version_info < (3, 12) and error.msg.startswith("f-string"):
        return f"needs a newer Python to read (3.12 or later), or is no Python: {error.msg}"
    return f"syntax error: {error.msg}"


_STARTS: WeakKeyDictionary[ast.Module, list[int]] = WeakKeyDictionary()


def line_starts(module: Module) -> list[int]:
    """Return the offset in ``source.text`` at which each line starts."""
    starts = _STARTS.get(module.tree)
    if starts is None:
        # Not str.splitlines: form feeds and Unicode separators end no line of Python.
        starts = [0, *(match.end() for match in _LINE_END.finditer(module.source.text))]
        _STARTS[module.tree] = starts
    return starts


def offset(module: Module, line: int, byte_column: int) -> int:
    """Return the offset in ``source.text`` of a position as ast gives it (UTF-8 bytes)."""
    starts = line_starts(module)
    start = starts[line - 1]
    end = starts[line] if line < len(starts) else len(module.source.text)
    text = module.source.text[start:end]
    if text.isascii():
        return start + byte_column
    return start + len(
        text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "ignore")
    )


def span(module: Module, node: ast.AST) -> tuple[int, int]:
    """Return where a node starts and ends in ``source.text``.

    A decorated definition starts at its ``def`` or ``class``, as ast has it. Raises ValueError
    for a node without a position, such as ``ast.arguments``.
    """
    line = getattr(node, "lineno", None)
    end_line = getattr(node, "end_lineno", None)
    if line is None or end_line is None:
        raise ValueError(f"{type(node).__name__} has no position")
    return (
        offset(module, line, getattr(node, "col_offset", 0)),
        offset(module, end_line, getattr(node, "end_col_offset", 0)),
    )


def char_column(module: Module, node: ast.AST) -> int:
    """Return the column a node starts at, in characters and from 1, for people to read."""
    start, _ = span(module, node)
    starts = line_starts(module)
    return start - starts[bisect_right(starts, start) - 1] + 1
