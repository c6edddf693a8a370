"""Lists of arguments, parameters and names: what is added or removed, and what stays."""

from __future__ import annotations

import textwrap
from typing import Any

import libcst as cst
import pytest

from opscaffold.migrate.sequences import append, insert_after, remove_at
from opscaffold.migrate.signature import (
    parameter_code,
    parameter_named,
    with_keyword_out,
    without_optional,
    without_parameter,
)
from opscaffold.migrate.syntax import code_of


def call(text: str) -> cst.Call:
    return cst.ensure_type(cst.parse_expression(textwrap.dedent(text).strip()), cst.Call)


def changed(text: str, args: Any) -> str:
    node = call(text)
    return code_of(node.with_changes(args=args(node.args)))


REMOVED = [
    ("f(a, b, c)", 0, "f(b, c)"),
    ("f(a, b, c)", 1, "f(a, c)"),
    ("f(a, b, c)", 2, "f(a, b)"),
    ("f(a)", 0, "f()"),
    ("f(a, b,)", 1, "f(a,)"),
    ("f(a, b=1)", 0, "f(b=1)"),
    ("f( a, b )", 1, "f( a )"),
    ("f(\n    a,\n    b,\n)", 1, "f(\n    a,\n)"),
    ("f(\n    a,\n    b,\n    c,\n)", 1, "f(\n    a,\n    c,\n)"),
    ("f(\n    a,\n    b\n)", 1, "f(\n    a\n)"),
    ("f(a,\n  b)", 1, "f(a)"),
    # Comments stay with the item they stand by.
    ("f(\n    a,  # a\n    b,  # b\n)", 1, "f(\n    a,  # a\n)"),
    ("f(\n    a,  # a\n    b  # b\n)", 1, "f(\n    a,  # a\n)"),
    ("f(\n    a,\n    b,  # b\n)", 1, "f(\n    a,\n)"),
    ("f(\n    a,\n    b  # b\n)", 1, "f(\n    a\n)"),
    ("f(\n    a,  # a\n    b,  # b\n    c,  # c\n)", 1, "f(\n    a,  # a\n    c,  # c\n)"),
    ("f(\n    a,\n    # b\n    b,\n    # c\n    c,\n)", 1, "f(\n    a,\n    # c\n    c,\n)"),
    ("f(\n    a,\n    # b\n    b,\n    c,\n)", 1, "f(\n    a,\n    c,\n)"),
    ("f(\n    a,\n    b,\n    # c\n    c,\n)", 1, "f(\n    a,\n    # c\n    c,\n)"),
    ("f(\n    a,\n    # b\n    b,\n    # end\n)", 1, "f(\n    a,\n    # end\n)"),
    ("f(\n    a,  # a\n    b,  # b\n    # end\n)", 1, "f(\n    a,  # a\n    # end\n)"),
]


@pytest.mark.parametrize(("text", "index", "expected"), REMOVED)
def test_one_item_is_removed(text: str, index: int, expected: str) -> None:
    assert changed(text, lambda args: remove_at(args, index)) == expected


NEW = cst.Arg(cst.Name("new"))

APPENDED = [
    ("f()", "f(new)"),
    ("f(a)", "f(a, new)"),
    ("f(a, b)", "f(a, b, new)"),
    ("f(a, b,)", "f(a, b, new,)"),
    ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    new,\n)"),
    ("f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    new\n)"),
    ("f(a,\n  b)", "f(a,\n  b,\n  new)"),
    ("f(\n    a,\n    b,  # b\n)", "f(\n    a,\n    b,  # b\n    new,\n)"),
    ("f(\n    a,  # a\n    b,\n)", "f(\n    a,  # a\n    b,\n    new,\n)"),
    ("f(\n    a,\n    b  # b\n)", "f(\n    a,\n    b,  # b\n    new\n)"),
    ("f(\n    a,\n    b,\n    # end\n)", "f(\n    a,\n    b,\n    new,\n    # end\n)"),
    ("f(\n    a,\n    b,  # b\n    # end\n)", "f(\n    a,\n    b,  # b\n    new,\n    # end\n)"),
    ("f(\n    a,\n    # b\n    b,\n)", "f(\n    a,\n    # b\n    b,\n    new,\n)"),
]


@pytest.mark.parametrize(("text", "expected"), APPENDED)
def test_one_item_is_appended(text: str, expected: str) -> None:
    assert changed(text, lambda args: append(args, NEW)) == expected


INSERTED = [
    ("f(a, b)", "f(a, new, b)"),
    ("f(\n    a,\n    b,\n)", "f(\n    a,\n    new,\n    b,\n)"),
    ("f(\n    a,  # a\n    b,\n)", "f(\n    a,  # a\n    new,\n    b,\n)"),
    ("f(\n    a,\n    # b\n    b,\n)", "f(\n    a,\n    new,\n    # b\n    b,\n)"),
    ("f(\n    a,  # a\n    # b\n    b,\n)", "f(\n    a,  # a\n    new,\n    # b\n    b,\n)"),
]


@pytest.mark.parametrize(("text", "expected"), INSERTED)
def test_one_item_is_inserted_behind_the_first(text: str, expected: str) -> None:
    assert changed(text, lambda args: insert_after(args, 0, NEW)) == expected


OPTIONALS = [
    ("Optional[Tensor]", "Tensor"),
    ("typing.Optional[torch.Tensor]", "torch.Tensor"),
    ("Tensor | None", "Tensor"),
    ("None | torch.Tensor", "torch.Tensor"),
    ("Union[Tensor, None]", "Tensor"),
    ("t.Union[None, Tensor]", "Tensor"),
    ('"Tensor | None"', '"Tensor"'),
    ("'Optional[torch.Tensor]'", "'torch.Tensor'"),
    ('Optional["Tensor"]', '"Tensor"'),
    ("Tensor", "Tensor"),
    ('"Tensor"', '"Tensor"'),
    ('"not an expression ("', '"not an expression ("'),
    ("Union[Tensor, int, None]", "Union[Tensor, int, None]"),
    ("list[Tensor]", "list[Tensor]"),
]


@pytest.mark.parametrize(("text", "expected"), OPTIONALS)
def test_annotation_without_none(text: str, expected: str) -> None:
    assert code_of(without_optional(cst.parse_expression(text))) == expected


SIGNATURES = [
    ("x, out=None", "x", "x, *, out"),
    ("x, out=None, k=1", "x, k=1", "x, k=1, *, out"),
    ("out, x", "x", "x, *, out"),
    ("out=None", "", "*, out"),
    ("x, *, out=None", "x", "x, *, out"),
    ("x, *, out=None, k=1", "x, *, k=1", "x, *, k=1, out"),
    ("x, *, k=1, out=None", "x, *, k=1", "x, *, k=1, out"),
    ("x, out=None, *, k=1", "x, *, k=1", "x, *, k=1, out"),
    ("x: Tensor, out: Optional[Tensor] = None", "x: Tensor", "x: Tensor, *, out: Tensor"),
    ("x: Tensor, out: Tensor=None", "x: Tensor", "x: Tensor, *, out: Tensor"),
    ('x, out: "Tensor | None" = None, k=1', "x, k=1", 'x, k=1, *, out: "Tensor"'),
    ("x, out=None,", "x,", "x, *, out,"),
    (
        "\n    x,  # x\n    out=None,  # out\n",
        "\n    x,  # x\n",
        "\n    x,  # x\n    *,\n    out,  # out\n",
    ),
    (
        "\n    x,\n    # out\n    out=None,\n    # k\n    k=1,\n",
        "\n    x,\n    # k\n    k=1,\n",
        "\n    x,\n    # k\n    k=1,\n    *,\n    # out\n    out,\n",
    ),
    (
        "\n    x,\n    out=None\n",
        "\n    x\n",
        "\n    x,\n    *,\n    out\n",
    ),
]


@pytest.mark.parametrize(("parameters", "without", "with_out"), SIGNATURES)
def test_parameters_of_both_halves(parameters: str, without: str, with_out: str) -> None:
    def text(of: Any) -> str:
        function = cst.ensure_type(
            cst.parse_statement(f"def f({parameters}): pass\n"), cst.FunctionDef
        )
        code = code_of(function.with_changes(params=of(function.params)))
        return code.removeprefix("def f(").removesuffix("): pass\n")

    assert text(lambda params: without_parameter(params, "out")) == without
    assert text(lambda params: with_keyword_out(params, "out")) == with_out


def test_parameters_are_found_wherever_they_stand() -> None:
    function = cst.ensure_type(
        cst.parse_statement("def f(a, /, b: int = 1, *, c=2): pass\n"), cst.FunctionDef
    )
    found = [parameter_named(function.params, name) for name in "abcd"]
    texts = [None if p is None else parameter_code(p) for p in found]
    assert texts == ["a", "b: int = 1", "c=2", None]
    with pytest.raises(KeyError):
        with_keyword_out(function.params, "d")
