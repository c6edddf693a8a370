"""Whether a function is passed None, asked of few functions and of many."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from opscaffold.migrate import passed_none
from opscaffold.migrate.passed_none import look_for_callers, may_be_passed_none
from opscaffold.source.project import load_project

MANY = 60
OPS = """\
import torch


@torch.library.custom_op("lib::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x.clone()
"""


@pytest.mark.parametrize("at_once", [True, False])
def test_of_many_functions_each_is_told_as_it_would_be_alone(tmp_path: Path, at_once: bool) -> None:
    (tmp_path / "ops.py").write_text(OPS)
    around = [f"def f{n}(x):\n    return scale(x)\n" for n in range(MANY)]
    (tmp_path / "around.py").write_text("from ops import scale\n" + "".join(around))
    # No op is mentioned here, so nobody foresees these names.
    (tmp_path / "apart.py").write_text("def apart(x): ...\ndef größe(x): ...\n")
    calls = [
        f"af{n}(None); f{n}1(None)\nf{n} ({'None' if n % 3 == 0 else 'x'})" for n in range(MANY)
    ]
    calls += ["apart(None)", "größe(None)"]
    (tmp_path / "calls.py").write_text("\n".join(calls), encoding="utf-8")
    project = load_project([tmp_path], tmp_path)
    functions = [
        node
        for path in (tmp_path / "around.py", tmp_path / "apart.py")
        if (module := project.module_for(path)) is not None
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef)
    ]
    if at_once:
        look_for_callers(project, [function.name for function in functions])
    passed = {f.name for f in functions if may_be_passed_none(project, f, "x")}
    named_longer = {f"f{n}1" for n in range(MANY)}
    every_third = {f"f{n}" for n in range(0, MANY, 3)}
    assert passed == {"apart", "größe"} | every_third | (named_longer & {f.name for f in functions})
    assert project in passed_none._HOLDERS
