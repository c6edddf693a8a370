"""Files are rewritten piece by piece, to the same text as if they were read whole."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import libcst as cst
import pytest

import opscaffold
from opscaffold.fs.text import SourceText
from opscaffold.migrate.edits import FileEdits, Template
from opscaffold.migrate.rewrite_file import refuse_unreadable, rewrite
from opscaffold.migrate.syntax import Syntax, SyntaxMismatchError
from opscaffold.source.load import parse_module
from opscaffold.source.model import Module

PACKAGE = Path(opscaffold.__file__).parent
LONG = "\n".join(f"        x = x + {number}  # {'far ' * 25}" for number in range(30))

CLASS = f'''\
import os


class Model:
    """Text."""

    size = 1
    # above the method

    @property
    def first(self):
        x = 0
{LONG}
        return x
        # the end of the first
    # between the two
    def second(self): return call(1)
    third = call(2)

    def last(self):
        return call(3)
'''


def module_of(text: str) -> Module:
    module = parse_module(Path("/x.py"), "x", SourceText(text, "utf-8"))
    assert isinstance(module, Module)
    return module


def both(text: str, edits: FileEdits) -> tuple[str, str]:
    """The rewritten text, by pieces and by the whole."""
    syntax = Syntax(module_of(text))
    return rewrite(syntax, edits), rewrite(syntax.whole, edits)


def changed_everywhere(syntax: Syntax, module: Module, chance: random.Random) -> FileEdits:
    """Changes of many kinds at places all over a file."""
    edits = FileEdits()
    edits.import_torch = chance.random() < 0.5
    for node in module.parents:
        if isinstance(node, ast.Call) and chance.random() < 0.1:
            edits.keywords[syntax.key(node)] = {"added": "1"}
        elif isinstance(node, ast.FunctionDef | ast.Assign) and chance.random() < 0.1:
            key = syntax.key(node)
            edits.behind[key] = [cst.parse_statement("if more:\n    again()\n")]
        elif isinstance(node, ast.FunctionDef) and chance.random() < 0.1:
            edits.removed.add(syntax.key(node))
        elif isinstance(node, ast.Attribute) and chance.random() < 0.02:
            edits.expressions[syntax.key(node)] = Template("f(_0)", (syntax.key(node),))
    return edits


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_pieces_come_to_the_same_text_as_the_whole(ending: str) -> None:
    chance, cut = random.Random(ending), 0
    for path in sorted((PACKAGE / "contract").glob("*.py"))[::4]:
        text = path.read_text("utf-8").replace("\n", ending)
        if chance.random() < 0.3:
            text = text.replace("    ", "\t")
        module = module_of(text)
        syntax = Syntax(module)
        edits = changed_everywhere(syntax, module, chance)
        cut += len(syntax.pieces) > 3
        assert rewrite(syntax, edits) == rewrite(syntax.whole, edits), path
    assert cut


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CLASS, id="a large class"),
        pytest.param(CLASS.replace("\n", "\r\n"), id="its lines end in two characters"),
        pytest.param(CLASS.replace("    ", "\t"), id="indented by tabs"),
        pytest.param(CLASS.replace("    ", "  "), id="indented by two"),
        pytest.param("if a:\n  b\n" + CLASS, id="indented otherwise before"),
        pytest.param(CLASS + "    # the end of the class\nx = call(4)\n", id="a comment behind"),
        pytest.param(CLASS + "# the end\n", id="a comment at the end"),
        pytest.param(CLASS.rstrip("\n"), id="no last line end"),
        pytest.param(
            "x = call(1); y = call(2)\nz = call(3);\n\nw = 1 \\\n  + call(4)\n", id="lines"
        ),
        pytest.param("# top\n\n'''doc'''\n# and\nimport a\n\n\f\nx = call(a)\n", id="form feed"),
        pytest.param("def f():\n    call(1)\n    # its own\n# not its own\ncall(2)\n", id="ends"),
        pytest.param("s = '''\nx\n'''; call('\u00e4', call(1))\n\u00e4 = call(2)\n", id="bytes"),
        pytest.param("async def f():\n  async with call(a): b()\nfor x in y: call(c)\n", id="one"),
    ],
)
@pytest.mark.parametrize("import_torch", [False, True])
def test_every_call_changes_as_in_the_whole(text: str, *, import_torch: bool) -> None:
    module = module_of(text)
    calls = [node for node in module.parents if isinstance(node, ast.Call)]
    assert calls
    for call in calls:
        syntax = Syntax(module)
        edits = FileEdits(import_torch=import_torch)
        edits.keywords[syntax.key(call)] = {"more": "1"}
        mine, whole = both(text, edits)
        assert mine == whole
        assert mine.count("more") == 1
        assert ast.parse(mine)


def test_methods_of_a_large_class_are_read_by_themselves() -> None:
    module = module_of(CLASS)
    syntax = Syntax(module)
    (last,) = [n for n in module.parents if isinstance(n, ast.FunctionDef) and n.name == "last"]
    syntax.find(last, cst.FunctionDef)
    read = [node for node in syntax.spans if isinstance(node, cst.FunctionDef)]
    assert [node.name.value for node in read] == ["last"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_class_that_loses_its_methods_keeps_a_body(count: int) -> None:
    body = "\n\n".join(
        f"    def f{n}(self):\n        return '{'long' * 1000}'" for n in range(count)
    )
    text = f"class A:\n{body}\n\n\nx = 1\n"
    module = module_of(text)
    syntax = Syntax(module)
    edits = FileEdits()
    functions = [node for node in module.parents if isinstance(node, ast.FunctionDef)]
    edits.removed = {syntax.key(node) for node in functions}
    mine, whole = both(text, edits)
    assert mine == whole
    assert ast.parse(mine)


def test_what_libcst_cannot_read_only_matters_where_it_changes() -> None:
    deep = "(" * 150 + "1" + ")" * 150
    nested = "x = " + "-" * 1500 + "1"
    text = f"x = call(1)\n\n\ny = {deep}\n{nested}\n"
    try:
        module = module_of(text)
    except AssertionError:
        pytest.skip("Python does not read it either")
    syntax = Syntax(module)
    for node, refused in ((module.tree.body[0], False), (module.tree.body[-1], True)):
        edits = FileEdits(expressions={syntax.key(node.value): Template("0")})  # type: ignore[attr-defined]
        if refused:
            with pytest.raises(SyntaxMismatchError, match="too deeply"):
                refuse_unreadable(syntax, edits)
        else:
            refuse_unreadable(syntax, edits)
            assert rewrite(syntax, edits).startswith("x = 0\n")


def test_a_change_in_a_simple_statement_reads_that_statement_alone() -> None:
    module = module_of(CLASS)
    syntax = Syntax(module)
    call = max((n for n in module.parents if isinstance(n, ast.Call)), key=lambda n: n.lineno)
    text = rewrite(syntax, FileEdits(keywords={syntax.key(call): {"more": "1"}}))
    assert text == CLASS.replace("call(3)", "call(3, more=1)")
    assert not any(isinstance(node, cst.FunctionDef) for node in syntax.spans)
