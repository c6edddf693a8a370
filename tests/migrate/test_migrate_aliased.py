"""Buffers whose annotation goes by another name."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrating import apply, run, write

KERNEL = """
@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: {written} = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out
"""

HEADS = {
    "assigned": (
        (
            "from typing import Optional\nimport torch\nfrom torch import Tensor\n"
            "OptTensor = Optional[Tensor]\n"
        ),
        "OptTensor",
    ),
    "renamed": (
        "from typing import Optional as Opt\nimport torch\nfrom torch import Tensor\n",
        "Opt[Tensor]",
    ),
    "declared": (
        (
            "from typing import TypeAlias\nimport torch\nfrom torch import Tensor\n"
            "TensorOrNone: TypeAlias = Tensor | None\n"
        ),
        "TensorOrNone",
    ),
    "of another module": (
        "import torch\nfrom torch import Tensor\nfrom kinds import OptTensor\n",
        "OptTensor",
    ),
    "quoted": (
        (
            "import typing\nimport torch\nfrom torch import Tensor\n"
            "OptTensor = typing.Optional[Tensor]\n"
        ),
        "'OptTensor'",
    ),
    "an alias of an alias": (
        "import torch\nfrom torch import Tensor\nimport kinds\nMaybe = kinds.OptTensor\n",
        "Maybe",
    ),
}
KINDS = "import typing as t\nimport torch as th\nOptTensor = t.Union[th.Tensor, None]\n"


@pytest.mark.parametrize("head", HEADS)
def test_an_alias_of_an_optional_tensor_is_split(tmp_path: Path, head: str) -> None:
    imports, written = HEADS[head]
    write(tmp_path, {"ops.py": imports + KERNEL.format(written=written), "kinds.py": KINDS})
    apply(run(tmp_path))
    text = (tmp_path / "ops.py").read_text()
    assert "def double(x: Tensor) -> Tensor:" in text
    assert "def double_out(x: Tensor, *, out: Tensor) -> Tensor:" in text


def test_a_module_without_a_word_for_tensor_is_left_with_a_reason(tmp_path: Path) -> None:
    kernel = """\
from torch.library import custom_op
from kinds import OptTensor, Plain, zeros

@custom_op("demo::double", mutates_args=("out",))
def double(x: Plain, out: OptTensor = None) -> Plain:
    if out is None:
        out = zeros(x)
    out.copy_(x)
    return out
"""
    kinds = KINDS + "from torch import Tensor as Plain, zeros_like as zeros\n"
    write(tmp_path, {"ops.py": kernel, "kinds.py": kinds})
    migration = run(tmp_path)
    assert any("no word for Tensor" in finding.message for finding in migration.findings)


def test_a_name_for_something_else_is_no_optional(tmp_path: Path) -> None:
    imports = "import torch\nfrom torch import Tensor\nOptTensor = Tensor\n"
    kernel = KERNEL.format(written="OptTensor").replace(" = None", "")
    write(tmp_path, {"ops.py": imports + kernel})
    apply(run(tmp_path))
    assert "def double_out" not in (tmp_path / "ops.py").read_text()
