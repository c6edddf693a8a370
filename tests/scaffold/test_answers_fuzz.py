from __future__ import annotations

import keyword
import re

from hypothesis import given
from hypothesis import strategies as st

from opscaffold.contract.naming import module_name
from opscaffold.scaffold.answers import answers_of, build, merge, missing, with_defaults
from opscaffold.scaffold.answers_file import dump, parse
from opscaffold.scaffold.given import AnswerError, Answers, Given
from opscaffold.scaffold.package_name import check_package_name
from opscaffold.scaffold.questions import OP, PACKAGE

WORDS = st.sampled_from(
    [
        "f", "f_", "f_out", "x", "out", "n", "class", "torch", "Tensor", "Tensor x", "Tensor(a!) x",
        "Tensor? y=None", "int n", "*", "Tensor[] xs", "x: Tensor", "a: float = 1.0",
        "Tensor, Tensor",
        "()", "None", "Tensor[]", "int", "in-place", "out=", "mutable", "functional", "same",
        "dynamic", "expression", "broadcast", "x.shape[0]", "2 * n", "f(Tensor x) -> Tensor",
        "ns::f_(Tensor(a!) x) -> Tensor(a!)", "f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        "f(Tensor(a!)[] xs) -> ()", "def f(x: Tensor) -> None",
        "def f(x: Tensor, *, out: Tensor) -> Tensor",
    ]
)  # fmt: skip
TEXTS = WORDS | st.text(max_size=12) | st.text("(){}[]<>:=!?*.,'\"\\\n #xTensor", max_size=20)
VALUES = st.one_of(TEXTS, st.booleans(), st.lists(TEXTS, max_size=3).map(tuple))


def tables(keys: list[str]) -> st.SearchStrategy[dict[str, Given]]:
    return st.dictionaries(
        st.sampled_from(keys), VALUES.map(lambda value: Given(value, "--flag")), max_size=5
    )


ANSWERS = st.builds(
    Answers, tables(list(PACKAGE)), st.lists(tables(list(OP)), max_size=3).map(tuple)
)


@given(ANSWERS)
def test_any_answers_make_a_package_or_an_error(answers: Answers) -> None:
    try:
        spec = build(with_defaults(answers))
    except AnswerError:
        return
    text = dump(answers_of(spec))
    assert build(parse(text, "a.toml")) == spec


@given(ANSWERS, ANSWERS, tables(list(OP)))
def test_any_flags_lie_over_any_file(
    file: Answers, flags: Answers, about: dict[str, Given]
) -> None:
    try:
        filled = with_defaults(merge(file, flags, about))
    except AnswerError:
        return
    assert missing(filled) == []


LINES = st.sampled_from(
    [
        "[[op]]", "[op]", 'package = "p"', "autograd = true", 'schema = "f(Tensor x) -> Tensor"',
        'params = ["Tensor x",', "]", 'op = [{name = "f"}]', 'description = """', '"""', "# x",
        "a.b = 1", "torch_min = 2.13", "'''", '"package" = "q"', "family = 1979-05-27",
        "x = {a = [",
    ]
)  # fmt: skip


@given(st.lists(LINES | st.text(max_size=15), max_size=8).map("\n".join))
def test_any_file_is_read_or_refused_by_name(text: str) -> None:
    message = "a.toml: it is an answers file"
    try:
        parse(text, "a.toml")
    except AnswerError as error:
        message = str(error)
    assert message.startswith("a.toml")
    assert "\n" not in message


@given(st.text("ab1-_./\\ {}'\"\n~", max_size=12) | st.text(max_size=12) | WORDS)
def test_any_package_name_that_is_taken_is_a_plain_folder_and_module(text: str) -> None:
    try:
        name = check_package_name(text)
    except ValueError:
        return
    assert name == text
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]*", name)
    assert ".." not in name
    assert module_name(name).isidentifier()
    assert not keyword.iskeyword(module_name(name))
