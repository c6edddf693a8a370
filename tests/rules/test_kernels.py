"""What is found of an op's kernels is kept, and nobody who asks can change it."""

from __future__ import annotations

from pathlib import Path

from opscaffold.rules.base import OpFacts
from opscaffold.rules.kernels import kernels_of
from opscaffold.source.project import load_project

TEXT = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::scale", mutates_args=())
def scale(x: Tensor) -> Tensor:
    return x * 2


@scale.register_kernel("cuda")
def _(x: Tensor) -> Tensor:
    return x + x
"""


def test_kernels_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(TEXT, "utf-8")
    project = load_project([tmp_path], tmp_path)
    facts = OpFacts(project, project.ops[0])
    first = kernels_of(facts)
    assert len(first) == 2
    again = kernels_of(facts)
    assert all(a is b for a, b in zip(first, again, strict=True))
    again.clear()
    assert kernels_of(facts) == first


def test_other_facts_have_kernels_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(TEXT, "utf-8")
    before = kernels_of(OpFacts(project := load_project([tmp_path], tmp_path), project.ops[0]))
    (tmp_path / "ops.py").write_text(TEXT.replace("x + x", "x.mul_(2)"), "utf-8")
    after = kernels_of(OpFacts(project := load_project([tmp_path], tmp_path), project.ops[0]))
    assert not before[1].effects.mutations
    assert list(after[1].effects.mutations) == ["x"]
