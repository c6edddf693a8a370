"""Behind a test of the dtype or device that it changes, a conversion surely copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code[:4] in {"OPS2", "OPS3"}]
HEAD = """\
import torch
import torch.nn.functional as F
from torch import Tensor


@torch.library.custom_op("d::f", mutates_args=())
def f(
    x: Tensor,
    y: Tensor,
    dt: torch.dtype,
    maybe: torch.dtype | None,
    d: torch.device,
    p: float,
    on: bool,
) -> {0}:
"""


def reported(body: str, directory: Path, returns: str = "Tensor") -> list[str]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (directory / "module.py").write_text(HEAD.format(returns) + lines, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return sorted({f.code for f in apply_rules(project, RULES)})


COPIED = "if {0}:\n    return x.clone()\nreturn {1}"
CHANGED = "if {0}:\n    x = {1}\n    x.mul_(2)\nreturn x + 1"


@pytest.mark.parametrize(
    "body",
    [
        COPIED.format("x.dtype == dt", "x.to(dt)"),
        COPIED.format("dt == x.dtype", "x.to(dtype=dt)"),
        COPIED.format("x.dtype == y.dtype", "x.to(y.dtype)"),
        COPIED.format("x.dtype in (torch.float32, torch.half)", "x.float()"),
        COPIED.format("torch.is_floating_point(x)", "x.float()"),
        COPIED.format("not x.is_cuda", "x.cpu()"),
        COPIED.format("x.device.type != 'cuda'", "x.cpu()"),
        COPIED.format("p == 0.0", "F.dropout(x, p, training=True)"),
        COPIED.format("not on", "F.dropout(x, 0.1, training=on)"),
        CHANGED.format("x.dtype == torch.float16", "x.float()"),
        CHANGED.format("x.dtype in (torch.half, torch.bfloat16)", "x.float()"),
        CHANGED.format("x.device != d", "x.to(d)"),
        "if x.dtype not in (torch.float32, torch.float64):\n    return x.double()\nreturn x * 1",
        "return F.dropout(x, 0.5)",
        (
            "z = x.contiguous()\nif z.untyped_storage().data_ptr() == "
            "x.untyped_storage().data_ptr():\n    z = z.clone()\nreturn z"
        ),
    ],
)
def test_what_a_test_says_makes_the_conversion_a_copy(body: str, tmp_path: Path) -> None:
    assert reported(body, tmp_path) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (COPIED.format("x.dtype == maybe", "x.to(maybe)"), "OPS203"),
        (COPIED.format("x.dtype != y.dtype", "x.to(y.dtype)"), "OPS203"),
        (COPIED.format("x.dtype == dt", "x.to(y.dtype)"), "OPS203"),
        (COPIED.format("x.dtype in (torch.half, torch.bfloat16)", "x.float()"), "OPS203"),
        (COPIED.format("not torch.is_floating_point(x)", "x.float()"), "OPS203"),
        (COPIED.format("x.is_cuda", "x.cpu()"), "OPS203"),
        (COPIED.format("p > 1", "F.dropout(x, p, training=True)"), "OPS203"),
        (COPIED.format("on", "F.dropout(x, 0.1, training=on)"), "OPS203"),
        ("return F.dropout(x, 0.0, training=True)", "OPS203"),
        ("return F.alpha_dropout(x, 0.5)", "OPS203"),
        ("return torch.dropout(x, p, on)", "OPS203"),
        (CHANGED.format("x.dtype in (torch.half, torch.float32)", "x.float()"), "OPS301"),
        (CHANGED.format("x.dtype != torch.float16", "x.float()"), "OPS301"),
        (
            "z = x.contiguous()\nif z.data_ptr() != x.data_ptr():\n    z = z.clone()\nreturn z",
            "OPS203",
        ),
    ],
)
def test_where_none_says_so_it_may_share(body: str, code: str, tmp_path: Path) -> None:
    assert reported(body, tmp_path) == [code]


@pytest.mark.parametrize("index", [":1", "0:1", "2:3", "-1:", "1:2", "-2:-1"])
def test_one_part_of_a_tensor_overlaps_nothing(index: str, tmp_path: Path) -> None:
    assert reported(f"z = x * 2\nreturn list(z.split(1))[{index}]", tmp_path, "list[Tensor]") == []


@pytest.mark.parametrize("index", [":", ":2", "1:", "-2:", "-1:1", ":-1", "::2"])
def test_several_parts_of_one_tensor_overlap(index: str, tmp_path: Path) -> None:
    body = f"z = x * 2\nreturn list(z.split(1))[{index}]"
    assert reported(body, tmp_path, "list[Tensor]") == ["OPS204"]


def test_a_slice_of_a_list_holds_the_elements_it_names(tmp_path: Path) -> None:
    body = "both = [x, x * 2]\nreturn both[{0}]"
    assert reported(body.format("1:"), tmp_path, "list[Tensor]") == []
    assert reported(body.format(":1"), tmp_path, "list[Tensor]") == ["OPS201"]
