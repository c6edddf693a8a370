"""Tests of one thing come out alike: only the paths that can be taken count."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code[:4] in {"OPS2", "OPS3"}]
HEAD = """\
import torch
from torch import Tensor

WIDE = True


def prepared(t: Tensor, copy: bool) -> Tensor:
    if copy:
        return t.clone()
    return t


@torch.library.custom_op("d::f", mutates_args=())
def f(x: Tensor, y: Tensor | None, n: int, flag: bool, mode: str) -> Tensor:
"""


def reported(body: str, directory: Path) -> list[str]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (directory / "module.py").write_text(HEAD + lines, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return sorted({f.code for f in apply_rules(project, RULES)})


COPY = "buf = x\nif {0}:\n    buf = x.clone()\n"


@pytest.mark.parametrize(
    "body",
    [
        COPY.format("flag") + "if flag:\n    buf.add_(1)\nreturn buf + 1",
        COPY.format("n > 0") + "if 0 < n:\n    buf.add_(1)\nreturn buf + 1",
        COPY.format("n >= 2") + "if not n < 2:\n    buf.add_(1)\nreturn buf + 1",
        COPY.format("n != 1") + "if n == 1:\n    return buf + 1\nreturn buf.add_(1)",
        COPY.format("y is None") + "if y is not None:\n    return buf + y\nreturn buf",
        COPY.format("not flag") + "return buf + 1 if flag else buf",
        COPY.format("x.dtype == torch.half") + "if x.dtype != torch.half:\n    return buf + 1\n"
        "return buf.mul_(2)",
        COPY.format("x.is_contiguous()") + "return buf if x.is_contiguous() else buf + 1",
        COPY.format("x.shape[0] > 1 and flag") + "if flag and x.shape[0] > 1:\n    buf.add_(1)\n"
        "return buf + 1",
        COPY.format("mode == 'a'") + "if mode == 'b':\n    return buf + 1\n"
        "return buf.add_(1) if mode == 'a' else x * 2",
        "use = n > 3\nbuf = x.clone() if use else x\nif use:\n    buf.zero_()\nreturn buf + 1",
        (
            "done = False\nif n > 1:\n    x = x.clone()\n    done = True\n"
            "if not done:\n    return x * 2\nreturn x.add_(1)"
        ),
        "t = prepared(x, flag)\nif not flag:\n    return t + 1\nt[0] = 1\nreturn t",
        "t = prepared(x, copy=n == 1)\nif n == 1:\n    t += 1\nreturn t * 2",
        COPY.format("WIDE") + "if WIDE:\n    buf.add_(1)\nreturn buf + 1",
        (
            "match mode:\n    case 'a' | 'b':\n        buf = x.clone()\n    case _:\n"
            "        buf = x\n"
            "if mode == 'b':\n    buf.add_(1)\nreturn buf + 1"
        ),
        COPY.format("isinstance(y, Tensor)") + "if isinstance(y, Tensor):\n    return buf\n"
        "return x + 1",
    ],
)
def test_paths_that_no_call_takes_count_for_nothing(body: str, tmp_path: Path) -> None:
    assert reported(body, tmp_path) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (COPY.format("flag") + "if not flag:\n    buf.add_(1)\nreturn buf + 1", "OPS301"),
        (COPY.format("n > 0") + "if n <= 0:\n    buf.add_(1)\nreturn buf + 1", "OPS301"),
        (COPY.format("n > 0") + "n -= 1\nif n > 0:\n    buf = buf + 1\nreturn buf", "OPS201"),
        (
            COPY.format("flag") + "flag = not flag\nif flag:\n    buf.add_(1)\nreturn x + 1",
            "OPS301",
        ),
        (COPY.format("mode == 'a'") + "if mode == 'b':\n    buf.add_(1)\nreturn x + 1", "OPS301"),
        (COPY.format("n == 0") + "if n == 1 or n == 2:\n    return buf\nreturn x + 1", "OPS201"),
        (
            (
                "while n > 0:\n    buf = x if n > 1 else x.clone()\n    n -= 1\n"
                "    if n > 1:\n        buf.add_(1)\nreturn x + 1"
            ),
            "OPS301",
        ),
        (
            (
                "buf = x\nfor t in [x, x + 1]:\n    if t.shape[0] > 1:\n        buf = buf.clone()\n"
                "    if t.shape[0] <= 1:\n        buf.add_(1)\nreturn x + 1"
            ),
            "OPS301",
        ),
        (
            COPY.format("x.shape[0] <= 1")
            + "x.resize_(1)\nif x.shape[0] > 1:\n    return buf + 1\nreturn buf",
            "OPS305",
        ),
        ("t = prepared(x, flag)\nif flag:\n    return t + 1\nt[0] = 1\nreturn x * 2", "OPS301"),
    ],
)
def test_paths_that_calls_take_are_seen(body: str, code: str, tmp_path: Path) -> None:
    assert code in reported(body, tmp_path)
