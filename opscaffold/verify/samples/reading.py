"""What the source of a kernel tells: its tests, and the values and shapes that it looks for."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

_INDEXING = {
    *("embedding", "gather", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill"),
    *("index_fill_", "index_put", "index_put_", "index_select", "one_hot", "scatter", "scatter_"),
    *("scatter_add", "scatter_add_", "scatter_reduce", "take", "take_along_dim", "bincount"),
}
_COUNTS = ("dim", "ndimension")
_NAMES = ("idx", "index", "indices", "ids", "pick", "slot", "offset", "lengths", "labels")
_MAX_SIZE = 128


@dataclass(frozen=True)
class Test:
    """An expression whose outcome a call can decide. ``node`` is evaluated when its line runs."""

    node: ast.expr
    line: int
    column: int


@dataclass
class Clues:
    """What a kernel compares its arguments with."""

    ranks: set[int] = field(default_factory=set)
    rank_of: dict[str, int] = field(default_factory=dict)
    dtypes: list[torch.dtype] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    integers: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    indices: set[str] = field(default_factory=set)
    """Parameters that index another tensor."""
    masks: set[str] = field(default_factory=set)


@functools.cache
def functions_in(path: str) -> dict[tuple[str, int], ast.AST]:
    """Every function and lambda of a file, by name and first line; none where it is no source."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[tuple[str, int], ast.AST] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = [node.lineno, *(each.lineno for each in node.decorator_list)]
            found[node.name, min(lines)] = node
        elif isinstance(node, ast.Lambda):
            found["<lambda>", node.lineno] = node
    return found


def source_of(code: CodeType) -> ast.AST | None:
    """The function that a code object was compiled from, or None."""
    return functions_in(code.co_filename).get((code.co_name, code.co_firstlineno))


def code_of(function: Any) -> CodeType | None:
    """The code of a Python function under its wrappers, or None."""
    plain = inspect.unwrap(function) if callable(function) else function
    code = getattr(plain, "__code__", None)
    return code if isinstance(code, CodeType) else None


def raising_lines(function: ast.AST) -> set[int]:
    """The lines of the ``raise`` statements: no call that is accepted reaches them."""
    return {
        line
        for node in ast.walk(function)
        if isinstance(node, ast.Raise)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


@functools.cache
def tests_in(path: str) -> dict[int, list[Test]]:
    """The tests of a file's functions, by the line on which they stand."""
    found: dict[int, dict[tuple[int, str], Test]] = {}
    for function in functions_in(path).values():
        for node in ast.walk(function):
            for each in _tests(node):
                key = (each.col_offset, ast.dump(each))
                found.setdefault(each.lineno, {})[key] = Test(each, each.lineno, each.col_offset)
    return {line: list(tests.values()) for line, tests in found.items()}


def _tests(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        yield node.test
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.Compare):
        yield node
    elif isinstance(node, ast.Call) and _is_min_or_max(node):
        yield ast.copy_location(ast.Compare(node.args[0], [ast.Lt()], [node.args[1]]), node)


def _is_min_or_max(node: ast.Call) -> bool:
    named = isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
    return named and len(node.args) == 2 and not node.keywords


def clues_of(kernels: Sequence[Callable[..., Any]], parameters: Sequence[str]) -> Clues:
    """What the kernels, and the functions of the same file that they name, look for."""
    clues = Clues()
    waiting = [code for code in map(code_of, kernels) if code is not None]
    seen: set[CodeType] = set()
    while waiting:
        code = waiting.pop()
        if code in seen:
            continue
        seen.add(code)
        function = source_of(code)
        if function is None:
            continue
        _read(function, set(parameters), clues)
        called = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        waiting += _named(code, kernels, called)
    for name in parameters:
        words = name.lower().strip("_").split("_")
        if "mask" in words:
            clues.masks.add(name)
        elif any(word in _NAMES for word in words):
            clues.indices.add(name)
    clues.indices -= clues.masks
    return clues


def _named(
    code: CodeType, kernels: Sequence[Callable[..., Any]], names: set[str]
) -> Iterator[CodeType]:
    for kernel in kernels:
        space = getattr(inspect.unwrap(kernel), "__globals__", {})
        for name in sorted(names):
            other = code_of(space.get(name))
            if other is not None and other.co_filename == code.co_filename:
                yield other


def _read(function: ast.AST, parameters: set[str], clues: Clues) -> None:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            owner = _shape_owner(node.value)
            if owner is not None:
                length = len(node.targets[0].elts)
                clues.ranks.add(length)
                clues.rank_of.setdefault(owner, length)
        elif isinstance(node, ast.Constant):
            _constant(node.value, clues)
        elif isinstance(node, ast.Attribute):
            dtype = getattr(torch, node.attr, None)
            if isinstance(dtype, torch.dtype) and dtype not in clues.dtypes:
                clues.dtypes.append(dtype)
        elif isinstance(node, ast.Compare):
            _comparison(node, clues)
        elif isinstance(node, ast.Subscript):
            clues.indices |= _indexed_by(node.slice, parameters)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _INDEXING:
                given = [*node.args, *(each.value for each in node.keywords)]
                # The first argument of torch.gather(x, 0, index) is what is indexed.
                start = 1 if _is_module(node.func.value) else 0
                if node.func.attr == "embedding":
                    start, given = 0, given[:1]
                clues.indices |= _names_in(given[start:3], parameters)
            elif node.func.attr.startswith("masked_"):
                clues.masks |= _names_in(node.args[:1], parameters)


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in (
        *("torch", "F", "torch.nn.functional", "functional"),
    )


def _names_in(nodes: Sequence[ast.expr], parameters: set[str]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name) and node.id in parameters}


def _indexed_by(index: ast.expr, parameters: set[str]) -> set[str]:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return _names_in(parts, parameters)


def _constant(value: object, clues: Clues) -> None:
    if isinstance(value, str):
        if len(value) <= 40 and value.isprintable() and "\n" not in value:
            clues.texts.append(value)
    elif isinstance(value, bool):
        return
    elif isinstance(value, int):
        if abs(value) <= _MAX_SIZE and value not in clues.integers:
            clues.integers.append(value)
    elif isinstance(value, float) and value not in clues.floats:
        clues.floats.append(value)


def _comparison(node: ast.Compare, clues: Clues) -> None:
    sides = [node.left, *node.comparators]
    if not any(_is_rank(side) for side in sides):
        return
    for side in sides:
        for each in ast.walk(side):
            if isinstance(each, ast.Constant) and type(each.value) is int and each.value <= 6:
                clues.ranks |= {each.value, each.value + 1}
    clues.ranks = {rank for rank in clues.ranks if 0 <= rank <= 6}


def _is_rank(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "ndim"
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in _COUNTS
    return ast.unparse(node.func) == "len" and ".shape" in ast.unparse(node)


def _shape_owner(node: ast.expr) -> str | None:
    """``x`` of ``x.shape`` and ``x.size()``."""
    if isinstance(node, ast.Call) and not node.args:
        node = node.func
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "size"):
        return node.value.id if isinstance(node.value, ast.Name) else None
    return None
