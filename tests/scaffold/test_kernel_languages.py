"""The language of a kernel: how it is answered, and what it may be refused for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from opscaffold.scaffold.answers import answers_of, build, merge
from opscaffold.scaffold.given import AnswerError, Answers, Given, Table
from opscaffold.scaffold.languages import LANGUAGES
from opscaffold.scaffold.render import preview
from opscaffold.scaffold.spec import KernelLanguage

SCHEMA = "ns::scale(Tensor x, float alpha=1.0) -> Tensor"


def answers(**op: str) -> Answers:
    table: Table = {key: Given(value, f"--{key}") for key, value in op.items()}
    return Answers({"package": Given("my-ops")}, (table,))


def test_every_language_has_its_word_and_tells_what_it_is_about() -> None:
    assert [*LANGUAGES] == [*KernelLanguage]
    assert all(each.word is word and each.about for word, each in LANGUAGES.items())


def test_the_kernel_is_of_pytorch_calls_where_nothing_is_said() -> None:
    spec = build(answers(schema=SCHEMA))
    assert spec.ops[0].kernel is KernelLanguage.TORCH
    assert answers_of(spec).ops[0]["kernel"].value == "torch"


def test_a_word_that_is_no_language_is_refused_with_those_that_are() -> None:
    with pytest.raises(AnswerError, match=r"'rust' is no language of kernels; it is torch, numpy"):
        build(answers(schema=SCHEMA, kernel="rust"))


def test_a_flag_about_the_kernel_is_about_every_op_unless_one_is_named() -> None:
    file = Answers({}, tuple({"schema": Given(f"ns::{n}(Tensor x) -> Tensor")} for n in "ab"))
    kernel = {"kernel": Given("torch", "--kernel")}
    every = merge(file, Answers(), kernel)
    one = merge(file, Answers(), {"name": Given("b", "--op"), **kernel})
    assert ["kernel" in op for op in every.ops] == [True, True]
    assert ["kernel" in op for op in one.ops] == [False, True]


def test_numpy_has_nothing_to_do_where_no_tensor_is_computed() -> None:
    with pytest.raises(AnswerError, match="neither returns nor writes one; nearest: --kernel"):
        build(answers(schema="ns::rank(Tensor x) -> int", kernel="numpy"))


@pytest.mark.parametrize("registration", ["custom_op", "library"])
def test_a_numpy_op_runs_on_the_cpu_alone_and_copies_its_results(registration: str) -> None:
    given = answers(schema=SCHEMA, kernel="numpy")
    package = {**given.package, "registration": Given(registration)}
    files = preview(build(Answers(package, given.ops)))
    module = files[Path("src/my_ops/ops/scale.py")]
    assert "fill(out0, 2 * value)" in module or "fill(out, 2 * value)" in module
    assert ('device_types="cpu"' in module) is (registration == "custom_op")
    assert ('"scale", "CPU")' in module) is (registration == "library")
    assert 'require_cpu("scale", x=x)' in module
    assert '"numpy"' in files[Path("pyproject.toml")].partition("[project.optional")[0]


def test_where_no_call_needs_a_tensor_pytorch_is_told_no_device() -> None:
    given = answers(
        schema="ns::make(int n) -> Tensor", fake="expression", fake_shape="n", kernel="numpy"
    )
    module = preview(build(given))[Path("src/my_ops/ops/make.py")]
    assert "device_types" not in module
    assert "require_cpu" not in module


def test_what_only_numpy_needs_is_nowhere_else() -> None:
    files = preview(build(answers(schema=SCHEMA)))
    assert "require_cpu" not in "".join(files.values())
    assert '"numpy"' not in files[Path("pyproject.toml")].partition("[project.optional")[0]


@pytest.mark.parametrize(
    ("op", "package", "reason"),
    [
        ({}, {"registration": "library"}, "a Library would hide it; nearest: --registration"),
        ({}, {"torch_min": "2.5"}, r"came with torch 2\.6; nearest: --torch-min 2\.6"),
        ({"fake": "dynamic"}, {}, "only the data tells"),
        ({"schema": "ns::rank(Tensor x) -> int"}, {}, "neither returns nor writes one"),
        ({"schema": "ns::add(Tensor[] xs) -> Tensor"}, {}, "xs is a list of them"),
        ({"schema": "ns::parts(Tensor x) -> Tensor[]"}, {}, "it returns a list of them"),
    ],
)
def test_what_triton_cannot_do_is_refused_with_what_would_do(
    op: dict[str, str], package: dict[str, str], reason: str
) -> None:
    given = answers(**{"schema": SCHEMA, "kernel": "triton", **op})
    told = {key: Given(value, f"--{key}") for key, value in package.items()}
    with pytest.raises(AnswerError, match=f"--kernel: .*{reason}"):
        build(Answers({**given.package, **told}, given.ops))


TRITON_OPS = [
    "ns::scale(Tensor x, Tensor? y=None, float alpha=1.0) -> Tensor",
    "ns::bump_(Tensor(a!) x, float by=1.0) -> Tensor(a!)",
    "ns::both_out(Tensor x, *, Tensor(a!) lo, Tensor(b!) hi) -> (Tensor(a!), Tensor(b!))",
    "ns::track(Tensor(a!) mean, Tensor x) -> Tensor",
]


def triton_files(**op: str) -> dict[Path, str]:
    tables = tuple(answers(schema=s, kernel="triton", **op).ops[0] for s in TRITON_OPS)
    return preview(build(Answers({"package": Given("my-ops")}, tables)))


def test_a_triton_kernel_names_no_type_that_triton_would_have_to_know() -> None:
    # Interpreted it may; compiled for a GPU, each name must be one of Triton's.
    files = triton_files()
    for name in ("scale", "bump_", "both_out", "track"):
        tree = ast.parse(files[Path(f"src/my_ops/ops/{name}.py")])
        (kernel,) = [
            n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "_triton_kernel"
        ]
        for argument in kernel.args.args:
            assert argument.annotation is not None
            told = ast.unparse(argument.annotation)
            assert told == ("tl.constexpr" if argument.arg.isupper() else "'Any'")


def test_triton_ops_that_write_are_registered_as_mutable_ones() -> None:
    files = triton_files()
    module = files[Path("src/my_ops/ops/bump_.py")]
    assert 'triton_op("ns::bump_", mutates_args={"x"})' in module
    assert "torch.Tag" not in "".join(files.values())
    assert "ns::bump_(Tensor(a0!) x, float by=1.0) -> ()" in module


def test_what_is_written_is_written_after_all_inputs_are_read() -> None:
    module = triton_files()[Path("src/my_ops/ops/track.py")]
    launch, copy = module.index("wrap_triton("), module.index("buffer.copy_(filled)")
    assert module.index("wrap_triton(_triton_kernel)[") < copy
    assert launch < copy


def test_tests_that_look_into_a_triton_kernel_need_a_compiled_one() -> None:
    tests = triton_files()[Path("tests/test_bump_.py")]
    marks = {
        head.split("(")[0]: mark
        for mark, head in re.findall(r"@checks\.(needs_\w+)\n@[^\n]*\ndef (\w+\()", tests)
    }
    assert marks["test_compiled"] == marks["test_opcheck"] == "needs_compiled_triton"
    assert marks["test_numbers"] == marks["test_opcheck_in_eager"] == "needs_triton"
    assert "test_schema" not in marks
