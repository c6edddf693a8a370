"""A helper out of sight is reported once, with a configuration that works."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.config.load import load_config
from opscaffold.findings.model import Finding
from opscaffold.rules.catalog import apply_rules
from opscaffold.rules.unknown_registrar import RULE
from opscaffold.source.project import load_project


def findings(directory: Path, text: str) -> list[Finding]:
    (directory / "module.py").write_text(text, "utf-8")
    project = load_project([directory], directory, registrars=load_config(directory).registrars)
    return list(apply_rules(project, [RULE]))


HEAD = "from kernels.utils import direct_register_custom_op as reg, register_op\ndef f(x): ...\n"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("reg(op_name='f', op_func=f, mutates_args=[], fake_impl=f)", "here::f"),
        ("reg('f', f, mutates_args=['x'], target_lib='mine')", "mine::f"),
        ("reg('ns::f', f)", "ns::f"),
        ("@register_op('ns::f')\ndef g(x): ...", "ns::f"),
        ("register_op('ns::f')(f)", "ns::f"),
        ("reg(name='ns::f', fn=f, schema='(Tensor x) -> ()')", "ns::f"),
    ],
)
def test_the_configuration_shown_describes_the_helper(
    tmp_path: Path, written: str, name: str
) -> None:
    (found,) = findings(tmp_path, f"{HEAD}{written}\n")
    table = found.remedy.partition("\n")[2].replace('"..."', '"here"')
    (tmp_path / "pyproject.toml").write_text(f"[tool.opscaffold]\n{table}\n", "utf-8")
    assert findings(tmp_path, f"{HEAD}{written}\n") == []
    config = load_config(tmp_path)
    project = load_project([tmp_path], tmp_path, registrars=config.registrars)
    assert [op.qualname for op in project.ops] == [name]
    assert project.ops[0].definition.function is not None


def test_each_helper_is_reported_once(tmp_path: Path) -> None:
    calls = "".join(f"reg('ns::f{n}', f, mutates_args=())\n" for n in range(3))
    (found,) = findings(tmp_path, f"{HEAD}{calls}register_op\n")
    assert found.position.line == 3
    assert [spot.line for spot in found.evidence] == [4, 5]
    assert "3 calls" in found.message


@pytest.mark.parametrize(
    "written",
    [
        "register_op('Add', f)",
        "reg(5, f)",
        "reg('ns::f')",
        "def register_op(n, f): ...\nregister_op('ns::f', f)",
        "import torch\ntorch.onnx.register_custom_op('ns::f', f)",
        "def use(register_op):\n    register_op('ns::f', f)",
        "reg",
        "import functools\npart = functools.partial(f, mutates_args=())",
        "dict(mutates_args=())",
    ],
)
def test_what_only_looks_like_it_is_left_alone(tmp_path: Path, written: str) -> None:
    assert findings(tmp_path, f"{HEAD}{written}\n") == []
