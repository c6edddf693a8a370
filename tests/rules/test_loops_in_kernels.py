"""How often a loop runs decides what is returned: by a literal count, never; by a number, at zero.

A loop that surely runs leaves nothing of what its first round replaced.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code[:4] in {"OPS2", "OPS3"}]
HEAD = """\
import torch
from torch import Tensor

STEPS = 3
NONE_AT_ALL = 0


@torch.library.custom_op("d::f", mutates_args=())
def f(x: Tensor, xs: list[Tensor], n: int) -> Tensor:
"""


def reported(body: str, directory: Path) -> list[str]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (directory / "module.py").write_text(HEAD + lines, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return sorted({f.code for f in apply_rules(project, RULES)})


ROUND = "{0}:\n    x = x * 2\nreturn x"


@pytest.mark.parametrize(
    "body",
    [
        ROUND.format("for _ in range(3)"),
        ROUND.format("for _ in range(1, 4)"),
        ROUND.format("for _ in range(4, 0, -1)"),
        ROUND.format("for _ in range(STEPS)"),
        ROUND.format("for _ in reversed(range(2))"),
        ROUND.format("for _ in (1, 2)"),
        ROUND.format("for _, name in enumerate(['a', 'b'])"),
        "assert n > 0\n" + ROUND.format("for _ in range(n)"),
        "if n <= 0:\n    raise ValueError(n)\n" + ROUND.format("for _ in range(0, n)"),
        "if n == 0:\n    return x.clone()\n" + ROUND.format("for _ in range(n)"),
        "if n < 1:\n    return x.clone()\n" + ROUND.format("for _ in range(n)"),
        "while True:\n    x = x * 2\n    if x.sum() > 9:\n        break\nreturn x",
        "while True:\n    x = x * 2\n    if x.sum() > 9:\n        return x",
        "while 1:\n    x = x + 1\n    if n > 3:\n        continue\n    break\nreturn x",
        "y = None\nwhile y is None:\n    y = x * 2\nreturn y",
        "for _ in range(2):\n    x = x + 1\n    if n > 2:\n        continue\n    n += 1\nreturn x",
        "for _ in (1,):\n    x = x + 1\n    if n > 2:\n        break\nelse:\n    x = -x\nreturn x",
        "for i in (0, 1):\n    y = x[i] * 2\nreturn y",
        "i = 0\nwhile i < 3:\n    x = x * 2\n    i += 1\nreturn x",
        (
            "outs = list(xs)\nfor i in range(len(outs)):\n    outs[i] = outs[i] * 2\n"
            "return torch.stack(outs) if n else outs[0]"
        ),
        "ys = list(xs)\nfor i, t in enumerate(xs):\n    y = t * 2\n    ys[i] = y\nreturn ys[0]",
    ],
)
def test_a_loop_that_surely_runs_leaves_nothing_of_what_it_replaces(
    body: str, tmp_path: Path
) -> None:
    assert reported(body, tmp_path) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (ROUND.format("for _ in range(n)"), "OPS201"),
        (ROUND.format("for _ in range(0)"), "OPS201"),
        (ROUND.format("for _ in range(3, 3)"), "OPS201"),
        (ROUND.format("for _ in ()"), "OPS201"),
        (ROUND.format("for _ in xs"), "OPS201"),
        (ROUND.format("for _ in range(NONE_AT_ALL)"), "OPS201"),
        ("assert n >= 0\n" + ROUND.format("for _ in range(n)"), "OPS201"),
        ("for _ in range(3):\n    if n > 2:\n        break\n    x = x * 2\nreturn x", "OPS201"),
        ("while True:\n    if n > 9:\n        break\n    x = x * 2\nreturn x", "OPS201"),
        ("while n > 0:\n    x = x * 2\n    n -= 1\nreturn x", "OPS201"),
        ("for _ in range(3):\n    if n > 2:\n        continue\n    x = x * 2\nreturn x", "OPS201"),
        ("while True:\n    x.mul_(2)\n    if x.sum() > 9:\n        break\nreturn x + 1", "OPS301"),
        (
            "outs = list(xs)\nfor i in range(n):\n    outs[i] = outs[i] * 2\nreturn outs[0]",
            "OPS201",
        ),
        (
            "ys = list(xs)\nfor i in range(len(xs)):\n    if n:\n        ys[i] = -x\nreturn ys[0]",
            "OPS201",
        ),
    ],
)
def test_a_loop_that_may_run_no_time_or_stop_early_leaves_it(
    body: str, code: str, tmp_path: Path
) -> None:
    assert code in reported(body, tmp_path)
