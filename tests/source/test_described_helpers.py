"""The descriptions of well-known helpers in the documentation work as they are pasted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opscaffold.config.load import load_config
from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.model import Role
from opscaffold.source.project import Project, load_project

PAGE = Path(__file__).parents[2] / "docs" / "registrars.md"
HEAD = """\
import torch
from torch import Tensor
from torch.library import Library

HOME = Library("mine", "FRAGMENT")


def halve(x: Tensor, out: Tensor) -> None:
    out.copy_(x * 0.5)


def halve_fake(x: Tensor, out: Tensor) -> None:
    return None


"""
VLLM = """\
from vllm.utils.torch_utils import direct_register_custom_op

direct_register_custom_op("halve", halve, ["out"], halve_fake)
direct_register_custom_op(
    op_name="halve", op_func=halve, mutates_args=["out"], fake_impl=halve_fake, target_lib=HOME
)
"""
SGLANG = """\
from sglang.srt.utils.common import direct_register_custom_op
from sglang.srt.utils.custom_op import register_custom_op

direct_register_custom_op("halve", halve, mutates_args=["out"], fake_impl=halve_fake)


@register_custom_op(out_shape="x")
def doubled(x: Tensor) -> Tensor:
    return x * 2


@register_custom_op(mutates_args=["x"])
def cleared(x: Tensor) -> None:
    x.zero_()


other = register_custom_op(halve, op_name="other", mutates_args=["out"])
"""
FLASHINFER = """\
from flashinfer.utils import register_custom_op, register_fake_op


@register_custom_op("flashinfer::halve", mutates_args=("out",))
def half(x: Tensor, out: Tensor) -> None:
    out.copy_(x * 0.5)


@register_fake_op("flashinfer::halve")
def half_fake(x: Tensor, out: Tensor) -> None:
    return None
"""
TORCHAO = """\
from torchao.utils import _register_custom_op

register = _register_custom_op(HOME)


@register
def _doubled(x: Tensor) -> Tensor:
    return x * 2


@_register_custom_op(HOME, False)
def _tripled(x: Tensor) -> Tensor:
    return x * 3
"""


def described(title: str, directory: Path, number: int = -1) -> Project:
    """Read what the directory holds with a description of the page."""
    section = PAGE.read_text("utf-8").partition(f"### {title}\n")[2].partition("\n### ")[0]
    texts = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    (directory / "pyproject.toml").write_text(texts[number], "utf-8")
    config = load_config(directory)
    return load_project([directory], directory, registrars=config.registrars)


@pytest.mark.parametrize(
    ("title", "text", "ops"),
    [
        ("vLLM", VLLM, {"vllm::halve": ("out",), "mine::halve": ("out",)}),
        (
            "sglang",
            SGLANG,
            {
                "sglang::halve": ("out",),
                "sglang::doubled": (),
                "sglang::cleared": ("x",),
                "sglang::other": ("out",),
            },
        ),
        ("flashinfer", FLASHINFER, {"flashinfer::halve": ("out",)}),
        ("torchao", TORCHAO, {"mine::doubled": (), "mine::tripled": ()}),
    ],
)
def test_a_description_makes_the_ops_known(
    title: str, text: str, ops: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    (tmp_path / "module.py").write_text(HEAD + text, "utf-8")
    project = described(title, tmp_path)
    assert {op.qualname: op.definition.mutates for op in project.ops} == ops
    assert project.unknown_helpers == []
    assert all(any(r.role is Role.FAKE for r in op.attached) for op in project.ops)
    assert list(apply_rules(project, all_rules())) == []


def test_a_helper_that_registers_nothing_is_said_to(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(HEAD + FLASHINFER, "utf-8")
    project = described("flashinfer", tmp_path, 0)
    assert project.ops == []
    assert project.unknown_helpers == []
