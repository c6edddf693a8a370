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


READS = "import torch\ndef use(x):\n    torch.ops.demo.scales(x)\n    torch.ops.demo.gone(x)\n"


def test_a_fake_for_an_op_from_elsewhere_costs_that_op_alone(tmp_path: Path) -> None:
    fake = "@torch.library.register_fake('demo::gone')\ndef fake(x): ...\n"
    assert found(tmp_path, READS + fake) == ["demo::scales"]
    assert found(tmp_path, f"{READS}{fake}torch.ops.demo.gone.whatever\n") == ["demo::scales"]
    computed = fake.replace("'demo::gone'", "'demo::' + name")
    assert found(tmp_path, READS + computed) == []


def test_a_namespace_that_is_mostly_defined_elsewhere_is_not_judged(tmp_path: Path) -> None:
    fakes = "".join(
        f"torch.library.register_fake('demo::{name}')(lambda x: x)\n" for name in ("a", "b")
    )
    assert found(tmp_path, READS + fakes) == []


@pytest.mark.parametrize(
    ("asked", "reported"),
    [
        ("hasattr(torch.ops.demo, 'gone')", ["demo::scales"]),
        ("getattr(torch.ops.demo, 'gone', None)", ["demo::scales"]),
        ("hasattr(torch, 'compile')", ["demo::scales", "demo::gone"]),
        ("getattr(torch.ops, 'demo', None)", []),
        ("hasattr(torch.ops.demo, x)", []),
    ],
)
def test_asking_for_a_name_excuses_that_name_alone(
    tmp_path: Path, asked: str, reported: list[str]
) -> None:
    text = READS.replace("(x):\n", f"(x):\n    if not {asked}:\n        return\n")
    assert found(tmp_path, text) == reported
    outside = f"{READS}\n\nfound = {asked}\n"
    assert found(tmp_path, outside) == ["demo::scales", "demo::gone"]


def test_what_is_expected_to_raise_excuses_nothing_beside_it(tmp_path: Path) -> None:
    text = (
        "import pytest, torch\ndef test():\n    with pytest.raises(AttributeError):\n"
        "        torch.ops.demo.gone\n    torch.ops.demo.scales(1)\n"
    )
    assert found(tmp_path, text) == ["demo::scales"]


def test_an_answer_that_is_kept_excuses_what_is_done_under_it(tmp_path: Path) -> None:
    text = (
        "import torch\nTHERE = hasattr(torch.ops.demo, 'gone')\ndef use(x):\n    if THERE:\n"
        "        torch.ops.demo.gone(x)\n        torch.ops.demo.scales(x)\n"
    )
    assert found(tmp_path, text) == ["demo::scales"]
