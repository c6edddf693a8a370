"""What PyTorch registers and no kernel can be called with is refused before anything is made."""

from __future__ import annotations

import pytest

from opscaffold.scaffold.answers import build, merge
from opscaffold.scaffold.given import AnswerError, Answers, Given


def answers(*schemas: str) -> Answers:
    package = {"package": Given("demo", "PACKAGE")}
    ops = tuple({"schema": Given(text, "--schema")} for text in schemas)
    return Answers(package, ops)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("f(Tensor x, ScalarType dtype=float32) -> Tensor", "as a number"),
        ("f(Tensor x, int a=1.5) -> Tensor", "no int"),
        (f"f(Tensor x{''.join(f', int a{n}' for n in range(64))}) -> Tensor", "64"),
    ],
)
def test_refused(schema: str, why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        build(answers(schema))


def test_a_bool_may_be_told_by_a_number() -> None:
    spec = build(answers("f(Tensor x, bool b=1) -> Tensor"))
    default = spec.ops[0].contract.parameters[1].default
    assert default is not None
    assert default.value is True


def test_two_ops_of_one_name_are_refused() -> None:
    flags = answers("f(Tensor x) -> Tensor", "f(Tensor x, Tensor y) -> Tensor")
    with pytest.raises(AnswerError, match="two ops are called 'f'"):
        merge(Answers({}, ()), flags, {})
