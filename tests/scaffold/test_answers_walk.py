from __future__ import annotations

from collections.abc import Iterable

import pytest

from opscaffold.contract.model import Kind
from opscaffold.contract.printer import format_schema
from opscaffold.errors import UserError
from opscaffold.scaffold.given import AnswerError, Answers, Given, Value
from opscaffold.scaffold.spec import FakeMode, PackageSpec
from opscaffold.scaffold.tree import Declined
from opscaffold.scaffold.walk import walk


class Screen:
    """Types the answers; remembers what was shown and what each question offered."""

    def __init__(self, answers: Iterable[str]) -> None:
        self.answers = list(answers)
        self.shown: list[str] = []
        self.errors: list[str] = []
        self.questions: list[str] = []
        self.defaults: list[str] = []

    def show(self, text: str, style: str = "") -> None:
        self.shown.append(text)
        if style == "error":
            self.errors.append(text)
        if style == "bold" and text.endswith("?"):
            self.questions.append(text.strip())

    def read(self, default: str) -> str:
        self.defaults.append(default)
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)


PACKAGE = ["", "", "", ""]
FUNCTIONAL = ["", "no"]
# The language of the kernel is asked last of an op.
NO_MORE = ["", "n", "y"]


def run(
    answers: Iterable[str], given: Answers | None = None, *, all_questions: bool = True
) -> tuple[PackageSpec, Screen]:
    screen = Screen(answers)
    spec = walk(
        screen,
        given or Answers(),
        all_questions=all_questions,
        summary=lambda spec: f"Summary of {spec.name}",
    )
    assert screen.answers == []
    return spec, screen


def flags(**values: Value) -> dict[str, Given]:
    return {key: Given(value, f"--{key}") for key, value in values.items()}


def test_enter_takes_every_default() -> None:
    spec, screen = run([""] * 16)
    assert spec.name == "my-ops"
    assert [format_schema(op.contract) for op in spec.ops] == ["my_ops::my_op(Tensor x) -> Tensor"]
    assert screen.errors == []
    assert "\nSummary of my-ops" in screen.shown


@pytest.mark.parametrize(
    ("answers", "kind", "schema"),
    [
        (["", "no", "f", "Tensor x", "n: int = 2", "done", "Tensor", "same", "y", "n"],
         Kind.FUNCTIONAL, "my_ops::f(Tensor x, SymInt n=2) -> Tensor"),
        (["", "yes", "yes", "f_", "Tensor x", "float a", "done"],
         Kind.INPLACE, "my_ops::f_(Tensor(a0!) x, float a) -> Tensor(a0!)"),
        (["", "yes", "no", "yes", "f_out", "Tensor x", "done", "a, b", "same"],
         Kind.OUT,
         "my_ops::f_out(Tensor x, *, Tensor(a1!) a, Tensor(a2!) b) -> (Tensor(a1!), Tensor(a2!))"),
        (["", "yes", "no", "no", "f", "Tensor x", "Tensor y", "done", "y", "()"],
         Kind.MUTABLE, "my_ops::f(Tensor x, Tensor(a1!) y) -> ()"),
        (["", "yes", "no", "no", "f", "Tensor x", "done", "x", "Tensor", "expression", "2, 3"],
         Kind.MUTABLE, "my_ops::f(Tensor(a0!) x) -> Tensor"),
    ],
)  # fmt: skip
def test_the_tree_leads_to_each_kind(answers: list[str], kind: Kind, schema: str) -> None:
    spec, screen = run([*PACKAGE, *answers, *NO_MORE])
    assert screen.errors == []
    assert spec.ops[0].contract.kind is kind
    assert format_schema(spec.ops[0].contract) == schema


def test_several_ops_in_one_run() -> None:
    one = [*FUNCTIONAL, "", "", "", "", "", "", ""]
    spec, screen = run([*PACKAGE, *one, "numpy", "y", *one, *NO_MORE])
    assert [op.contract.name for op in spec.ops] == ["my_op", "my_op2"]
    assert screen.questions.count("Another op?") == 2
    # The next op is likely to be written in the same language.
    assert [op.kernel.value for op in spec.ops] == ["numpy", "numpy"]


def test_an_invalid_answer_is_explained_and_asked_again() -> None:
    answers = ["torch", "p", "", "aten", "ns", "1.0", "", "maybe", "", "no", "class", "f"]
    answers += ["Tensr", "Layout l", "Tensor x", "Tensor x", "done", "Tensor?", "Tensor"]
    spec, screen = run([*answers, "sideways", "same", "perhaps", "n", "", *NO_MORE])
    assert (spec.name, spec.namespace) == ("p", "ns")
    assert not spec.ops[0].autograd
    reasons = [
        "taken",
        "namespace of PyTorch",
        "too old",
        "no answer here",
        "keyword",
        "did you mean 'Tensor'",
    ]
    reasons += ["no annotation", "there already", "Optional", "no rule", "neither yes nor no"]
    assert len(screen.errors) == len(reasons)
    for reason, error in zip(reasons, screen.errors, strict=True):
        assert reason in error


def test_back_returns_to_every_question_and_keeps_answers_as_defaults() -> None:
    first = ["p", "words", "ns", "2.13", "no", "no", "f", "Tensor q", "done", "Tensor", "same"]
    first += ["n", "n", "numpy", "n"]
    backs = ["back"] * len(first)
    spec, screen = run([*first, *backs, *[""] * len(first), "y"])
    assert screen.errors == []
    count = len(first)
    # On the way back each question offers what was answered, the last one first.
    assert screen.defaults[count + 1 : 2 * count + 1] == first[::-1]
    assert screen.defaults[2 * count : 3 * count] == first
    assert (spec.name, spec.description, spec.namespace) == ("p", "words", "ns")
    assert format_schema(spec.ops[0].contract) == "ns::f(Tensor q) -> Tensor"


def test_back_at_the_first_question_says_so() -> None:
    _, screen = run(["back", *[""] * 16])
    assert screen.errors == ["This is the first question."]


def test_back_from_another_op_reaches_the_op_before() -> None:
    one = [*FUNCTIONAL, "f", "", "", "", "", "", "n"]
    spec, _ = run([*PACKAGE, *one, "", "y", "back", "n", "y"])
    assert len(spec.ops) == 1


def test_an_answer_changed_on_the_way_back_changes_what_is_asked() -> None:
    tail = ["yes", "yes", "", "", "done", *NO_MORE]
    spec, _ = run([*PACKAGE, *FUNCTIONAL, "back", *tail])
    assert spec.ops[0].contract.kind is Kind.INPLACE
    assert spec.ops[0].contract.name == "my_op_"


def test_an_illegal_contract_asks_for_the_argument_again() -> None:
    answers = ["", "yes", "yes", "f_", "float a", "done", "Tensor x", "done"]
    spec, screen = run([*PACKAGE, *answers, *NO_MORE])
    assert "first argument of an in-place op" in screen.errors[0]
    assert format_schema(spec.ops[0].contract) == "my_ops::f_(Tensor(a0!) x) -> Tensor(a0!)"


def test_a_name_taken_by_an_op_before_is_asked_again() -> None:
    one = [*FUNCTIONAL, "f", "", "", "", "", "", ""]
    spec, screen = run([*PACKAGE, *one, "", "y", *one, "", "g", *NO_MORE[1:]])
    assert "there already" in screen.errors[0]
    assert [op.contract.name for op in spec.ops] == ["f", "g"]


def test_no_op_where_none_is_needed() -> None:
    with pytest.raises(Declined):
        run([*PACKAGE, "yes", "n"])
    spec, _ = run([*PACKAGE, "yes", "y", "no", *[""] * 7, *NO_MORE])
    assert spec.ops[0].contract.kind is Kind.FUNCTIONAL


def test_nothing_is_made_where_the_summary_is_declined() -> None:
    with pytest.raises(Declined):
        run([*[""] * 15, "n"])


@pytest.mark.parametrize("count", range(16))
def test_an_input_that_ends_early_is_one_line(count: int) -> None:
    with pytest.raises(UserError, match="nothing was written"):
        run([""] * count)


def test_flags_settle_their_questions() -> None:
    given = Answers(
        flags(package="p", namespace="ns"), (flags(name="f", kind="mutable", returns="()"),)
    )
    spec, screen = run(["", "", "Tensor x", "done", "x", *NO_MORE], given)
    assert "What is the package called?" not in screen.questions
    assert format_schema(spec.ops[0].contract) == "ns::f(Tensor(a0!) x) -> ()"


def test_back_reopens_what_a_flag_settled() -> None:
    given = Answers(flags(package="p"), ())
    spec, screen = run(["back", "q", *[""] * 15], given)
    assert screen.defaults[1] == "p"
    assert spec.name == "q"


def test_a_schema_leaves_only_the_rest_to_ask() -> None:
    given = Answers(flags(package="p"), (flags(schema="ns::f(Tensor x) -> Tensor"),))
    spec, screen = run(["", "", "dynamic", "n", *NO_MORE], given)
    assert spec.ops[0].fake.mode is FakeMode.DYNAMIC
    assert screen.questions[-2:] == ["Another op?", "Write these files?"]


@pytest.mark.parametrize(
    ("signature", "answer", "kind"),
    [
        ("def f(x: Tensor, y: Tensor) -> None", "y", Kind.MUTABLE),
        ("def f(x: Tensor, out: Tensor | None = None) -> Tensor", "functional", Kind.FUNCTIONAL),
    ],
)
def test_a_signature_that_leaves_the_kind_open_asks_for_it(
    signature: str, answer: str, kind: Kind
) -> None:
    given = Answers(flags(package="p"), (flags(signature=signature),))
    spec, _ = run([answer, "y"], given, all_questions=False)
    assert spec.ops[0].contract.kind is kind


def test_with_a_file_only_what_is_missing_is_asked() -> None:
    given = Answers({}, (flags(schema="f(Tensor x) -> Tensor"), flags(name="g", returns="Tensor")))
    spec, screen = run(["p", "", "no", "Tensor x", "done", "y"], given, all_questions=False)
    assert [op.contract.name for op in spec.ops] == ["f", "g"]
    assert "Another op?" not in screen.questions


def test_a_given_answer_that_contradicts_is_an_error_not_a_question() -> None:
    given = Answers(flags(package="p"), (flags(schema="f(Tensor(a!)? x) -> Tensor"),))
    with pytest.raises(AnswerError, match="Inductor"):
        run(["", "", ""], given)
