"""Helpers that the configuration describes register what it says they do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opscaffold.config.model import Registrar
from opscaffold.source.model import Form, Role
from opscaffold.source.project import Project, load_project

DIRECT = Registrar(
    "kernels.utils.direct_register",
    ("op_name", "op_func", "mutates_args", "fake_impl", "target_lib"),
    name="op_name",
    namespace="target_lib",
    function="op_func",
    mutates_args="mutates_args",
    fake="fake_impl",
    default_namespace="kernels",
    default_mutates=(),
)
DECORATOR = Registrar("kernels.op", ("name",), name="name", mutates_args="mutates")


def read(directory: Path, text: str, *registrars: Registrar) -> Project:
    (directory / "module.py").write_text(text, "utf-8")
    return load_project([directory], directory, registrars=registrars)


def test_a_call_registers_its_function_and_fake(tmp_path: Path) -> None:
    project = read(
        tmp_path,
        "from kernels.utils import direct_register\n"
        "def f(x, out): ...\n"
        "def f_fake(x, out): ...\n"
        "direct_register('f', f, mutates_args=['out'], fake_impl=f_fake)\n",
        DIRECT,
    )
    (op,) = project.ops
    definition = op.definition
    assert (op.qualname, definition.form, definition.role) == (
        "kernels::f",
        Form.HELPER,
        Role.DEFINE,
    )
    assert definition.function is not None
    assert definition.function.lineno == 2  # type: ignore[union-attr]
    assert definition.mutates == ("out",)
    assert [(r.role, r.qualname) for r in op.attached] == [
        (Role.IMPL, "kernels::f"),
        (Role.FAKE, "kernels::f"),
    ]
    assert op.attached[1].function.lineno == 3  # type: ignore[union-attr]
    assert project.unknown_helpers == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("direct_register('f', f)", "kernels::f"),
        ("direct_register('mine::f', f)", "mine::f"),
        ("direct_register('f', f, [], None, 'other')", "other::f"),
        ("direct_register(op_func=f, op_name='f', target_lib=lib)", "libs::f"),
        ("direct_register('mine::g(Tensor x) -> Tensor', f)", "mine::g"),
        ("direct_register(op_func=f)", "kernels::f"),
        ("direct_register(NAME + '_1', f)", "kernels::base_1"),
    ],
)
def test_names_come_from_the_call_or_the_defaults(
    tmp_path: Path, written: str, expected: str
) -> None:
    project = read(
        tmp_path,
        "from torch.library import Library\n"
        "from kernels.utils import direct_register\n"
        "lib = Library('libs', 'DEF')\n"
        "NAME = 'base'\n"
        f"def f(x): ...\n{written}\n",
        DIRECT,
    )
    assert [op.qualname for op in project.ops] == [expected]
    assert project.ops[0].definition.qualname == expected


@pytest.mark.parametrize(
    ("registers", "roles"),
    [
        ("define", [Role.DEFINE, Role.IMPL, Role.FAKE]),
        ("custom_op", [Role.CUSTOM_OP, Role.FAKE]),
        ("nothing", []),
    ],
)
def test_a_description_says_what_the_helper_comes_to(
    tmp_path: Path, registers: str, roles: list[Role]
) -> None:
    text = (
        "from kernels.utils import direct_register\n"
        "def f(x): ...\ndirect_register('f', f, fake_impl=f)\n"
    )
    project = read(tmp_path, text, replace(DIRECT, registers=registers))
    found = [r.role for op in project.ops for r in (op.definition, *op.attached)]
    assert (found, project.stray, project.unknown_helpers) == (roles, [], [])


def test_a_described_helper_may_add_to_an_op_from_elsewhere(tmp_path: Path) -> None:
    text = (
        "import torch\nimport kernels\n"
        "@torch.library.custom_op('ns::f', mutates_args=())\ndef f(x): ...\n"
        "@kernels.fake('ns::f')\ndef f_fake(x): ...\n"
        "@kernels.cuda('ns::f')\ndef f_cuda(x): ...\n"
    )
    fake = Registrar("kernels.fake", ("name",), name="name", registers="register_fake")
    cuda = Registrar("kernels.cuda", ("name",), name="name", registers="impl")
    (op,) = read(tmp_path, text, fake, cuda).ops
    assert [(r.role, r.function.name) for r in op.attached] == [  # type: ignore[union-attr]
        (Role.FAKE, "f_fake"),
        (Role.IMPL, "f_cuda"),
    ]


def test_what_is_computed_has_a_hint_only(tmp_path: Path) -> None:
    project = read(
        tmp_path,
        "from kernels.utils import direct_register\n"
        "def f(x): ...\n"
        "for kind in kinds():\n    direct_register(f'{kind}_f', f)\n",
        DIRECT,
    )
    (op,) = project.ops
    assert (op.qualname, op.definition.qualname) == ("kernels::{kind}_f", None)
    assert op.definition.conditional


@pytest.mark.parametrize(
    "written",
    [
        "@op('ns::f', mutates=('x',))\ndef f(x): ...",
        "@kernels.op(name='ns::f', mutates={'x'})\ndef f(x): ...",
        "def f(x): ...\nop('ns::f', mutates=['x'])(f)",
    ],
)
def test_a_decorator_registers_what_it_stands_on(tmp_path: Path, written: str) -> None:
    project = read(tmp_path, f"import kernels\nfrom kernels import op\n{written}\n", DECORATOR)
    (op,) = project.ops
    assert (op.qualname, op.definition.mutates) == ("ns::f", ("x",))
    assert op.definition.function is not None


def test_a_bare_decorator_takes_the_function_for_a_name(tmp_path: Path) -> None:
    registrar = Registrar("kernels.op", default_namespace="ns", default_mutates="unknown")
    project = read(tmp_path, "import kernels\n@kernels.op\ndef f(x): ...\n", registrar)
    assert [(o.qualname, o.definition.mutates) for o in project.ops] == [("ns::f", "unknown")]


def test_a_description_goes_before_the_body_of_a_helper_in_sight(tmp_path: Path) -> None:
    text = (
        "import torch\n"
        "def register(name, fn):\n"
        "    torch.library.custom_op('wrong::' + name, fn, mutates_args=())\n"
        "def f(x): ...\n"
        "register('f', f)\n"
    )
    registrar = Registrar(
        "module.register", ("name", "fn"), name="name", function="fn", default_namespace="right"
    )
    assert [o.qualname for o in read(tmp_path, text, registrar).ops] == ["right::f"]
    assert [o.qualname for o in read(tmp_path, text).ops] == ["wrong::f"]


def test_another_function_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    text = "from others import op\n@op('ns::f')\ndef f(x): ...\n"
    assert read(tmp_path, text, DECORATOR).ops == []


MAKER = Registrar("kernels.op_in", ("home", "inline"), namespace="home", strip="_")


@pytest.mark.parametrize(
    "written",
    [
        "op = op_in(HOME)\n@op\ndef _f(x): ...\n",
        "op = op_in(HOME, inline=False)\ndef _f(x): ...\nf = op(_f)\n",
        "@op_in(HOME)\ndef _f(x): ...\n",
        "def _f(x): ...\nf = op_in(HOME)(_f)\n",
    ],
)
def test_a_decorator_may_be_made_first_and_kept(tmp_path: Path, written: str) -> None:
    head = "import torch\nfrom kernels import op_in\nHOME = torch.library.Library('ns', 'DEF')\n"
    (op,) = read(tmp_path, head + written, MAKER).ops
    assert op.qualname == "ns::f"
    assert op.definition.function is not None
    assert op.definition.function.name == "_f"  # type: ignore[union-attr]


def test_a_decorator_kept_in_another_file_reads_its_own_names(tmp_path: Path) -> None:
    (tmp_path / "home.py").write_text(
        "import torch\nfrom kernels import op_in\n"
        "HOME = torch.library.Library('ns', 'DEF')\nop = op_in(HOME)\n",
        "utf-8",
    )
    project = read(tmp_path, "from home import op as put\n@put\ndef _f(x): ...\n", MAKER)
    assert [op.qualname for op in project.ops] == ["ns::f"]


def test_a_kept_result_of_a_call_that_names_its_op_is_that_op(tmp_path: Path) -> None:
    project = read(tmp_path, "import kernels\nf = kernels.op('ns::f', mutates=[])\n", DECORATOR)
    assert [op.qualname for op in project.ops] == ["ns::f"]
