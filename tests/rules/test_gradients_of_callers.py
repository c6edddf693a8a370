"""What surely requires a gradient where an op that has none is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.findings.model import Severity
from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code == "OPS506"]
HEAD = """\
import torch
from torch import Tensor, nn


@torch.library.custom_op("d::acc", mutates_args=("total",))
def acc(total: Tensor, x: Tensor) -> None:
    total.add_(x)


"""
LAYER = """\
class Layer({0}):
    def __init__(self):
        super().__init__(3, 3)
        {1}

    def forward(self, t):
        acc(t, {2})
        return t
"""
FUNCTION = "{0}\n\n\ndef _step(total{1}):\n    {2}acc(total, weight * 2)\n"


def lost(text: str, directory: Path) -> bool:
    (directory / "module.py").write_text(HEAD + text, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return any(f.severity is Severity.WARNING for f in apply_rules(project, RULES))


@pytest.mark.parametrize(
    "text",
    [
        LAYER.format("nn.Linear", "pass  # nn.Parameter", "self.weight"),
        LAYER.format("torch.nn.Conv2d", "pass  # nn.Parameter", "self.weight.t()"),
        LAYER.format("nn.Module", "self.l = nn.Linear(3, 3)  # nn.Parameter", "self.l.weight"),
        FUNCTION.format("weight = torch.ones(3, requires_grad=True)", "", ""),
        FUNCTION.format("weight = nn.Parameter(torch.ones(3))", ", x", ""),
    ],
)
def test_a_parameter_or_a_tensor_of_the_module_loses_its_gradient(
    text: str, tmp_path: Path
) -> None:
    assert lost(text, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        LAYER.format("nn.Linear", "self.weight.requires_grad_(False)", "self.weight"),
        LAYER.format("nn.Linear", "self.weight = make()  # nn.Parameter", "self.weight"),
        LAYER.format("nn.Linear", "pass  # nn.Parameter", "self.weight.detach()"),
        LAYER.format("nn.Module", "pass  # nn.Parameter", "self.weight"),
        FUNCTION.format("weight = torch.ones(3)  # requires_grad", "", ""),
        FUNCTION.format("weight = torch.ones(3, requires_grad=True)", ", weight", ""),
        FUNCTION.format(
            "weight = torch.ones(3, requires_grad=True)", "", "weight = torch.ones(3)\n    "
        ),
    ],
)
def test_what_need_not_require_one_is_left_alone(text: str, tmp_path: Path) -> None:
    assert not lost(text, tmp_path)
