"""One file as libcst trees whose nodes are found by the positions that ``ast`` gives."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from opscaffold.migrate.pieces import Piece, layout_of, pieces_of, statement_around
from opscaffold.source.model import Module

Key = tuple[int, int]
"""Start and end of a node in bytes of the file's text as UTF-8."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
# ``ast`` counts the parentheses of these as part of them.
_PARENTHESISED: dict[type[ast.expr], type[cst.CSTNode]] = {
    ast.Tuple: cst.Tuple,
    ast.GeneratorExp: cst.GeneratorExp,
}
# What a repair changes is read several times, and may be all of a file.
_LONGEST = 2_000_000
# libcst reads in native code, which dies of a few thousand levels where Python would raise.
_DEEPEST = 1_000
_N = TypeVar("_N", bound=cst.CSTNode)


class SyntaxMismatchError(Exception):
    """A file that is not rewritten: libcst reads it otherwise than ``ast``, or it is too long."""


class _Wrapper(MetadataWrapper):
    def visit_batched(self, visitors: Iterable[Any], *arguments: Any) -> cst.CSTNode:
        """Visit for several at once, as libcst does; for none at all, which it does too, do not.

        Spans need no visitor, and to visit a file for nobody takes as long as to find its spans.
        """
        visitors = list(visitors)
        return super().visit_batched(visitors, *arguments) if visitors else self.module


def _is_deeper(tree: ast.AST, limit: int) -> bool:
    """Whether nodes stand within more than so many others."""
    level: list[ast.AST] = [tree]
    for _ in range(limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


class Syntax:
    """The libcst trees of one module, and the way from ``ast`` nodes into them.

    The module is read piece by piece, each when it is first asked for. ``spans`` has the nodes
    of all that was read, which may be part of a piece and a statement of it read by itself.
    """

    def __init__(self, module: Module, *, whole: bool = False) -> None:
        """Raises SyntaxMismatchError where the module is not rewritten; ``whole``: read as one."""
        text = module.source.text
        if not module.source.exact:
            raise SyntaxMismatchError(f"{module.source.encoding} would not give its bytes back")
        if len(text) > _LONGEST:
            raise SyntaxMismatchError(f"it is longer than {_LONGEST:,} characters")
        self._module = module
        self._data = text.encode()
        self._lines = [0, *(m.end() for m in _LINE_END.finditer(self._data))]
        self._layout = None if whole else layout_of(text)
        self.pieces = pieces_of(module.tree, self._data, self._lines, self._layout)
        self._starts = [piece.start for piece in self.pieces]
        self._trees: dict[int, cst.Module] = {}
        self._statements: dict[int, tuple[Piece, cst.Module] | None] = {}
        self._by_key: dict[Key, list[cst.CSTNode]] = {}
        self.spans: dict[cst.CSTNode, Key] = {}

    @cached_property
    def whole(self) -> Syntax:
        """The same module, read as one."""
        return Syntax(self._module, whole=True)

    def index(self, key: Key) -> int:
        """Which piece a span begins in."""
        return bisect_right(self._starts, key[0]) - 1

    def tree(self, index: int) -> cst.Module:
        """A piece as a module, what is put before it included.

        Raises SyntaxMismatchError where it would not print the same text.
        """
        if index not in self._trees:
            self._trees[index], spans = self._read(self.pieces[index])
            for node, key in spans.items():
                self._by_key.setdefault(key, []).append(node)
        return self._trees[index]

    def statement(self, key: Key) -> tuple[Piece, cst.Module] | None:
        """The simple statement that holds a span, read by itself; None where that cannot be.

        Raises SyntaxMismatchError likewise.
        """
        index = self.index(key)
        piece = statement_around(self.pieces[index], key, self._data, self._lines, self._layout)
        if piece is None:
            return None
        if piece.start not in self._statements:
            self._statements[piece.start] = piece, self._read(piece)[0]
        return self._statements[piece.start]

    def _read(self, piece: Piece) -> tuple[cst.Module, dict[cst.CSTNode, Key]]:
        if any(_is_deeper(node, _DEEPEST) for node in piece.nodes):
            raise SyntaxMismatchError("it is nested too deeply to be rewritten")
        text = piece.before + self._data[piece.start : piece.end].decode()
        try:
            tree = cst.parse_module(text)
        except cst.ParserSyntaxError as error:
            raise SyntaxMismatchError(f"libcst cannot read it: {error.message}") from None
        except RecursionError:
            raise SyntaxMismatchError("it is nested too deeply to be rewritten") from None
        if tree.code != text:
            raise SyntaxMismatchError("libcst does not give it back unchanged")
        if self._layout is not None:
            # Where the first piece indents nothing, what is put into it is indented as the rest.
            tree = tree.with_changes(default_indent=self._layout.indent)
        wrapper = _Wrapper(tree, unsafe_skip_copy=True)
        moved = piece.start - len(piece.before.encode())
        spans = {
            node: (span.start + moved, span.start + span.length + moved)
            for node, span in wrapper.resolve(ByteSpanPositionProvider).items()
            if span.start + moved >= piece.start
        }
        self.spans |= spans
        return wrapper.module, spans

    def rewritten(self, trees: Iterable[tuple[Piece, cst.Module]]) -> str | None:
        """The text with some pieces as they are now; None if they cannot stand where they stood."""
        parts: list[str] = []
        at = 0
        for piece, tree in sorted(trees, key=lambda pair: pair[0].start):
            code = tree.code
            if not code.startswith(piece.before):
                return None
            code = code[len(piece.before) :]
            if code and not code.endswith(("\n", "\r")) and len(self.pieces) > 1:
                return None
            parts += [self._data[at : piece.start].decode(), code]
            at = piece.end
        return "".join([*parts, self._data[at:].decode()])

    def key(self, node: ast.AST) -> Key:
        """The byte span of an ``ast`` node."""
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        last, end = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return self._lines[line - 1] + column, self._lines[last - 1] + end

    def place(self, node: ast.expr) -> Key:
        """The byte span of an expression as libcst has it: without parentheses of its own."""
        kind = _PARENTHESISED.get(type(node))
        start, end = self.key(node)
        if kind is None:
            return start, end
        inside = [key for key, _ in self.inside((start, end), kind)]
        return max(inside, key=lambda key: key[1] - key[0], default=(start, end))

    def inside(self, span: Key, kind: type[_N]) -> Iterator[tuple[Key, _N]]:
        """The nodes of this kind at or inside the span of a node, with their own spans."""
        self.tree(self.index(span))
        for key, nodes in self._by_key.items():
            if span[0] <= key[0] and key[1] <= span[1]:
                yield from ((key, node) for node in nodes if isinstance(node, kind))

    def find(self, node: ast.AST, kind: type[_N]) -> _N:
        """The libcst node of this kind that stands where the ``ast`` node stands.

        Raises SyntaxMismatchError where there is none.
        """
        key = self.key(node)
        self.tree(self.index(key))
        for found in self._by_key.get(key, ()):
            if isinstance(found, kind):
                return found
        line = getattr(node, "lineno", 1)
        raise SyntaxMismatchError(f"libcst reads line {line} differently from Python")


def code_of(node: cst.CSTNode) -> str:
    """The text of a node by itself."""
    return cst.Module(body=[]).code_for_node(node)
