"""PyTorch's decision tree for a custom op, as data.

The prompts of ``new``, the picture in the docs and the inference of a kind all read this one
tree. Source: torch.library reference, 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opscaffold.contract.model import Kind
from opscaffold.records import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the tree ends. ``kind`` is None where no custom op is needed."""

    id: str
    kind: Kind | None
    title: str
    consequences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to a question; ``to`` is the id of the next question or of an outcome."""

    answer: str
    label: str
    to: str
    consequence: str


@dataclass(frozen=True, slots=True)
class Question:
    """One node. ``default`` is the answer of the choice that fits most ops."""

    id: str
    prompt: str
    reason: str
    choices: tuple[Choice, ...]
    default: str

    def choice(self, answer: str) -> Choice:
        """The choice for ``answer``. Raises KeyError where there is none."""
        for choice in self.choices:
            if choice.answer == answer:
                return choice
        raise KeyError(answer)


_OUTCOMES = (
    Outcome(
        "no-op",
        None,
        "No custom op",
        (
            "Write a plain Python function of PyTorch operators.",
            "torch.compile traces through it, and autograd and vmap work by themselves.",
        ),
    ),
    Outcome(
        "functional",
        Kind.FUNCTIONAL,
        "Functional op",
        (
            "mutates_args=()",
            "Every call returns new tensors, which share no memory with an input or each other.",
            "A fake kernel must be written.",
            "Gradients come from register_autograd.",
        ),
    ),
    Outcome(
        "inplace",
        Kind.INPLACE,
        "In-place op",
        (
            "mutates_args names the first argument only; tags=torch.Tag.inplace",
            "Returns that same first argument and nothing else.",
            "PyTorch generates the fake kernel.",
            "It cannot have autograd.",
        ),
    ),
    Outcome(
        "out",
        Kind.OUT,
        "out= op",
        (
            "mutates_args names every out argument; tags=torch.Tag.out",
            "Overwrites the buffers without reading them and returns all, in declaration order.",
            "PyTorch generates the fake kernel.",
            "It cannot have autograd, and raises when an argument requires grad.",
        ),
    ),
    Outcome(
        "mutable",
        Kind.MUTABLE,
        "Mutable op",
        (
            "mutates_args names every mutated argument; no tag",
            "Returns nothing, or new tensors: never a mutated argument or a view of one.",
            "A fake kernel must be written only if it returns tensors.",
            "It cannot have autograd.",
        ),
    ),
)
OUTCOMES: Mapping[str, Outcome] = {o.id: o for o in _OUTCOMES}

COMPOSABLE = "composable"
MUTATES = "mutates"
RETURNS_FIRST = "returns-first"
OUT_ARGUMENTS = "out-arguments"

_QUESTIONS = (
    Question(
        COMPOSABLE,
        "Can it be written with existing PyTorch operators, and may PyTorch trace into it?",
        "A plain function needs no contract: a custom op is for code that PyTorch cannot or "
        "should not see into, or that needs its own training support.",
        (
            Choice("yes", "yes, and tracing into it is fine", "no-op", "no op is needed"),
            Choice("no", "no, it must stay opaque", MUTATES, "it becomes a custom op"),
        ),
        "no",
    ),
    Question(
        MUTATES,
        "Does it write to any Tensor that it is given?",
        "torch.compile reorders and reuses memory by what mutates_args declares. A write that "
        "is not declared is lost or happens in the wrong place.",
        (
            Choice("no", "no, it returns new tensors", "functional", "a functional op"),
            Choice("yes", "yes", RETURNS_FIRST, "its writes are declared"),
        ),
        "no",
    ),
    Question(
        RETURNS_FIRST,
        "Does it write to its first argument only, a Tensor, and return that same Tensor?",
        "This is what add_ and its like do. The Tensor must be the very first argument.",
        (
            Choice("yes", "yes, like add_", "inplace", "an in-place op"),
            Choice("no", "no", OUT_ARGUMENTS, "an out= or a mutable op"),
        ),
        "no",
    ),
    Question(
        OUT_ARGUMENTS,
        "Does it write only to buffers passed by keyword, never read them, and return them all?",
        "This is what torch.add(x, y, out=z) does. A buffer that is read, Optional or a list "
        "does not fit.",
        (
            Choice("yes", "yes, like out=", "out", "an out= op"),
            Choice("no", "no", "mutable", "a mutable op"),
        ),
        "no",
    ),
)
QUESTIONS: Mapping[str, Question] = {q.id: q for q in _QUESTIONS}
START = COMPOSABLE


@dataclass(frozen=True, slots=True)
class Edge:
    """One arrow of the tree, for a picture: from a question, by an answer, to a node."""

    question: Question
    choice: Choice
    target: Question | Outcome


def node(id_: str) -> Question | Outcome:
    """The question or outcome of that id. Raises KeyError where there is none."""
    return QUESTIONS[id_] if id_ in QUESTIONS else OUTCOMES[id_]


def walk(answers: Mapping[str, str], start: str = START) -> Question | Outcome:
    """Follow the answers from ``start``: the first question without an answer, or the outcome.

    Raises KeyError for an answer that its question does not offer. Answers to questions off the
    path are ignored.
    """
    at = node(start)
    while isinstance(at, Question) and at.id in answers:
        at = node(at.choice(answers[at.id]).to)
    return at


def path(answers: Mapping[str, str], start: str = START) -> tuple[Choice, ...]:
    """The choices that ``walk`` takes, in order."""
    taken: list[Choice] = []
    at = node(start)
    while isinstance(at, Question) and at.id in answers:
        choice = at.choice(answers[at.id])
        taken.append(choice)
        at = node(choice.to)
    return tuple(taken)


def edges() -> Iterator[Edge]:
    """Every arrow of the tree, in the order of the questions."""
    for question in QUESTIONS.values():
        for choice in question.choices:
            yield Edge(question, choice, node(choice.to))


def answers_for(kind: Kind) -> Mapping[str, str]:
    """The answers that lead to ``kind``."""
    for outcome, answers in _routes(START, {}):
        if outcome.kind is kind:
            return answers
    raise KeyError(kind)


def outcome_of(kind: Kind) -> Outcome:
    """The outcome that is ``kind``."""
    return next(o for o in OUTCOMES.values() if o.kind is kind)


def _routes(at: str, answers: Mapping[str, str]) -> Iterator[tuple[Outcome, Mapping[str, str]]]:
    here = node(at)
    if isinstance(here, Outcome):
        yield here, answers
        return
    for choice in here.choices:
        yield from _routes(choice.to, {**answers, here.id: choice.answer})
