"""One file as a libcst tree whose nodes are found by the positions that ``ast`` gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from opscaffold.source.model import Module

Key = tuple[int, int]
"""Start and end of a node in bytes of the file's text as UTF-8."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
# ``ast`` counts the parentheses of these as part of them.
_PARENTHESISED: dict[type[ast.expr], type[cst.CSTNode]] = {
    ast.Tuple: cst.Tuple,
    ast.GeneratorExp: cst.GeneratorExp,
}
# libcst takes some ten seconds for a megabyte, and a repair reads a file several times.
_LONGEST = 2_000_000
# libcst reads in native code, which dies of a few thousand levels where Python would raise.
_DEEPEST = 1_000
_N = TypeVar("_N", bound=cst.CSTNode)


class SyntaxMismatchError(Exception):
    """A file that is not rewritten: libcst reads it differently from ``ast``, or it is too long."""


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
    """The libcst tree of one module, and the way from ``ast`` nodes into it."""

    def __init__(self, module: Module) -> None:
        """Parse. Raises SyntaxMismatchError where the tree would not print the same text."""
        text = module.source.text
        if len(text) > _LONGEST:
            raise SyntaxMismatchError(f"it is longer than {_LONGEST:,} characters")
        if _is_deeper(module.tree, _DEEPEST):
            raise SyntaxMismatchError("it is nested too deeply to be rewritten")
        try:
            tree = cst.parse_module(text)
        except cst.ParserSyntaxError as error:
            raise SyntaxMismatchError(f"libcst cannot read it: {error.message}") from None
        except RecursionError:
            raise SyntaxMismatchError("it is nested too deeply to be rewritten") from None
        if tree.code != text:
            raise SyntaxMismatchError("libcst does not give it back unchanged")
        wrapper = _Wrapper(tree, unsafe_skip_copy=True)
        self.tree = wrapper.module
        self.spans: Mapping[cst.CSTNode, Key] = {
            node: (span.start, span.start + span.length)
            for node, span in wrapper.resolve(ByteSpanPositionProvider).items()
        }
        self._by_key: dict[Key, list[cst.CSTNode]] = {}
        for node, key in self.spans.items():
            self._by_key.setdefault(key, []).append(node)
        data = text.encode()
        self._lines = [0, *(m.end() for m in _LINE_END.finditer(data))]

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
        inside = [
            key
            for found, key in self.spans.items()
            if isinstance(found, kind) and start <= key[0] and key[1] <= end
        ]
        return max(inside, key=lambda key: key[1] - key[0], default=(start, end))

    def find(self, node: ast.AST, kind: type[_N]) -> _N:
        """The libcst node of this kind that stands where the ``ast`` node stands.

        Raises SyntaxMismatchError where there is none.
        """
        for found in self._by_key.get(self.key(node), ()):
            if isinstance(found, kind):
                return found
        line = getattr(node, "lineno", 1)
        raise SyntaxMismatchError(f"libcst reads line {line} differently from Python")


def code_of(node: cst.CSTNode) -> str:
    """The text of a node by itself."""
    return cst.Module(body=[]).code_for_node(node)
