"""The language of a kernel: how it is answered, and what it may be refused for."""

from __future__ import annotations

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
    with pytest.raises(AnswerError, match=r"--kernel: 'rust' is no language of kernels; it is torch, numpy, triton"):
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
