"""Text comes out as ruff would leave it."""

from __future__ import annotations

import ast
import random
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opscaffold.scaffold.layout import Group, Layout, TooWideError, natural_key, quote
from opscaffold.scaffold.names import Names

LAYOUT = Layout(40)


def test_what_fits_stays_on_one_line() -> None:
    assert LAYOUT.call("x = ", "f", ["a", "b"]) == ["    x = f(a, b)"]
    assert LAYOUT.define("f", ["a: int"], "None") == ["def f(a: int) -> None:"]


def test_what_does_not_fit_has_one_item_a_line() -> None:
    assert LAYOUT.call("x = ", "function", ["a" * 12, "b" * 12]) == [
        "    x = function(",
        "        aaaaaaaaaaaa,",
        "        bbbbbbbbbbbb,",
        "    )",
    ]


def test_groups_are_split_from_the_outside_in() -> None:
    inner = Group("{", ("c" * 20, "d" * 20), "}")
    assert LAYOUT.call("", "f", ["a", inner], depth=0) == [
        "f(",
        "    a,",
        "    {",
        f"        {'c' * 20},",
        f"        {'d' * 20},",
        "    },",
        ")",
    ]


def test_a_sum_that_does_not_fit_becomes_several_statements() -> None:
    assert LAYOUT.adding("t", ["(1 + a)", "2 * b"]) == ["    t = (1 + a) + 2 * b"]
    assert LAYOUT.adding("t", ["(1 + a)"], "float") == ["    t: float = 1 + a"]
    assert LAYOUT.adding("t", ["(1 + a)", "2 * " + "b" * 20], "float") == [
        "    t: float = 1 + a",
        f"    t = t + 2 * {'b' * 20}",
    ]


def test_what_cannot_be_split_is_too_wide() -> None:
    with pytest.raises(TooWideError):
        LAYOUT.line("x" * 40)
    with pytest.raises(TooWideError):
        LAYOUT.call("", "f", ["x" * 40])


@given(st.text())
@example('it\'s "both"')
@example("\\")
@example('"')
def test_a_quoted_text_is_that_text(text: str) -> None:
    assert ast.literal_eval(quote(text)) == text


def test_names_stay_out_of_the_way_of_arguments() -> None:
    names = Names({"out", "out_", "sum"})
    assert names["out"] == "out__"
    assert names["out"] == "out__"
    assert names["value"] == "value"
    assert names.sum == "builtin_sum"
    assert Names(set()).sum == "sum"


def test_imports_are_sorted_as_ruff_sorts_them() -> None:
    chance = random.Random(7)
    names = {
        "".join(chance.choice("abAB_019") for _ in range(chance.randint(1, 6))) for _ in range(400)
    }
    names = {f"{chance.choice('aAbB_')}{name}" for name in names}
    module = "".join(f"{line}\n" for line in Layout(100).import_from("package", names))
    config = ["--config", "lint.isort.order-by-type=false", "--line-length", "100"]
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache"]
    done = subprocess.run(
        [*ruff, "--select", "I001", *config, "-"],
        input=module,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert natural_key("op2") < natural_key("op10")
