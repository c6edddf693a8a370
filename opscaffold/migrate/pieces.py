"""Where a file can be cut so that each piece reads by itself as it does in the file.

libcst takes ten seconds for a megabyte, and most changes concern one function of a file. A piece
is some statements of the file, or of a class, with the comments above them. What is put before it
gives it the file's indentation and line ending, which libcst infers from the first it meets, and
keeps its comments from being read as those at the top of a file.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

# To read a class in parts is worth the trouble from so many bytes.
_LARGE = 3_000
_USUAL_INDENT = "    "
_REST = re.compile(rb"[ \t]*(?:#[^\r\n]*)?\r?\n")
_MARGIN = re.compile(rb"[ \t]*")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file, what is put before them for libcst, and the nodes that they hold.

    ``inner`` says that it is some of the statements of a class.
    """

    start: int
    end: int
    before: str
    nodes: tuple[ast.AST, ...] = field(repr=False)
    inner: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The indentation and the line ending that libcst takes for those of a file."""

    indent: str
    newline: str

    @property
    def before(self) -> str:
        """A statement that has libcst take the same for a piece of the file."""
        return f"if 0:{self.newline}{self.indent}0{self.newline}"


def layout_of(text: str) -> Layout | None:
    """The layout of a file; None where it is not sure what libcst takes for it."""
    # A form feed sets the column back, and a last line without end has no place in a piece.
    if not text.endswith("\n") or "\f" in text or text.count("\r") != text.count("\r\n"):
        return None
    indent = _first_indent(text)
    first = text.index("\n")
    newline = "\r\n" if text[max(first - 1, 0)] == "\r" else "\n"
    return None if indent is None else Layout(indent, newline)


def _first_indent(text: str) -> str | None:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.INDENT:
                return token.string
    except (tokenize.TokenError, SyntaxError):
        return None
    return _USUAL_INDENT


def pieces_of(
    tree: ast.Module, data: bytes, lines: Sequence[int], layout: Layout | None
) -> list[Piece]:
    """The pieces of a file, in order; one where it is not to be cut.

    ``data`` is its text as UTF-8, ``lines`` where each line begins.
    """
    whole = Piece(0, len(data), "", tuple(tree.body))
    if layout is None or not tree.body:
        return [whole]
    found: list[Piece] = []
    for group in _groups(tree.body, data, lines, b""):
        start = found[-1].end if found else 0
        last = group[-1] is tree.body[-1]
        end = len(data) if last else _end(group[-1], lines)
        piece = Piece(start, end, layout.before if start else "", tuple(group))
        if len(group) == 1 and isinstance(group[0], ast.ClassDef) and end - start > _LARGE:
            found += _parts(piece, group[0], data, lines, layout)
        else:
            found.append(piece)
    return found


def statement_around(
    piece: Piece, span: tuple[int, int], data: bytes, lines: Sequence[int], layout: Layout | None
) -> Piece | None:
    """The simple statement of a piece that holds a span, as a piece of its own.

    None where it shares its lines with others, or it is no simple statement that holds the span.
    What stands above it is left out: the piece will do for what changes nothing there.
    """
    node = _innermost(piece.nodes, span, lines)
    if layout is None or node is None or hasattr(node, "body"):
        return None
    start, end = lines[node.lineno - 1], _end(node, lines)
    margin = data[start : lines[node.lineno - 1] + node.col_offset]
    alone = not margin.strip(b" \t") and _REST.match(data, _stop(node, lines))
    if not alone or data[:start].rstrip(b"\r\n").endswith(b"\\"):
        return None
    before = layout.before
    if margin:
        before += f"if 0:{layout.newline}{margin.decode()}0{layout.newline}"
    return Piece(start, end, before, (node,))


def _innermost(
    nodes: Iterable[ast.AST], span: tuple[int, int], lines: Sequence[int]
) -> ast.stmt | None:
    """The innermost statement among some, and those in them, that holds a span."""
    for node in nodes:
        if isinstance(node, ast.stmt):
            start, end = lines[node.lineno - 1] + node.col_offset, _stop(node, lines)
            if not (start <= span[0] and span[1] <= end):
                continue
        elif not isinstance(node, ast.ExceptHandler | ast.match_case):
            continue
        blocks = ("body", "orelse", "finalbody", "handlers", "cases")
        found = _innermost((n for b in blocks for n in getattr(node, b, ())), span, lines)
        if found is not None:
            return found
        if isinstance(node, ast.stmt):
            return node
    return None


def _parts(
    piece: Piece, node: ast.ClassDef, data: bytes, lines: Sequence[int], layout: Layout
) -> Iterator[Piece]:
    """The pieces of a class, the first with its header; the class as it is if it has none."""
    at = _start(node.body[0], lines)
    margin = data[at : _MARGIN.match(data, at).end()]  # type: ignore[union-attr]
    behind = data[_end(node, lines) : piece.end]
    clean = _gap(b"").fullmatch(behind) and _REST.match(data, _stop(node, lines))
    groups = list(_groups(node.body, data, lines, margin)) if margin and clean else []
    if len(groups) < 2 or _first_line(node.body[0]) <= node.lineno:
        yield piece
        return
    space = margin.decode()
    before = f"{layout.before}class _:{layout.newline}{space}0{layout.newline}"
    header = (*node.decorator_list, *node.bases, *node.keywords)
    end = _end(groups[0][-1], lines)
    yield Piece(piece.start, end, piece.before, (*header, *groups[0]), inner=True)
    for group in groups[1:]:
        start, last = end, group[-1] is node.body[-1]
        end = piece.end if last else _end(group[-1], lines)
        yield Piece(start, end, before, tuple(group), inner=True)


def _groups(
    body: Sequence[ast.stmt], data: bytes, lines: Sequence[int], margin: bytes
) -> Iterator[list[ast.stmt]]:
    """The statements of a body, those together between which a cut would be read differently."""
    gap = _gap(margin)
    group = [body[0]]
    for before, statement in pairwise(body):
        start, end = _start(statement, lines), _end(before, lines)
        apart = (
            end <= start
            and _REST.match(data, _stop(before, lines))
            # A comment that is further in belongs to the block above it.
            and gap.fullmatch(data, end, start)
            and _MARGIN.match(data, start).group() == margin  # type: ignore[union-attr]
        )
        if apart:
            yield group
            group = []
        group.append(statement)
    yield group


def _gap(margin: bytes) -> re.Pattern[bytes]:
    """Lines that belong to the statement below them."""
    return re.compile(rb"(?:(?:" + re.escape(margin) + rb"#[^\r\n]*)?\r?\n)*")


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _start(statement: ast.stmt, lines: Sequence[int]) -> int:
    """Where the first line of a statement begins."""
    return lines[_first_line(statement) - 1]


def _stop(statement: ast.stmt, lines: Sequence[int]) -> int:
    """Where the last token of a statement ends."""
    return lines[(statement.end_lineno or 1) - 1] + (statement.end_col_offset or 0)


def _end(statement: ast.stmt, lines: Sequence[int]) -> int:
    """Where the line behind a statement begins."""
    return lines[statement.end_lineno or 1]
