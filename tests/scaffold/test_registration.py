"""Packages whose ops are registered through a Library: what stands in them, and that it holds."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from generated import BROADCAST, op, package, pytest_in, require, run, write

import opscaffold
from opscaffold.contract.model import Kind
from opscaffold.scaffold.answers import answers_of, build
from opscaffold.scaffold.answers_file import dump, parse
from opscaffold.scaffold.given import AnswerError, Answers, Given
from opscaffold.scaffold.layout import Layout
from opscaffold.scaffold.render import preview
from opscaffold.scaffold.spec import OpSpec, PackageSpec, Registration

ROOT = Path(opscaffold.__file__).resolve().parent.parent
OPS = (
    op("ns::trained(Tensor x, float alpha=1.5) -> Tensor"),
    op("ns::plain(Tensor x, Tensor[] ys) -> (Tensor, Tensor)", autograd=False),
    op("ns::fam(Tensor x, Tensor y) -> Tensor", BROADCAST, family=True),
    op("ns::move(Tensor(a!)? x, Tensor y) -> ()", like="y"),
    op("ns::fill(Tensor(a!) x) -> Tensor"),
    op("ns::count(Tensor x) -> int"),
)


def spec(
    ops: tuple[OpSpec, ...] = OPS,
    torch_min: tuple[int, int] = (2, 13),
    way: Registration = Registration.LIBRARY,
) -> PackageSpec:
    return replace(package("low-ops", ops, torch_min), registration=way)


def modules(made: PackageSpec) -> dict[str, str]:
    return {p.stem: t for p, t in preview(made).items() if p.parent.name == "ops"}


def test_each_module_keeps_the_library_that_its_ops_live_in() -> None:
    texts = modules(spec())
    del texts["__init__"]
    assert len(texts) == len(OPS)
    for text in texts.values():
        at = text.index('_library = _Library("low_ops", "FRAGMENT")')
        assert at < text.index("_library.define(") < text.index("@torch.library.impl(_library,")
        assert "torch.library.custom_op" not in text
    assert texts["fam"].count("_library.define(") == 3


def test_fakes_autograd_and_tags_are_those_of_the_kinds() -> None:
    texts = modules(spec())
    faked = {name for name, text in texts.items() if "torch.library.register_fake(" in text}
    assert faked == {"trained", "plain", "fam", "fill", "count"}
    trained = {name for name, text in texts.items() if "torch.library.register_autograd(" in text}
    assert trained == {"trained", "fam"}
    assert all("lib=_library" in texts[name] for name in faked)
    assert "tags=(torch.Tag.inplace, torch.Tag.pt2_compliant_tag)" in texts["fam"]
    assert "tags=(torch.Tag.out, torch.Tag.pt2_compliant_tag)" in texts["fam"]
    assert "torch.Tag.inplace" not in modules(spec(torch_min=(2, 12)))["fam"]


def test_what_custom_op_does_at_each_call_is_written_out() -> None:
    texts = modules(spec())
    refusing = {n for n, text in texts.items() if re.search(r"    refuse_reverse_mode\(", text)}
    assert refusing == {"plain"}
    counting = {name for name, text in texts.items() if "    count_writes(" in text}
    assert counting == {"fam", "move", "fill"}
    assert "count_writes" not in "".join(preview(spec(way=Registration.CUSTOM_OP)).values())


def test_custom_op_is_the_default_and_leaves_no_trace_of_the_other() -> None:
    assert package("low-ops", OPS) == spec(way=Registration.CUSTOM_OP)
    text = "".join(preview(package("low-ops", OPS)).values())
    assert "torch.library.Library" not in text
    assert "op_returns_what_it_wrote" not in text


@pytest.mark.parametrize("way", list(Registration))
def test_the_answer_comes_back_from_a_saved_file(way: Registration) -> None:
    made = spec(way=way)
    assert build(parse(dump(answers_of(made)), "a.toml")) == made


def test_another_way_is_refused_with_the_ways_there_are() -> None:
    answers = Answers(
        {"package": Given("low-ops"), "registration": Given("pybind", "--registration")},
        ({"schema": Given("f(Tensor x) -> Tensor")},),
    )
    with pytest.raises(AnswerError, match=r"--registration: 'pybind'.*custom_op or library"):
        build(answers)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_long_schema_is_split_without_loss(width: int) -> None:
    schema = "f(Tensor x, str a=\"b 'c'  d\", " + ", ".join(f"int n{n}" for n in range(30)) + ")"
    lines = Layout(width).call_with_text("library.define", schema, ["tags=torch.Tag.out"], depth=0)
    assert all(len(line) <= width for line in lines)
    (statement,) = ast.parse("\n".join(lines)).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert ast.literal_eval(statement.value.args[0]) == schema


def test_check_lists_them_with_their_kinds(tmp_path: Path) -> None:
    made = write(spec(), tmp_path)
    command = ("-m", "opscaffold", "check", "--list-ops", "--root", ".", "src")
    listed = require(run(made, *command, PYTHONPATH=str(ROOT)))
    kinds = dict(re.findall(r"^low_ops::(\w+) +(\S+) +define", listed, re.MULTILINE))
    assert kinds == {
        "trained": Kind.FUNCTIONAL.value,
        "plain": Kind.FUNCTIONAL.value,
        "fam": Kind.FUNCTIONAL.value,
        "fam_": Kind.INPLACE.value,
        "fam_out": Kind.OUT.value,
        "move": Kind.MUTABLE.value,
        "fill": Kind.MUTABLE.value,
        "count": Kind.FUNCTIONAL.value,
    }


def test_the_flag_is_kept_in_the_saved_answers(tmp_path: Path) -> None:
    command = ("-m", "opscaffold", "new", "low-ops", "--defaults", "--save-answers", "a.toml")
    require(run(tmp_path, *command, "--registration", "library", PYTHONPATH=str(ROOT)))
    assert 'registration = "library"\n' in (tmp_path / "a.toml").read_text()
    made = (tmp_path / "low-ops" / "src" / "low_ops" / "ops" / "my_op.py").read_text()
    assert "_library.define(" in made
    again = ("-m", "opscaffold", "new", "--answers", "a.toml", "--output-dir", "again")
    require(run(tmp_path, *again, PYTHONPATH=str(ROOT)))
    text = (tmp_path / "again" / "low-ops" / "src" / "low_ops" / "ops" / "my_op.py").read_text()
    assert text == made


# What is broken in an op, and the tests that must see it in place of custom_op.
BREACHES = {
    "an input returned": (
        op("ns::b0(Tensor x) -> Tensor", autograd=False),
        "    return out\n\n\n_op =",
        "    return x\n\n\n_op =",
        {"memory"},
    ),
    "one tensor returned twice": (
        op("ns::b1(Tensor x) -> (Tensor, Tensor)", autograd=False),
        "    return out0, out1\n\n\n_op =",
        "    return out0, out0\n\n\n_op =",
        {"memory"},
    ),
    "an in-place op that returns a copy": (
        op("ns::b2_(Tensor(a!) x) -> Tensor(a!)"),
        "    return x\n\n\n_op =",
        "    return x.clone()\n\n\n_op =",
        {"op_identity"},
    ),
    "buffers returned in another order": (
        op("ns::b3_out(Tensor x, *, Tensor(a!) lo, Tensor(b!) hi) -> (Tensor(a!), Tensor(b!))"),
        "    return lo, hi\n\n\n_op =",
        "    return hi, lo\n\n\n_op =",
        {"op_identity"},
    ),
    "a write behind the back of autograd": (
        op("ns::b4(Tensor(a!) x) -> ()"),
        "    count_writes(x)\n",
        "",
        {"versions"},
    ),
    "gradients through what the kernel calls": (
        op("ns::b5(Tensor x) -> Tensor", autograd=False),
        '    refuse_reverse_mode("b5", x)\n',
        "",
        {"op_gradients"},
    ),
    "gradients that are lost compiled": (
        op("ns::b6(Tensor x) -> Tensor", autograd=False),
        '    refuse_lost_gradients("b6", x)\n',
        "",
        {"forward_mode"},
    ),
}
# A kernel that writes to memory, as one in C++ does: by PyTorch's own ops there is no such breach.
RAW = "    x.numpy()[...] *= 2\n"


@pytest.mark.torch
@pytest.mark.slow
def test_the_tests_see_what_custom_op_would_see(tmp_path: Path) -> None:
    made = write(spec(tuple(breach[0] for breach in BREACHES.values())), tmp_path)
    wanted: set[tuple[str, str]] = set()
    for one, old, new, seen in BREACHES.values():
        name = one.contract.name
        path = made / "src" / "low_ops" / "ops" / f"{name}.py"
        text = path.read_text()
        assert old in text, name
        text = text.replace(old, new)
        if "versions" in seen:
            text, count = re.subn(r"    x\.(copy_|mul_)\(.*\)\n", RAW, text)
            assert count == 1
        path.write_text(text)
        wanted |= {(name, test) for test in seen}
    chosen = " or ".join(f"(test_{name} and test_{test})" for name, test in sorted(wanted))
    done = pytest_in(made, "-k", chosen, "-rfE", "--tb=no")
    failed = set(re.findall(r"FAILED \S+test_(\w+)\.py::test_(\w+)", done.stdout))
    assert failed == wanted, done.stdout[-4000:]


@pytest.mark.torch
@pytest.mark.slow
def test_a_package_of_them_passes_its_tools(tmp_path: Path) -> None:
    made = write(spec(OPS[:4]), tmp_path)
    require(run(made, "-m", "ruff", "check", "--no-cache", "."))
    require(run(made, "-m", "ruff", "format", "--no-cache", "--check", "."))
    require(run(made, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "mypy"), "src"))
    # What compiles is left to the packages that template check makes of the same ops.
    done = pytest_in(made, "-k", "not inductor and not opcheck and not compiled and not export")
    assert " passed" in require(done)
    assert "skipped" not in done.stdout
