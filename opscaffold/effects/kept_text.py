"""Printing rewritten statements in the words of the source: layout, quotes and comments stay."""

from __future__ import annotations

import ast


class Printer:
    """Prints statements with the text that their expressions had, where they are as they were."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.lines = code.split("\n")

    def block(self, body: list[ast.stmt]) -> list[str]:
        """The lines of a block, without its indentation."""
        return [line for node in body for line in self.statement(node)]

    def statement(self, node: ast.stmt) -> list[str]:
        """The lines of a statement."""
        match node:
            case ast.Return(value=ast.expr() as value):
                return f"return {self.text(value)}".split("\n")
            case ast.If():
                return self.branch(node, "if")
            case ast.Assign() if len(node.targets) == 1:
                return f"{self.text(node.targets[0])} = {self.text(node.value)}".split("\n")
        return ast.unparse(node).split("\n")

    def branch(self, node: ast.If, word: str) -> list[str]:
        """The lines of a branch that begins with ``if`` or ``elif``."""
        lines = f"{word} {self.text(node.test)}:".split("\n")
        lines += ["    " + line for line in self.block(node.body)]
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            return lines + self.branch(node.orelse[0], "elif")
        if node.orelse:
            lines += ["else:", *("    " + line for line in self.block(node.orelse))]
        return lines

    def text(self, node: ast.expr) -> str:
        """An expression, on the lines that it had where nothing in it was replaced."""
        segment = ast.get_source_segment(self.code, node)
        if segment is not None and "\n" in segment:
            segment = self.laid_out(node, segment)
        # What is part of the expression may have been replaced, and its text not.
        if segment is None or not _reads_as(segment, node):
            return ast.unparse(node)
        return segment

    def laid_out(self, node: ast.expr, segment: str) -> str | None:
        """Text of several lines at the left margin; None where that would change a string."""
        if any(isinstance(n, ast.Constant | ast.JoinedStr) and _is_tall(n) for n in ast.walk(node)):
            return None
        line = self.lines[node.lineno - 1]
        margin = line[: len(line) - len(line.lstrip())]
        first, *rest = segment.split("\n")
        if any(part.strip() and not part.startswith(margin) for part in rest):
            return None
        moved = [first, *(part[len(margin) :] for part in rest)]
        if node.col_offset == len(margin):
            return "\n".join(["(", *("    " + part for part in moved), ")"])
        text = "\n".join(moved)
        return text if _reads_as(text, node) else f"({text})"


def _reads_as(text: str, node: ast.expr) -> bool:
    """Whether a text means the expression, whatever it was before a part was replaced."""
    try:
        read = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return _meaning(read) == _meaning(node)


def _meaning(node: ast.expr) -> str:
    # A target differs from what is read in its context only.
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()")


def _is_tall(node: ast.expr) -> bool:
    return node.end_lineno != node.lineno
