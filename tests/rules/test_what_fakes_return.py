"""A fake kernel returns as many tensors as its op, each new and each with memory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code in {"OPS111", "OPS112"}]
ONE = ("Tensor", "x + 1")
TWO = ("tuple[Tensor, Tensor]", "x + 1, x + 2")
LIST = ("list[Tensor]", "[x + 1, x + 2]")
NONE = ("None", "None")


def reported(op: tuple[str, str], body: str, directory: Path) -> list[tuple[str, str]]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (directory / "module.py").write_text(
        "import torch\nfrom torch import Tensor\n\n"
        '@torch.library.custom_op("d::f", mutates_args=())\n'
        f"def f(x: Tensor, n: int) -> {op[0]}:\n    return {op[1]}\n\n"
        f"@f.register_fake\ndef _(x, n):\n{lines}",
        "utf-8",
    )
    project = load_project([directory], directory)
    assert not project.problems
    return sorted({(f.code, f.severity.name) for f in apply_rules(project, RULES)})


EMPTY = "torch.empty_like(x)"


@pytest.mark.parametrize(
    ("op", "body", "code", "severity"),
    [
        (ONE, "return x.contiguous()", "OPS112", "WARNING"),
        (ONE, "return x.view_as(x).to(x.dtype)", "OPS112", "WARNING"),
        (ONE, "return x.reshape(-1)", "OPS112", "WARNING"),
        (ONE, "return x[:]", "OPS112", "ERROR"),
        (TWO, f"y = {EMPTY}\nreturn y, y", "OPS112", "ERROR"),
        (TWO, f"y = {EMPTY}\nreturn y[:1], y[1:]", "OPS112", "ERROR"),
        (LIST, f"return [{EMPTY}] * 2", "OPS112", "ERROR"),
        (TWO, f"return {EMPTY}", "OPS111", "ERROR"),
        (TWO, f"return {EMPTY}, {EMPTY}, {EMPTY}", "OPS111", "ERROR"),
        (ONE, f"return {EMPTY}, {EMPTY}", "OPS111", "ERROR"),
        (ONE, f"return ({EMPTY},)", "OPS111", "ERROR"),
        (LIST, f"return {EMPTY}", "OPS111", "ERROR"),
        (ONE, "pass", "OPS111", "ERROR"),
        (ONE, f"if n:\n    return {EMPTY}\nreturn", "OPS111", "ERROR"),
        (TWO, "return None", "OPS111", "ERROR"),
    ],
)
def test_what_does_not_fit_is_reported(
    op: tuple[str, str], body: str, code: str, severity: str, tmp_path: Path
) -> None:
    assert reported(op, body, tmp_path) == [(code, severity)]


@pytest.mark.parametrize(
    ("op", "body"),
    [
        (ONE, f"return {EMPTY}"),
        (ONE, "return x.contiguous().clone()"),
        (ONE, "return x.to(x.dtype, copy=True)"),
        (ONE, f"if n > 1:\n    return {EMPTY}\nelif n <= 1:\n    return x.new_empty(n)"),
        (ONE, "raise NotImplementedError"),
        (ONE, "return elsewhere(x)"),
        (TWO, f"return {EMPTY}, {EMPTY}"),
        (TWO, f"return [{EMPTY}, {EMPTY}]"),
        (TWO, f"return tuple({EMPTY} for _ in range(2))"),
        (TWO, "return torch.max(x, 0)"),
        (TWO, "return elsewhere(x)"),
        (LIST, f"return [{EMPTY}]"),
        (LIST, f"return [{EMPTY} for _ in range(n)]"),
        (NONE, "pass"),
        (NONE, "return None"),
    ],
)
def test_what_fits_is_not(op: tuple[str, str], body: str, tmp_path: Path) -> None:
    assert reported(op, body, tmp_path) == []


MADE = """\
import torch
from torch import Tensor


def add_fake(op, which):
    @op.register_fake
    def fake(*args):
        if {test}:
            return None
        return torch.empty_like(args[0])


@torch.library.custom_op("d::f", mutates_args=())
def f(x: Tensor, n: int) -> Tensor:
    return x + 1


add_fake(f, 0)
"""


@pytest.mark.parametrize(("test", "codes"), [("which is None", []), ("not args", ["OPS111"])])
def test_a_fake_made_by_a_function_takes_the_way_it_was_made_for(
    test: str, codes: list[str], tmp_path: Path
) -> None:
    (tmp_path / "module.py").write_text(MADE.format(test=test), "utf-8")
    project = load_project([tmp_path], tmp_path)
    assert [f.code for f in apply_rules(project, RULES)] == codes
