"""Ops that are not there are found under whatever name their namespace goes by."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import apply_rules
from opscaffold.rules.unresolved_call_site import RULE
from opscaffold.source.project import load_project

OPS = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor) -> Tensor:
    return x * 2


space = torch.ops.demo
"""


def found(directory: Path, text: str) -> list[str]:
    (directory / "ops.py").write_text(OPS, "utf-8")
    (directory / "use.py").write_text(text, "utf-8")
    project = load_project([directory], directory)
    return [finding.op for finding in apply_rules(project, [RULE])]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.ops.demo.scales(1)\n",
        "from torch import nn, ops\nops.demo.scales(1)\n",
        "import torch\nd = torch.ops.demo\nd.scales(1)\n",
        "from ops import space\nspace.scales(1)\n",
        "from ops import space as s\ns.scales(1)\n",
        "import ops\nops.space.scales(1)\n",
        "import torch\ngetattr(torch, 'ops').demo.scales(1)\n",
    ],
)
def test_a_name_that_is_not_there_is_reported(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text) == ["demo::scales"]
    assert found(tmp_path, text.replace("scales", "scale")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import torch, other\nother.ops.demo.scales(1)\n",
        "from ops import scale\nscale.scales\n",
        "class A:\n    space = 3\n\nA.space.scales\n",
    ],
)
def test_what_is_no_namespace_of_torch_is_left_alone(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text) == []
