"""The places that findings show beside their own: inside helpers, and the declaration."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

HEAD = "import torch\nfrom torch import Tensor\nfrom low import deep, last\n\n\n"
LOW = """\
def last(t):
    t.zero_()


def deep(t):
    last(t)
"""


def evidence(directory: Path, code: str, source: str) -> list[tuple[str, int, str]]:
    """File, line, and the text of the line from each place on."""
    (directory / "ops.py").write_text(HEAD + source, "utf-8")
    (directory / "low.py").write_text(LOW, "utf-8")
    project = load_project([directory], directory)
    rule = next(rule for rule in all_rules() if rule.code == code)
    (finding,) = apply_rules(project, [rule])
    shown = []
    for place in finding.evidence:
        line = place.path.read_text("utf-8").splitlines()[place.line - 1]
        marked = line[place.column - 1 : (place.end or 0) - 1]
        shown.append((place.path.name, place.line, marked))
    return shown


def test_a_write_in_a_helper_is_shown_where_it_stands(tmp_path: Path) -> None:
    source = """\
@torch.library.custom_op("demo::wipe", mutates_args=())
def wipe(x: Tensor) -> None:
    deep(x)
    x.add_(1)
"""
    assert evidence(tmp_path, "OPS301", source) == [
        ("low.py", 2, "t.zero_()"),
        ("ops.py", 9, "x.add_(1)"),
        ("ops.py", 6, "()"),
    ]


@pytest.mark.parametrize(
    ("source", "declared"),
    [
        (
            (
                '@torch.library.custom_op("demo::look", mutates_args=["x"])\n'
                "def look(x: Tensor) -> Tensor:\n    return x + 1\n"
            ),
            ("ops.py", 6, '["x"]'),
        ),
        (
            (
                'lib = torch.library.Library("demo", "FRAGMENT")\n'
                'lib.define("look(Tensor(a!) x) -> Tensor")\n'
                'lib.impl("look", lambda x: x + 1, "CPU")\n'
            ),
            ("ops.py", 7, '"look(Tensor(a!) x) -> Tensor"'),
        ),
        (
            (
                "def register(name, mutates):\n"
                "    return torch.library.custom_op(name, mutates_args=mutates)\n\n\n"
                '@register("demo::look", ("x",))\n'
                "def look(x: Tensor) -> Tensor:\n    return x + 1\n"
            ),
            ("ops.py", 10, '("x",)'),
        ),
    ],
    ids=["mutates_args", "schema", "helper"],
)
def test_what_is_declared_too_much_is_shown_where_it_is_written(
    tmp_path: Path, source: str, declared: tuple[str, int, str]
) -> None:
    assert evidence(tmp_path, "OPS302", source) == [declared]


@pytest.mark.parametrize(
    ("code", "source"),
    [
        (
            "OPS101",
            (
                '@torch.library.custom_op("demo::run", mutates_args=())\n'
                "def run(x: Tensor, out: Tensor | None = None) -> Tensor:\n"
                "    if out is None:\n        out = torch.empty_like(x)\n"
                "    deep(out)\n    return out\n"
            ),
        ),
        (
            "OPS102",
            (
                '@torch.library.custom_op("demo::run", mutates_args=("seen",))\n'
                "def run(x: Tensor, seen: Tensor | None = None) -> Tensor:\n"
                "    if seen is not None:\n        deep(seen)\n    return x + 1\n"
            ),
        ),
    ],
)
def test_a_buffer_filled_by_a_helper_is_followed_to_the_write(
    tmp_path: Path, code: str, source: str
) -> None:
    shown = evidence(tmp_path, code, source)
    assert [path for path, *_ in shown] == ["ops.py", "low.py"]
    assert shown[1] == ("low.py", 2, "t.zero_()")


def test_a_reshape_in_a_helper_is_shown_where_it_stands(tmp_path: Path) -> None:
    source = """\
def shrink(t):
    t.resize_(1)


@torch.library.custom_op("demo::run_", mutates_args=("x",), tags=torch.Tag.inplace)
def run_(x: Tensor) -> Tensor:
    shrink(x)
    x.add_(1)
    return x
"""
    assert ("ops.py", 7, "t.resize_(1)") in evidence(tmp_path, "OPS403", source)
