"""Where a finding is shown to stand: all of an expression, the name of a definition."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from opscaffold.fs.text import decode
from opscaffold.rules.base import position
from opscaffold.source.load import parse_module
from opscaffold.source.model import Module


def parsed(text: str) -> Module:
    path = Path("a.py")
    module = parse_module(path, "a", decode(text.encode(), path))
    assert isinstance(module, Module)
    return module


def shown(text: str, kind: type[ast.AST]) -> tuple[int, str]:
    """The line of the first node of a kind, and what of it is marked."""
    module = parsed(text)
    node = next(n for n in module.parents if isinstance(n, kind))
    place = position(module, node)
    assert place.end is not None
    return place.line, text.split("\n")[place.line - 1][place.column - 1 : place.end - 1]


@pytest.mark.parametrize(
    ("text", "kind", "line", "marked"),
    [
        ("x = f(1, y)  # so\n", ast.Call, 1, "f(1, y)"),
        ("def f():\n    return x + 1\n", ast.Return, 2, "return x + 1"),
        ("'数', f('値', 1)\n", ast.Call, 1, "f('値', 1)"),
        ("x = f(1,\n      2)\n", ast.Call, 1, "f(1,"),
        ("x = f(   \n    2)\n", ast.Call, 1, "f("),
        ("@deco\ndef scale(x): ...\n", ast.FunctionDef, 2, "scale"),
        ("async  def scale(x):\n    pass\n", ast.AsyncFunctionDef, 1, "scale"),
        ("class  Scale(Base):\n    pass\n", ast.ClassDef, 1, "Scale"),
        ("def scale(数: Tensor = 1): ...\n", ast.arg, 1, "数"),
        ("f(mutates_args=('x',))\n", ast.keyword, 1, "mutates_args=('x',)"),
    ],
)
def test_what_is_marked(text: str, kind: type[ast.AST], line: int, marked: str) -> None:
    assert shown(text, kind) == (line, marked)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_of_every_kind_end_what_is_marked(end: str) -> None:
    module = parsed(f"a = 1{end}x = f(1,{end}      2){end}")
    node = next(n for n in module.parents if isinstance(n, ast.Call))
    place = position(module, node)
    assert (place.line, place.column, place.end) == (2, 5, 9)
