from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscaffold.scaffold.shape_expr import ShapeError, check_expression, split_shape


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("x.shape[0]", "x.shape[0]"),
        ("x.size(-1)+n", "x.shape[-1] + n"),
        ("(x.shape[0]+1)//2", "(x.shape[0] + 1) // 2"),
        ("x.numel() % 3 - -n", "x.numel() % 3 - -n"),
        ("x.ndim * 2", "x.ndim * 2"),
        ("7", "7"),
    ],
)
def test_sizes_are_brought_to_one_form(text: str, normal: str) -> None:
    assert check_expression(text, ["x"], ["n"]) == normal
    assert check_expression(normal, ["x"], ["n"]) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "y.shape[0]",
        "x.shape",
        "x.shape[n]",
        "x.shape[0:1]",
        "x.shape[True]",
        "x.data",
        "x.size()",
        "x.size(dim=0)",
        "x.numel(1)",
        "x.shape[0](1)",
        "x.shape.__class__",
        "n.real",
        "x.__class__.__mro__",
        "__import__('os')",
        "open('f')",
        "print(n)",
        "lambda: 1",
        "n if n else 1",
        "[n for n in x]",
        "(n, 2)",
        "n ** 9",
        "n / 2",
        "n << 2",
        "not n",
        "~n",
        "n and 1",
        "n == 1",
        "(y := 1)",
        "1.5",
        "'a'",
        "True",
        "None",
        "1j",
        "-1",
        "0",
        "1 // 0",
        "n % 0",
        "99999999999",
        "x.shape[64]",
        "n\nimport os",
        "n; n",
        "n # c",
        "f'{n}'",
        "{{n}}",
        "n\\",
        "\u00f1",
        "x.shape[0",
        "(" * 150,
        "n" * 201,
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        check_expression(text, ["x"], ["n"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("()", ()),
        ("[n, 2]", ("n", "2")),
        ("(n, 2)", ("n", "2")),
        ("n,", ("n",)),
        ("(n + 1) * (n + 2)", ("(n + 1) * (n + 2)",)),
        ("x.size(0), (n + 1) * 2", ("x.size(0)", "(n + 1) * 2")),
    ],
)
def test_a_shape_is_split_at_its_own_commas(text: str, parts: tuple[str, ...]) -> None:
    assert split_shape(text) == parts


@given(st.text(alphabet="xn.shape[]()0129+-*/% ,_", max_size=30) | st.text(max_size=30))
def test_any_text_is_a_size_or_refused(text: str) -> None:
    try:
        normal = check_expression(text, ["x"], ["n"])
    except ShapeError:
        return
    assert check_expression(normal, ["x"], ["n"]) == normal
