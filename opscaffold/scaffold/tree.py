"""PyTorch's decision tree, asked question by question."""

from __future__ import annotations

from collections.abc import Callable

from opscaffold.contract import decision
from opscaffold.contract.model import Kind
from opscaffold.scaffold.ask import Interview, Prompt
from opscaffold.scaffold.questions import yes_or_no

YES_NO = (("y", "yes"), ("n", "no"))


class Declined(Exception):  # noqa: N818 -- an answer, no error
    """The person chose that nothing be made."""


def ask_kind(interview: Interview, index: int) -> Kind:
    """Ask for the kind of the op of that number. Raises Declined where no op is needed."""
    answers: dict[str, str] = {}
    while isinstance(at := decision.walk(answers), decision.Question):
        choices = [(c.answer, f"{c.label}: {c.consequence}") for c in at.choices]
        answers[at.id], _ = interview.ask(
            ("op", index, "kind", at.id),
            Prompt(at.prompt, at.reason, choices),
            _one_of(at),
            default=at.default,
        )
        end = decision.walk(answers)
        if isinstance(end, decision.Outcome) and end.kind is None:
            _anyway(interview, index, end)
            answers[at.id] = at.default
    told = "\n".join(f"  {line}" for line in at.consequences)
    interview.once(("op", index, "kind"), f"\n{at.title}\n{told}")
    assert at.kind is not None  # noqa: S101 -- _anyway has left the other outcome
    return at.kind


def _anyway(interview: Interview, index: int, outcome: decision.Outcome) -> None:
    why = "\n".join(outcome.consequences)
    anyway, _ = interview.ask(
        ("op", index, "kind", "anyway"),
        Prompt(f"{outcome.title} is needed. Make one all the same?", why, YES_NO),
        yes_or_no,
        default="n",
    )
    if not anyway:
        raise Declined("No op is needed")


def _one_of(question: decision.Question) -> Callable[[str], str]:
    answers = [c.answer for c in question.choices]

    def check(text: str) -> str:
        matching = [a for a in answers if a.startswith(text.lower())]
        if len(matching) != 1:
            raise ValueError(f"{text!r} is no answer here; answer {' or '.join(answers)}")
        return matching[0]

    return check
