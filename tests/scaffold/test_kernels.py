"""The language of a kernel: how it is answered, and what it may be refused for."""

from __future__ import annotations

import pytest

from opscaffold.scaffold.answers import answers_of, build, merge
from opscaffold.scaffold.given import AnswerError, Answers, Given, Table
from opscaffold.scaffold.languages import LANGUAGES
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
    with pytest.raises(AnswerError, match=r"--kernel: 'rust' is no .* torch, numpy, triton or cpp"):
        build(answers(schema=SCHEMA, kernel="rust"))


def test_a_flag_about_the_kernel_is_about_every_op_unless_one_is_named() -> None:
    file = Answers({}, tuple({"schema": Given(f"ns::{n}(Tensor x) -> Tensor")} for n in "ab"))
    kernel = {"kernel": Given("torch", "--kernel")}
    every = merge(file, Answers(), kernel)
    one = merge(file, Answers(), {"name": Given("b", "--op"), **kernel})
    assert ["kernel" in op for op in every.ops] == [True, True]
    assert ["kernel" in op for op in one.ops] == [False, True]
