from __future__ import annotations

import ast
import sys

import pytest

from opscaffold.fs.text import decode
from opscaffold.source.load import Problem, char_column, parse_module, span
from opscaffold.source.model import Module


def parse(path, data: bytes | str) -> Module | Problem:
    raw = data.encode() if isinstance(data, str) else data
    return parse_module(path / "m.py", "m", decode(raw, path / "m.py"))


def module(path, data: bytes | str) -> Module:
    parsed = parse(path, data)
    assert isinstance(parsed, Module)
    return parsed


@pytest.mark.parametrize(
    "data",
    [
        "é = 'ä'; f(é, 'x', wanted)\n".encode(),
        b"\xef\xbb\xbfx = 1\nf('\xc3\xa4', wanted)\n",
        b"# coding: latin-1\nf('\xe4\xf6', wanted)\n",
        b"a = 1\r\nb = 2\rf('\xf0\x9f\x94\xa5',\r\n  wanted)\r\n",
        "x = '\x0c\u2028'\n\x0cf('\u2029', wanted)".encode(),
        'f"""\nä{wanted}"""\n'.encode() if sys.version_info >= (3, 12) else b"wanted",
    ],
)
def test_spans_are_those_of_the_text(tmp_path, data):
    read = module(tmp_path, data)
    (name,) = [n for n in ast.walk(read.tree) if isinstance(n, ast.Name) and n.id == "wanted"]
    start, end = span(read, name)
    assert read.source.text[start:end] == "wanted"


def test_columns_for_people_count_characters_from_one(tmp_path):
    read = module(tmp_path, "x\n'äöü'; wanted\n")
    name = read.tree.body[-1].value
    assert name.col_offset == 10
    assert char_column(read, name) == 8


def test_a_node_without_position_has_no_span(tmp_path):
    read = module(tmp_path, "def f(): ...\n")
    with pytest.raises(ValueError, match="arguments has no position"):
        span(read, read.tree.body[0].args)


def test_every_node_knows_what_holds_it(tmp_path):
    read = module(
        tmp_path,
        "@d(1)\nclass A(B, k=C):\n    def f(self, x: int = 1, *a, y, **k) -> 'r':\n"
        "        for i, (j, *l) in {**x, 'a': [*y]}.items():\n"
        "            with z as w, v: del w\n"
        "        try: raise E from c\n        except E as e: return lambda q=1: q\n"
        "        match x:\n            case {'k': [1, *rest], **more} | P(t=u):\n"
        "                assert f'{x!r:{y}}'\n"
        "        return [a async for a in b if not c < d <= e], x[1:2], (yield)\n",
    )
    plain = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    for node in ast.walk(read.tree):
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, plain):
                assert read.parents[child] is node


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("type X = int\n", (3, 12)),
        ("type X[T] = list[T]\n", (3, 12)),
        ("def f[T](x: T) -> T: ...\n", (3, 12)),
        ("async def f[T](x: T): ...\n", (3, 12)),
        ("class A[T]: ...\n", (3, 12)),
        ("f'{x['a']}'\n", (3, 12)),
        ("f'{'\\n'.join(x)}'\n", (3, 12)),
        ("try: ...\nexcept A, B: ...\n", (3, 14)),
        ("x = t'{y}'\n", (3, 14)),
        ("try: ...\nexcept* A: ...\n", (3, 11)),
        ("x[*y]\n", (3, 11)),
    ],
)
def test_grammar_of_a_later_python_is_called_that(tmp_path, text, release):
    parsed = parse(tmp_path, "import torch\n" + text)
    if sys.version_info >= release:
        assert isinstance(parsed, Module)
    else:
        assert isinstance(parsed, Problem)
        assert parsed.message.startswith(f"needs a newer Python to read ({release[0]}.{release[1]}")


@pytest.mark.parametrize(
    ("text", "line"),
    [("x = (\n", 1), ("a = 1\ndef f(:\n", 2), ("print 'x'\n", 1), ("  x\n y\n", 1)],
)
def test_wrong_source_is_a_syntax_error_with_its_place(tmp_path, text, line):
    parsed = parse(tmp_path, text)
    assert isinstance(parsed, Problem)
    assert parsed.message.startswith("syntax error: ")
    assert parsed.line == line
    assert parsed.column >= 1


@pytest.mark.parametrize(
    "text",
    [
        "(" * 150 + "x" + ")" * 150,
        "-" * 50_000 + "1",
        "a" + ".b" * 20_000,
        "x = " + "+".join(["1"] * 20_000),
    ],
)
def test_deep_nesting_is_survived(tmp_path, text):
    parsed = parse(tmp_path, text)
    assert isinstance(parsed, (Module, Problem))


def test_reading_warns_of_nothing(tmp_path):
    module(tmp_path, "x = '\\d'\nassert (x, 'always true')\nx is 'literal'\n")
