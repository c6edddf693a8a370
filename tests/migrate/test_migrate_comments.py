"""No comment of a statement is lost when its calls are rewritten."""

from __future__ import annotations

import io
import textwrap
import tokenize
from collections.abc import Iterator
from functools import cache

import pytest
from migrating import HEADER, migrated

# An op whose halves both return, one whose writing half returns nothing, and one with a flag.
OPS = (
    HEADER
    + """\
@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None, k: float = 2.0) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


lib = torch.library.Library("demolib", "DEF")
lib.define("neg(Tensor x, Tensor(a!)? out=None) -> Tensor")


def _neg(x, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.neg(x, out=out)
    return out


lib.impl("neg", _neg, "CPU")


@torch.library.custom_op("demo::act", mutates_args=("x",))
def act(x: Tensor, slope: float = 0.1, inplace: bool = False) -> Tensor:
    out = x if inplace else torch.empty_like(x)
    torch.mul(x, slope, out=out)
    return out


"""
)


def bodies(*codes: str) -> list[str]:
    """What functions of these bodies become. ``b`` is no None, ``m`` may be."""
    return list(_bodies(tuple(textwrap.dedent(code) for code in codes)))


@cache
def _bodies(codes: tuple[str, ...]) -> tuple[str, ...]:
    text = OPS
    for number, code in enumerate(codes):
        body = textwrap.indent(code.rstrip("\n"), "    ")
        text += f"def f_{number}(x: Tensor, b: Tensor, m, g):\n{body}\n\n\n"
    text = migrated(text)
    found = []
    for number in range(len(codes)):
        start = text.index("\n", text.index(f"def f_{number}(")) + 1
        end = text.find(f"\n\n\ndef f_{number + 1}(", start)
        found.append(textwrap.dedent(text[start:end] if end > 0 else text[start:].rstrip("\n")))
    return tuple(found)


def comments(code: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def crowded(code: str) -> Iterator[str]:
    """A statement in parentheses with a comment in each gap between two tokens in brackets.

    First all of them on the lines of code, then all on lines of their own.
    """
    for own in (False, True):
        written, depth = "", 0
        tokens = tokenize.generate_tokens(io.StringIO(code).readline)
        for number, token in enumerate(tokens):
            if token.type in {tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.NL}:
                continue
            depth += (token.string in "([") - (token.string in ")]") if token.string else 0
            written += token.string
            if depth:
                written += f"\n    # own {number}\n    " if own else f"  # on line {number}\n    "
            else:
                written += " "
        yield f"{written}# behind"


STATEMENTS = [
    f"{head}({op}(x, {buffer}))"
    for op in ("double", "torch.ops.demolib.neg")
    for buffer in ("b", "m", "None", "g.buffer", "(m)", "out=m", "out=(None)")
    for head in ("y = ", "return ", "y = g", "")
] + [
    "y: Tensor = (double(x, (m), 3.0))",
    "y = [(torch.ops.demolib.neg(x, m)), (double(x, None, 3.0))]",
    "y = (torch.ops.demolib.neg(x, (b))) + (double(x, (m)))",
    "y, z = (torch.ops.demolib.neg(x, m)), 1",
    "y += (torch.ops.demolib.neg(x, m))",
    "y = (double(k=3.0, x=x, out=None))",
    "y = (double(k=3.0, x=x, out=m))",
    "y = (act(x, 0.2, g))",
    "y = (act(x, 0.2, True))",
    "(act(x, inplace=(g)))",
]


def test_every_comment_of_every_kind_of_call_is_kept() -> None:
    before = [code for statement in STATEMENTS for code in crowded(statement)]
    after = bodies(*before)
    for old, new in zip(before, after, strict=True):
        assert new != old
        assert set(comments(old)) == set(comments(new)), f"{old}\n\nbecame\n\n{new}"


def test_comments_in_parentheses_stay_at_a_conditional_expression() -> None:
    (after,) = bodies("""\
        y = (  # open
            # own
            double(x, m)  # inner
            # last
        )  # close
        return y
    """)
    assert after == textwrap.dedent("""\
        y = (  # open
            # own
            double(x) if m is None else double_out(x, out=m)  # inner
            # last
        )  # close
        return y""")


def test_comments_in_parentheses_stand_above_a_choice_between_statements() -> None:
    (after,) = bodies("""\
        # what for
        y = (  # open
            # own
            torch.ops.demolib.neg(x, m)  # inner
            # last
        )  # close
        return y
    """)
    assert after == textwrap.dedent("""\
        # what for
        # open
        # own
        # inner
        # last
        if m is None:  # close
            y = torch.ops.demolib.neg(x)
        else:
            torch.ops.demolib.neg_out(x, m)
            y = m
        return y""")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "double(\n    x,\n    # a fresh one\n    None,  # for now\n)",
            "double(\n    x,\n    # a fresh one\n    # for now\n)",
        ),
        (
            "double(\n    x,\n    # a fresh one\n    None,  # for now\n    # factor\n    3.0,\n)",
            "double(\n    x,\n    # a fresh one\n    # for now\n    # factor\n    3.0,\n)",
        ),
        (
            "double(\n    # a fresh one\n    out=None,  # for now\n    # input\n    x=x,\n)",
            "double(\n    # a fresh one\n    # for now\n    # input\n    x=x,\n)",
        ),
        (
            "y = act(\n    x,\n    # in place\n    inplace=True,  # fast\n)",
            "y = act_(\n    x,\n    # in place\n    # fast\n)",
        ),
        ("y = double(x, None  # for now\n)", "# for now\ny = double(x)"),
    ],
)
def test_comments_of_an_argument_that_goes_are_kept(before: str, after: str) -> None:
    assert bodies(before)[0].replace("double(x\n)", "double(x)") == after


def test_a_comment_in_the_parentheses_of_a_buffer_is_not_said_twice() -> None:
    (after,) = bodies("y = double(x, (  # odd\n    m))\nreturn y")
    assert comments(after) == ["# odd"]


@pytest.mark.parametrize(
    ("before", "above"),
    [
        ("if g: y = (  # why\n    torch.ops.demolib.neg(x, m)\n)", "# why\nif g:"),
        ("if (  # why\n    torch.ops.demolib.neg(x, b)\n).sum():\n    pass  # no", "# why"),
        ("for _ in double(x, None  # why\n):\n    pass  # no", "# why\nfor _ in double("),
    ],
)
def test_comments_of_the_head_of_a_block_stand_above_it(before: str, above: str) -> None:
    (after,) = bodies(before)
    assert set(comments(after)) == set(comments(before))
    assert "# why" in after
    assert len(comments(after)) == len(comments(before))
    if "\n" in above:
        assert after.startswith(above)
