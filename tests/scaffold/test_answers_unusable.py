"""What PyTorch registers and no kernel can be called with is refused before anything is made."""

from __future__ import annotations

import pytest

from opscaffold.scaffold.answers import build, merge
from opscaffold.scaffold.given import AnswerError, Answers, Given
from opscaffold.scaffold.package_name import check_package_name
from opscaffold.scaffold.questions import OP
from opscaffold.scaffold.wording import read_signature


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


@pytest.mark.parametrize(
    ("key", "text", "instead"),
    [
        ("schema", "f(Tensor x, int[2] k) -> Tensor", "int[]"),
        ("schema", "f(Tensor x, *, int[2]? k=None) -> Tensor", "int[]"),
        ("schema", "f(Tensor x, SymInt[3] k=1) -> Tensor", "SymInt[]"),
        ("schema", "f(Tensor(a!)[2] xs) -> ()", "Tensor[]"),
        ("schema", "f(Tensor x) -> Tensor[2]", "Tensor[]"),
        ("params", ("Tensor x", "float[4] w"), "float[]"),
        ("returns", "(Tensor, Tensor[2])", "Tensor[]"),
    ],
)
def test_a_length_is_not_lost_in_silence(
    key: str, text: str | tuple[str, ...], instead: str
) -> None:
    rest = {} if key == "schema" else {"name": Given("f"), "params": Given(("Tensor x",))}
    table = {**rest, key: Given(text, OP[key].flag)}
    with pytest.raises(AnswerError, match="has a length") as caught:
        build(Answers({"package": Given("demo")}, (table,)))
    assert f"write {instead}" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: Tensor) -> Tensor: return x + 1",
        "def f(x: Tensor) -> Tensor:\n    y = x + 1\n    return y\n",
        "    def f(x: Tensor) -> Tensor:\n        '''Adds.'''\n        return x + 1",
        "def f(x: Tensor,\n  y: Tensor) -> Tensor: return x",
    ],
)
def test_a_body_is_not_lost_in_silence(text: str) -> None:
    with pytest.raises(ValueError, match="has a body, which would be lost"):
        read_signature(text)


@pytest.mark.parametrize(
    "body", ["", ":", ": ...", ": pass", ":\n    ...", ":\n    '''What it does.'''"]
)
def test_what_stands_for_no_body_is_none(body: str) -> None:
    assert read_signature(f"def f(x: Tensor) -> Tensor{body}")


@pytest.mark.parametrize("name", ["opscaffold-checks", "opscaffold_samples", "conftest"])
def test_a_package_takes_no_name_of_a_module_that_is_generated_beside_it(name: str) -> None:
    with pytest.raises(ValueError, match="taken"):
        check_package_name(name)
