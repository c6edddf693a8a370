"""Notices fire on their own examples, as rules do."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.config.model import Config
from opscaffold.rules.check import check_project
from opscaffold.rules.listing import Sight, kernels_of
from opscaffold.rules.notices import NOTICES, Notice
from opscaffold.rules.selection import chosen
from opscaffold.source.project import load_project


def reported(source: str, directory: Path) -> set[str]:
    path = directory / "module.py"
    path.write_text(source, "utf-8")
    project = load_project([path], directory)
    project.module_for(path)
    return {f.code for f in check_project(project, Config(), chosen([])) if f.code < "OPS1"}


def cases(kind: str) -> list[object]:
    return [
        pytest.param(notice, source, id=f"{notice.code}-{number}")
        for notice in NOTICES
        for number, source in enumerate(getattr(notice, kind))
    ]


@pytest.mark.parametrize(("notice", "source"), cases("hits"))
def test_hit(notice: Notice, source: str, tmp_path: Path) -> None:
    assert reported(source, tmp_path) == {notice.code}


@pytest.mark.parametrize(("notice", "source"), cases("misses"))
def test_near_miss(notice: Notice, source: str, tmp_path: Path) -> None:
    assert reported(source, tmp_path) == set()


DEEP = 1200
OP = '@torch.library.custom_op("demo::{0}", mutates_args=())\ndef {0}(x: Tensor) -> Tensor:\n'
BRANCHES = "".join(f"    elif k == {n}:\n        return x + {n}\n" for n in range(DEEP))


@pytest.mark.parametrize(
    "body",
    [
        "    k = x.shape[0]\n    if k == 0:\n        return x + 0\n"
        + BRANCHES
        + "    return x * 2\n",
        "    return " + " + ".join(["x"] * DEEP) + "\n",
        "    return x" + "[0]" * DEEP + "\n",
        "    return " + "x if x.numel() else " * DEEP + "x * 2\n",
        "    return helper(x)\n",
    ],
    ids=["elif", "sum", "subscripts", "conditions", "helper"],
)
def test_an_op_that_is_nested_too_deeply_stops_nothing_else(tmp_path: Path, body: str) -> None:
    head = "import torch\nfrom torch import Tensor\n\n"
    helper = "def helper(x):\n    return " + " + ".join(["x"] * DEEP) + "\n\n"
    writes = "    return x.add_(1)\n"
    beside = OP.format("beside") + writes
    (tmp_path / "deep.py").write_text(head + helper + OP.format("deep") + body + beside, "utf-8")
    (tmp_path / "other.py").write_text(
        head + OP.format("other") + "    return x.add_(1)\n", "utf-8"
    )
    project = load_project([tmp_path], tmp_path)
    codes = chosen([])
    findings = check_project(project, Config(), codes)
    assert {f.op for f in findings if f.code == "OPS301"} == {"demo::beside", "demo::other"}
    (notice,) = (f for f in findings if f.code == "OPS001")
    assert (notice.op, notice.position.path.name) == ("demo::deep", "deep.py")
    assert "nested too deeply" in notice.message
    assert check_project(project, Config(), codes - {"OPS001"}) == [
        f for f in findings if f.code != "OPS001"
    ]
    assert [op.qualname for op in project.ops] == ["demo::deep", "demo::beside", "demo::other"]
    assert {str(k.sight) for op in project.ops for k in kernels_of(project, op)} == {
        str(Sight.OPAQUE),
        str(Sight.UNDERSTOOD),
    }
