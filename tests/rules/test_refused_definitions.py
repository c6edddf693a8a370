"""Definitions that raise, or whose every call does, for more than an annotation."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code == "OPS406"]


def reported(text: str, directory: Path) -> list[str]:
    head = "import torch\nfrom torch import Tensor\n\n"
    (directory / "module.py").write_text(head + text, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return [f.message for f in apply_rules(project, RULES)]


NAMED = (
    "@torch.library.custom_op({0!r}, mutates_args=())\ndef f(x: Tensor) -> Tensor:\n    return -x\n"
)
BESIDE = (
    "@torch.library.custom_op('d::f', mutates_args=(), schema={0!r})\n"
    "def f({1}):\n    return x * 2\n"
)
DEFAULT = (
    "@torch.library.custom_op('d::f', mutates_args=())\n"
    "def f(x: Tensor, y: {0}) -> Tensor:\n    return x * 2\n"
)


@pytest.mark.parametrize("name", ["f", "d:f", "d::e::f", "::f", "d::", "d::f-g", "d-e::f"])
def test_a_name_that_is_not_a_namespace_and_a_name_is_reported(name: str, tmp_path: Path) -> None:
    (message,) = reported(NAMED.format(name), tmp_path)
    assert repr(name) in message


@pytest.mark.parametrize("name", ["d::f", "_d::_f", "d2::f_out", "d::f.out"])
def test_a_plain_name_is_not(name: str, tmp_path: Path) -> None:
    assert reported(NAMED.format(name), tmp_path) == []


@pytest.mark.parametrize(
    ("schema", "takes", "word"),
    [
        ("(Tensor x) -> Tensor", "x, y", "'y'"),
        ("(Tensor x) -> Tensor", "x, *, y", "'y'"),
        ("(Tensor x, int n) -> Tensor", "x", "'n'"),
        ("(Tensor x, *, int n) -> Tensor", "x", "'n'"),
        ("(Tensor x, *, int n) -> Tensor", "x, m", "'n'"),
    ],
)
def test_a_schema_of_other_parameters_than_the_kernel_is_reported(
    schema: str, takes: str, word: str, tmp_path: Path
) -> None:
    (message,) = reported(BESIDE.format(schema, takes), tmp_path)
    assert word in message


@pytest.mark.parametrize(
    ("schema", "takes"),
    [
        ("(Tensor x) -> Tensor", "x"),
        ("(Tensor a) -> Tensor", "x"),
        ("(Tensor x) -> Tensor", "x, y=None"),
        ("(Tensor x, int n=1) -> Tensor", "x, n"),
        ("(Tensor x, *, int n) -> Tensor", "x, n"),
        ("(Tensor x, *, int n) -> Tensor", "x, *, n"),
        ("(Tensor x, int n) -> Tensor", "x, *rest"),
        ("(Tensor x, *, int n) -> Tensor", "x, **rest"),
    ],
)
def test_a_schema_that_the_kernel_can_be_called_by_is_not(
    schema: str, takes: str, tmp_path: Path
) -> None:
    assert reported(BESIDE.format(schema, takes), tmp_path) == []


@pytest.mark.parametrize(
    "default", ["Tensor = torch.zeros(1)", "Tensor = torch.tensor(1.0)", "Tensor = torch.empty(0)"]
)
def test_a_tensor_as_a_default_is_reported(default: str, tmp_path: Path) -> None:
    (message,) = reported(DEFAULT.format(default), tmp_path)
    assert "'y'" in message


@pytest.mark.parametrize(
    "default", ["Tensor | None = None", "torch.dtype = torch.float32", "float = 1.0"]
)
def test_a_default_that_a_schema_can_say_is_not(default: str, tmp_path: Path) -> None:
    assert reported(DEFAULT.format(default), tmp_path) == []
