"""Expressions for the size of an output dimension: a closed language that cannot run code.

An expression may hold ints, int arguments of the op, sizes of its Tensor arguments
(``x.shape[0]``, ``x.size(0)``, ``x.numel()``, ``x.ndim``) and ``+ - * // %`` with brackets.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection

MAX_LENGTH = 200
MAX_INT = 2**31 - 1
MAX_DIMENSION = 63

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_CHARACTERS = re.compile(r"[A-Za-z0-9_ .,()\[\]+*/%-]*")
_ALLOWED = "ints, int arguments, sizes such as x.shape[0], and + - * // %"


class ShapeError(ValueError):
    """An expression that is not in the language; the text says why."""


def split_shape(text: str) -> tuple[str, ...]:
    """Split ``x.shape[0], x.shape[1] * 2`` at the commas outside brackets.

    The brackets of a whole ``(...)`` or ``[...]`` are dropped. An empty text is the shape of a
    0-d tensor.
    """
    text = text.strip()
    if text[:1] + text[-1:] in ("()", "[]") and _closes_at_end(text):
        inside = text[1:-1].strip()
        if text[0] == "[" or not inside or "," in inside:
            text = inside
    parts: list[str] = []
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    if parts[-1] == "":
        parts.pop()
    return tuple(parts)


def _closes_at_end(text: str) -> bool:
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0:
            return position == len(text) - 1
    return False


def check_expression(text: str, tensors: Collection[str], ints: Collection[str]) -> str:
    """Return the expression in its normal form, ``x.shape[0] * 2``.

    ``tensors`` names the arguments whose sizes may be read, ``ints`` the arguments that may
    stand for themselves. Raises ShapeError for anything else.
    """
    text = text.strip()
    if not text:
        raise ShapeError("a dimension is empty; write one expression a dimension")
    if len(text) > MAX_LENGTH:
        raise ShapeError(f"an expression may have {MAX_LENGTH} characters at most")
    if not _CHARACTERS.fullmatch(text):
        raise ShapeError(f"{text!r} may only hold {_ALLOWED}")
    try:
        with warnings.catch_warnings():  # newer Pythons warn of "1or 2"
            warnings.simplefilter("ignore")
            node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ShapeError(f"{text!r} is no expression; it may hold {_ALLOWED}") from None
    normal = _Normaliser(tensors, ints).visit(node)
    if isinstance(node, ast.Constant) and node.value == 0:
        raise ShapeError("a dimension that is always 0 makes every output empty")
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        raise ShapeError(f"{text!r} is negative; a size is not")
    return ast.unparse(normal)


class _Normaliser(ast.NodeVisitor):
    """Rebuilds the whitelisted nodes and refuses every other one."""

    def __init__(self, tensors: Collection[str], ints: Collection[str]) -> None:
        self.tensors = tensors
        self.ints = ints

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if type(node.value) is not int:
            raise ShapeError(f"{node.value!r} is not an int; sizes are made of ints")
        if node.value > MAX_INT:
            raise ShapeError(f"{node.value} is too large for a size")
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.ints:
            return node
        if node.id in self.tensors:
            raise ShapeError(f"{node.id} is a Tensor; write one of its sizes, {node.id}.shape[0]")
        raise ShapeError(f"{node.id} is no int argument of the op{self._known()}")

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if not isinstance(node.op, _OPERATORS):
            raise ShapeError(f"{ast.unparse(node)!r}: only + - * // % make sizes out of sizes")
        if (
            isinstance(node.op, (ast.FloorDiv, ast.Mod))
            and isinstance(node.right, ast.Constant)
            and node.right.value == 0
        ):
            raise ShapeError(f"{ast.unparse(node)!r} divides by zero")
        return ast.BinOp(self.visit(node.left), node.op, self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if not isinstance(node.op, ast.USub):
            raise ShapeError(f"{ast.unparse(node)!r}: only + - * // % make sizes out of sizes")
        return ast.UnaryOp(node.op, self.visit(node.operand))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        value = node.value
        if not (isinstance(value, ast.Attribute) and value.attr == "shape"):
            raise ShapeError(f"{ast.unparse(node)!r} may only hold {_ALLOWED}")
        return self._size(self._tensor(value.value), node.slice)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        tensor = self._tensor(node.value)
        if node.attr != "ndim":
            raise ShapeError(
                f"{ast.unparse(node)!r} is no size; write {tensor.id}.shape[0], "
                f"{tensor.id}.numel() or {tensor.id}.ndim"
            )
        return ast.Attribute(tensor, "ndim", ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = node.func
        if isinstance(function, ast.Attribute) and not node.keywords:
            if function.attr == "size" and len(node.args) == 1:
                return self._size(self._tensor(function.value), node.args[0])
            if function.attr == "numel" and not node.args:
                tensor = self._tensor(function.value)
                return ast.Call(ast.Attribute(tensor, "numel", ast.Load()), [], [])
        raise ShapeError(f"{ast.unparse(node)!r} calls something; only x.size(0) and x.numel() may")

    def generic_visit(self, node: ast.AST) -> ast.expr:
        raise ShapeError(f"{ast.unparse(node)!r} may only hold {_ALLOWED}")

    def _tensor(self, node: ast.expr) -> ast.Name:
        if isinstance(node, ast.Name) and node.id in self.tensors:
            return node
        raise ShapeError(
            f"{ast.unparse(node)} is no Tensor argument that is always given{self._known()}"
        )

    def _size(self, tensor: ast.Name, index: ast.expr) -> ast.expr:
        negative = isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub)
        number = index.operand if isinstance(index, ast.UnaryOp) and negative else index
        if not isinstance(number, ast.Constant) or type(number.value) is not int:
            raise ShapeError(
                f"{tensor.id}.shape[{ast.unparse(index)}]: a dimension is a plain int, 0 or -1"
            )
        if number.value > MAX_DIMENSION:
            raise ShapeError(f"{tensor.id} cannot have {number.value + 1} dimensions")
        return ast.Subscript(ast.Attribute(tensor, "shape", ast.Load()), index, ast.Load())

    def _known(self) -> str:
        names = [f"{name}.shape[...]" for name in self.tensors] + list(self.ints)
        return f"; known are {', '.join(names)}" if names else ""
