"""A helper out of sight is reported once, with a configuration that works."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.config.load import load_config
from opscaffold.findings.model import Finding
from opscaffold.rules.catalog import apply_rules
from opscaffold.rules.unknown_registrar import RULE
from opscaffold.source.model import Op, Role
from opscaffold.source.project import Project, load_project


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
        ("reg('ns::f', fn=f)", "ns::f"),
        ("reg('f', f, [], lambda x: x)", "here::f"),
        ("reg(MY_LIB, 'ns::f', f, ())", "ns::f"),
        ("reg('ns::f(Tensor x) -> ()', f)", "ns::f"),
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


def described(directory: Path, text: str) -> tuple[list[Finding], Project]:
    """Paste what is shown for a text, and read it again."""
    shown = [f.remedy.partition("\n")[2] for f in findings(directory, text)]
    table = "\n".join(shown).replace('"..."', '"here"')
    (directory / "pyproject.toml").write_text(f"[tool.opscaffold]\n{table}\n", "utf-8")
    registrars = load_config(directory).registrars
    return findings(directory, text), load_project([directory], directory, registrars=registrars)


def roles(op: Op) -> list[Role]:
    return [registration.role for registration in op.attached]


def test_calls_by_keyword_and_by_position_are_read_together(tmp_path: Path) -> None:
    calls = (
        "reg(op_name='f', op_func=f, mutates_args=['x'], fake_impl=lambda x: None)\n"
        "reg('g', g, ['x'], lambda x: None)\n"
    )
    for lines in (calls.splitlines(), reversed(calls.splitlines())):
        text = "\n".join([f"{HEAD}def g(x): ...", *lines, ""])
        left, project = described(tmp_path, text)
        assert left == []
        assert sorted(op.qualname for op in project.ops) == ["here::f", "here::g"]
        for op in project.ops:
            assert op.definition.function is not None
            assert op.definition.mutates == ("x",)
            assert roles(op) == [Role.IMPL, Role.FAKE]
            assert all(r.function is not None for r in op.attached)
        (tmp_path / "pyproject.toml").unlink()


@pytest.mark.parametrize(
    ("helper", "role"), [("register_fake_op", Role.FAKE), ("register_kernel_op", Role.IMPL)]
)
@pytest.mark.parametrize(
    "written",
    ["@{}('ns::f')\ndef other(x): ...", "{}('ns::f', f)", "{}(op_name='ns::f', func=f)"],
)
def test_a_helper_that_adds_to_an_op_is_described_as_such(
    tmp_path: Path, helper: str, role: Role, written: str
) -> None:
    text = (
        f"from kernels.utils import register_custom_op, {helper}\n"
        "@register_custom_op('ns::f', mutates_args=())\ndef f(x): ...\n"
        f"{written.format(helper)}\n"
    )
    left, project = described(tmp_path, text)
    assert left == []
    (op,) = project.ops
    assert op.qualname == "ns::f"
    assert roles(op).count(role) == (2 if role is Role.IMPL else 1)
    assert project.stray == []


def test_what_some_calls_leave_out_has_a_default(tmp_path: Path) -> None:
    text = f"{HEAD}def g(x): ...\nreg('ns::f', f, ['x'])\nreg('ns::g', g)\n"
    left, project = described(tmp_path, text)
    assert left == []
    assert [op.definition.mutates for op in project.ops] == [("x",), ()]
