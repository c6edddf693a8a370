"""Sizes that fit an op's shape expressions, found without running any code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

from opscaffold.errors import UserError

Size = tuple[int, ...]

MAX_ELEMENTS = 100_000
_BASE: Size = (2, 3, 4, 5)
_UNIFORM = (4, 6, 8, 12, 16, 24, 32, 64, 128, 256)
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class NoSizesError(UserError):
    """No tensor sizes were found for which the shape expressions make sense."""


def evaluate(expressions: Sequence[str], shape: Size, numbers: Mapping[str, int]) -> Size | None:
    """The output's shape where every tensor has ``shape``, or None where there is none."""
    try:
        size = tuple(_number(ast.parse(e, mode="eval").body, shape, numbers) for e in expressions)
    except (IndexError, ZeroDivisionError):
        return None
    return size if _fits(size) else None


def _fits(size: Size) -> bool:
    return all(n >= 0 for n in size) and elements(size) <= MAX_ELEMENTS


def elements(size: Size) -> int:
    """How many elements a tensor of this size has."""
    count = 1
    for n in size:
        count *= n
    return count


def find_size(expressions: Sequence[str], numbers: Mapping[str, int]) -> Size:
    """The first size of all tensors for which the output has elements.

    Raises NoSizesError where none of those tried does.
    """
    for size in _candidates(minimal_rank(expressions)):
        result = evaluate(expressions, size, numbers)
        if result is not None and 0 not in result:
            return size
    raise NoSizesError(
        f"no sizes were found that make ({', '.join(expressions)}) a shape; every dimension must "
        f"be 1 or more for tensors of some size up to {_UNIFORM[-1]}"
    )


def minimal_rank(expressions: Sequence[str]) -> int:
    """How many dimensions the tensors must have for every index to exist."""
    needed = 0
    for node in (n for e in expressions for n in ast.walk(ast.parse(e, mode="eval"))):
        if isinstance(node, ast.Subscript):
            index = _index(node.slice)
            needed = max(needed, index + 1 if index >= 0 else -index)
    return needed


def with_rank(rank: int) -> Size:
    """A small size of that many dimensions, all of them different while that is possible."""
    return (_BASE + (1,) * rank)[:rank]


def _candidates(rank: int) -> Iterator[Size]:
    for dimensions in sorted({rank + n for n in range(5)}, key=lambda n: (n != 2, n)):
        yield with_rank(dimensions)
    for length in _UNIFORM:
        for dimensions in (max(rank, 1), max(rank, 2)):
            size = (length,) * min(dimensions, 2) + (1,) * (dimensions - 2)
            if elements(size) <= MAX_ELEMENTS:
                yield size


def _number(node: ast.expr, shape: Size, numbers: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return numbers[node.id]
    if isinstance(node, ast.BinOp):
        left, right = (_number(n, shape, numbers) for n in (node.left, node.right))
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp):
        return -_number(node.operand, shape, numbers)
    if isinstance(node, ast.Subscript):
        return shape[_index(node.slice)]
    if isinstance(node, ast.Attribute):
        return len(shape)
    return elements(shape)


def _index(node: ast.expr) -> int:
    value = ast.literal_eval(node)
    return value if isinstance(value, int) else 0
