"""A backward is called with the context and one gradient for each value that the op returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code == "OPS503"]
TWO = "tuple[Tensor, Tensor]"


def reported(returns: str, takes: str, directory: Path) -> list[str]:
    (directory / "module.py").write_text(
        "import torch\nfrom torch import Tensor\n\n"
        '@torch.library.custom_op("d::f", mutates_args=())\n'
        f"def f(x: Tensor) -> {returns}:\n    return make(x)\n\n"
        f"def backward({takes}):\n    return g * 2\n\n"
        "f.register_autograd(backward)\n",
        "utf-8",
    )
    project = load_project([directory], directory)
    assert not project.problems
    return [f.message for f in apply_rules(project, RULES)]


@pytest.mark.parametrize(
    ("returns", "takes", "words"),
    [
        (TWO, "ctx, g", "1 gradient, the op returns 2 values"),
        (TWO, "ctx, g, h, i", "3 gradients, the op returns 2 values"),
        ("Tensor", "ctx, g, h", "2 gradients, the op returns 1 value"),
        ("list[Tensor]", "ctx, g, h", "2 gradients, the op returns 1 value"),
        ("Tensor", "g", "0 gradients, the op returns 1 value"),
    ],
)
def test_another_number_of_gradients_is_reported(
    returns: str, takes: str, words: str, tmp_path: Path
) -> None:
    assert any(words in message for message in reported(returns, takes, tmp_path))


@pytest.mark.parametrize(
    ("returns", "takes"),
    [
        (TWO, "ctx, g, h"),
        (TWO, "ctx, g, *rest"),
        (TWO, "ctx, g, h=None"),
        ("Tensor", "ctx, g"),
        ("Tensor", "ctx, g, h=None"),
        ("list[Tensor]", "ctx, g"),
    ],
)
def test_one_gradient_for_each_value_is_not(returns: str, takes: str, tmp_path: Path) -> None:
    assert reported(returns, takes, tmp_path) == []
