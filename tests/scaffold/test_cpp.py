"""Packages whose kernels are in C++: what is written, and what is refused with the reason."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from generated import DYNAMIC, EXPRESSION, op, package

from opscaffold.cli import app
from opscaffold.cli.new_texts import next_steps_text
from opscaffold.scaffold.answers import answers_of, build
from opscaffold.scaffold.cpp_names import Identifiers, literal
from opscaffold.scaffold.cpp_sizes import size_text
from opscaffold.scaffold.cpp_source import cpp_source
from opscaffold.scaffold.given import AnswerError, Answers, Given, Value
from opscaffold.scaffold.languages import LANGUAGES
from opscaffold.scaffold.layout import Layout
from opscaffold.scaffold.matrix_ops import UNUSUAL, grid
from opscaffold.scaffold.matrix_random import random_ops
from opscaffold.scaffold.plan import OpPlan
from opscaffold.scaffold.render import preview
from opscaffold.scaffold.spec import KernelLanguage, OpSpec, PackageSpec, Registration, Setting

CPP = LANGUAGES[KernelLanguage.CPP]


def cpp(*ops: OpSpec, torch_min: tuple[int, int] = (2, 13)) -> PackageSpec:
    return package("fast-ops", [replace(o, kernel=KernelLanguage.CPP) for o in ops], torch_min)


def source(*ops: OpSpec, torch_min: tuple[int, int] = (2, 13)) -> str:
    files = preview(cpp(*ops, torch_min=torch_min))
    return "".join(text for path, text in files.items() if path.suffix == ".cpp")


def answers(schema: str, **more: Value) -> Answers:
    op_answers = {"schema": Given(schema, "--schema"), "kernel": Given("cpp", "--kernel")}
    return Answers({k: Given(v, f"--{k}") for k, v in more.items()}, (op_answers,))


def test_the_schema_and_the_kernel_are_registered_in_the_namespace() -> None:
    text = source(op("ns::scale(Tensor x, float alpha=1.5) -> Tensor"))
    define = 'm.def("scale(Tensor x, float alpha=1.5) -> Tensor", {at::Tag::pt2_compliant_tag});'
    assert f"STABLE_TORCH_LIBRARY_FRAGMENT(fast_ops, m) {{\n  {define}\n}}" in text
    assert 'CPU, m) {\n  m.impl("scale", TORCH_BOX(&functional<cpu_kernel>));\n}' in text
    assert 'CUDA, m) {\n  m.impl("scale", TORCH_BOX(&functional<cuda_kernel>));\n}' in text
    assert "void cpu_kernel(const Tensor& x, double alpha, const Tensor& out) {" in text


def test_the_kernel_for_cuda_is_built_where_cuda_is_and_is_the_one_declared() -> None:
    files = preview(cpp(op("ns::scale(Tensor x, float alpha=1.5) -> Tensor")))
    head = "void cuda_kernel(const Tensor& x, double alpha, const Tensor& out)"
    assert f"#ifdef WITH_CUDA\n// In cuda/scale.cu.\n{head};\n#endif" in files[_csrc("scale.cpp")]
    assert f"{head} {{" in files[Path("csrc/cuda/scale.cu")]
    for file in (_csrc("scale.cpp"), Path("csrc/cuda/scale.cu")):
        assert "namespace scale_op {" in files[file]


def _csrc(name: str) -> Path:
    return Path("csrc") / name


def test_every_argument_has_the_type_that_the_stable_abi_hands_over() -> None:
    text = source(
        op(
            "ns::every(Tensor x, Tensor? b, Tensor[] xs, Tensor?[] ys, int n, float f, bool flag, "
            "str mode, ScalarType dt, Device dev, int[] sizes, float[] ws, bool[] bs, "
            "int? on=None, float? of=None, bool? ob=None, str? os=None, ScalarType? odt=None, "
            "Device? odev=None, int[]? osz=None, *, int kn=1) -> (Tensor, Tensor[], int, bool)"
        )
    )
    head = " ".join(text[text.index("functional(") - 90 : text.index("{\n  const Tensor")].split())
    assert "std::tuple<Tensor, std::vector<Tensor>, int64_t, bool> functional(" in head
    for parameter in (
        "const Tensor& x",
        "const std::optional<Tensor>& b",
        "const std::vector<Tensor>& xs",
        "const std::vector<std::optional<Tensor>>& ys",
        "int64_t n",
        "double f",
        "bool flag",
        "const std::string& mode",
        "ops::ScalarType dt",
        "ops::Device dev",
        "const std::vector<int64_t>& sizes",
        "const std::vector<double>& ws",
        "const std::vector<bool>& bs",
        "std::optional<int64_t> on",
        "std::optional<double> of",
        "std::optional<bool> ob",
        "const std::optional<std::string>& os",
        "std::optional<ops::ScalarType> odt",
        "std::optional<ops::Device> odev",
        "const std::optional<std::vector<int64_t>>& osz",
        "int64_t kn)",
    ):
        assert parameter in head


@pytest.mark.parametrize(
    ("schema", "registered"),
    [
        ("ns::i_(Tensor(a!) x, Tensor y) -> Tensor(a!)", "i_(Tensor(a0!) x, Tensor y) -> ()"),
        (
            "ns::fill_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
            "fill_out(Tensor x, Tensor(a1!) out) -> ()",
        ),
        ("ns::move(Tensor(a!) x) -> Tensor", "move(Tensor(a0!) x) -> Tensor"),
    ],
)
def test_ops_whose_tags_the_stable_abi_lacks_are_registered_as_mutable_ones(
    schema: str, registered: str
) -> None:
    made = cpp(op(schema))
    assert f'm.def("{registered}", {{at::Tag::pt2_compliant_tag}});' in source(op(schema))
    module = next(
        t for p, t in preview(made).items() if p.parent.name == "ops" and p.stem != "__init__"
    )
    assert f"fast_ops::{registered}" in module
    assert "torch.Tag" not in module


def test_what_is_written_is_counted_and_buffers_are_checked_on_both_sides() -> None:
    files = preview(cpp(op("ns::both_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")))
    text, module = files[_csrc("both_out.cpp")], files[Path("src/fast_ops/ops/both_out.py")]
    check = text.index('ops::check_buffer("both_out", "out", out, metadata(x));')
    assert (
        check < text.index("  kernel(x, out);") < text.index("ops::count_writes(ops::tensors(out")
    )
    assert 'check_buffer("both_out", "out", out, *_metadata(x))' in module


def test_a_call_without_any_tensor_finds_the_kernel_too() -> None:
    made = op("ns::make(int n) -> Tensor", EXPRESSION, shape=("n", "2"))
    assert "_IMPL(fast_ops, CompositeExplicitAutograd, m)" in source(made)
    listed = op("ns::grow(Tensor(a!)[] xs) -> ()", like="")
    text = source(listed)
    assert "_IMPL(fast_ops, CompositeExplicitAutograd, m)" in text
    assert 'ops::check_on_cpu("grow", ops::tensors(xs));' in text
    module = preview(cpp(listed))[Path("src/fast_ops/ops/grow.py")]
    assert 'torch.library.register_fake("fast_ops::grow", fake_nothing)' in module
    assert "check_on_cpu" not in source(op("ns::scale(Tensor x) -> Tensor"))


def test_sizes_are_those_of_python() -> None:
    names = Identifiers(["x", "int"])
    assert size_text("x.shape[-1] // int", names) == "ops::floor_divide(ops::size(x, -1), int_arg)"
    assert size_text("-int % 2 + x.ndim", names) == (
        "(ops::remainder((-int_arg), int64_t{2}) + x.dim())"
    )
    assert size_text("2 * (x.numel() - 1)", names) == "(int64_t{2} * (x.numel() - int64_t{1}))"


def test_names_that_c_plus_plus_keeps_are_changed_and_stay_apart() -> None:
    names = Identifiers(["int", "int_arg", "ops", "EOF", "M_PI", "stdin", "__x", "total", "alpha"])
    words = [names[n] for n in ("int", "ops", "EOF", "M_PI", "stdin", "__x")]
    assert words == ["int_arg_a", "ops_arg", "EOF_arg", "M_PI_arg", "stdin_arg", "x_arg"]
    assert names["int_arg"] == "int_arg"
    assert names["total"] == "total"
    assert names.local("total") == "total_"
    assert names.local("total") == "total_"
    assert names.local("factor") == "factor"


def test_a_literal_holds_any_text() -> None:
    assert literal('a"b\\c') == '"a\\042b\\134c"'
    assert literal("é\n9") == '"\\303\\251\\0129"'


@pytest.mark.parametrize(
    ("schema", "more", "reason"),
    [
        ("ns::f(Tensor x, Scalar s) -> Tensor", {}, r"s is a Scalar, which .* nearest: float"),
        ("ns::f(Tensor x, Scalar? s) -> Tensor", {}, r"s is a Scalar\?, which"),
        ("ns::f(Tensor x, Scalar[] s) -> Tensor", {}, r"s is a Scalar\[\], which"),
        ("ns::f(Tensor x) -> Scalar", {}, r"it returns a Scalar, which"),
        ("ns::f(Tensor x) -> Tensor", {"torch_min": "2.9"}, r"since torch 2\.10; say --torch-min"),
        ("EOF::f(Tensor x) -> Tensor", {}, r"the namespace EOF may be a macro"),
    ],
)
def test_what_the_stable_abi_cannot_carry_is_refused(
    schema: str, more: dict[str, Value], reason: str
) -> None:
    with pytest.raises(AnswerError, match=reason) as caught:
        build(answers(schema, package="my-ops", **more))
    assert caught.value.origin == "--kernel"


def test_an_older_torch_is_what_the_library_is_built_for() -> None:
    made = cpp(op("ns::scale(Tensor x) -> Tensor"), torch_min=(2, 10))
    assert "TORCH_MIN = (2, 10)" in preview(made)[Path("setup.py")]
    assert "at::Tag" not in source(op("ns::scale(Tensor x) -> Tensor"), torch_min=(2, 11))
    assert "at::Tag" in source(op("ns::scale(Tensor x) -> Tensor"), torch_min=(2, 12))


def test_gradients_that_would_be_lost_are_refused_by_the_op_itself() -> None:
    plain = op("ns::plain(Tensor x) -> Tensor", autograd=False)
    module = preview(cpp(plain))[Path("src/fast_ops/ops/plain.py")]
    assert 'refuse_backward("fast_ops::plain")' in module
    trained = op("ns::plain(Tensor x) -> Tensor")
    module = preview(cpp(trained))[Path("src/fast_ops/ops/plain.py")]
    assert "refuse_backward" not in module
    assert 'register_autograd("fast_ops::plain", _backward' in " ".join(module.split())


def test_the_registration_asked_for_is_that_of_the_other_kernels() -> None:
    made = cpp(op("ns::scale(Tensor x) -> Tensor"))
    other = op("ns::shift(Tensor x) -> Tensor")
    mixed = replace(
        made,
        ops=(*made.ops, replace(other, contract=replace(other.contract, namespace="fast_ops"))),
    )
    for way in Registration:
        files = preview(replace(mixed, registration=way))
        assert "_Library" not in files[Path("src/fast_ops/ops/scale.py")]
        assert 'cpp_op(torch.ops.fast_ops, "scale")' in files[Path("src/fast_ops/ops/scale.py")]
        through = "torch.library.custom_op" in files[Path("src/fast_ops/ops/shift.py")]
        assert through is (way is Registration.CUSTOM_OP)
    assert not [path for path in preview(mixed) if path.name == "shift.cpp"]


def test_a_package_without_such_kernels_has_nothing_to_build() -> None:
    files = preview(package("fast-ops", [op("ns::scale(Tensor x) -> Tensor")]))
    assert not {p for p in files if p.suffix in (".cpp", ".cu", ".h")}
    assert Path("setup.py") not in files
    assert "hatchling" in files[Path("pyproject.toml")]
    assert "isolation" not in "".join(files.values())


def test_the_answers_and_the_next_steps_tell_of_it() -> None:
    made = build(answers("ns::scale(Tensor x) -> Tensor", package="my-ops"))
    assert answers_of(made).ops[0]["kernel"].value == "cpp"
    assert "--no-build-isolation" in next_steps_text(made, Path("my-ops"))
    assert "--no-build-isolation" in preview(made)[Path("README.md")]


def carried(ops: list[OpSpec]) -> list[OpSpec]:
    return [o for o in ops if CPP.refusal(o, Setting()) is None]


def test_any_op_that_is_not_refused_is_written_with_balanced_brackets() -> None:
    ops = carried([*grid(), *UNUSUAL, *random_ops(seed=5, count=80)])
    assert len(ops) > 200
    for each in ops:
        made = cpp_source(OpPlan(each, cpp(each), Layout(), CPP))
        lines = [*made.cpu_head, *made.body, "}", *made.metadata, *made.definitions, *made.cpu]
        text = "\n".join([*lines, *(line for function in made.functions for line in function)])
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        for opening, closing in ("()", "[]", "{}"):
            assert bare.count(opening) == bare.count(closing)
        assert not re.search(r"\b(?:None|True|False)\b", bare)


def test_dynamic_results_are_made_before_an_input_is_written() -> None:
    text = source(op("ns::take(Tensor(a!) x, Tensor y) -> Tensor", DYNAMIC))
    assert text.index("ops::selected(") < text.index("ops::write(x, ")


def test_a_package_of_other_kernels_becomes_one_that_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = "my_ops::scale(Tensor x) -> Tensor", "my_ops::grow(Tensor(a!) x) -> ()"
    assert app.main(["new", "my-ops", "--schema", first, "--output-dir", str(tmp_path)]) == 0
    monkeypatch.chdir(tmp_path / "my-ops")
    assert app.main(["add", "--kernel", "cpp", "--schema", second]) == 0
    assert "pip install --no-build-isolation -e" in capsys.readouterr().out
    ops: tuple[dict[str, Given], ...] = (
        {"schema": Given(first)},
        {"schema": Given(second), "kernel": Given("cpp")},
    )
    wanted = preview(build(Answers({"package": Given("my-ops")}, ops)))
    for path in ("csrc/grow.cpp", "csrc/ops.h", "setup.py", "pyproject.toml", "tests/conftest.py"):
        assert Path(path).read_text() == wanted[Path(path)]
