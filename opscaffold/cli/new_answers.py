"""From the flags of ``opscaffold new`` to raw answers, laid over those of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opscaffold.scaffold.given import Answers, Given, Value
    from opscaffold.scaffold.questions import Question


def only(names: list[str] | None) -> str | None:
    """The op that the flags are about. Raises AnswerError where there are two."""
    from opscaffold.scaffold.given import AnswerError

    if names and len(names) > 1:
        raise AnswerError(
            "it may be given once, since the flags below it are about one op; tell several by "
            "--schema, --signature or --answers",
            "--op",
        )
    return names[0] if names else None


def several(values: list[str] | None) -> tuple[str, ...] | None:
    """What a flag that may be repeated was given; None where it was not."""
    return tuple(values) if values else None


def gather(
    whole: dict[str, Value | None],
    ops: list[tuple[str, str]],
    about: dict[str, Value | None],
    path: Path | None,
) -> Answers:
    """The answers of the flags over those of the file, each checked by itself."""
    from opscaffold.scaffold.answers import check, merge
    from opscaffold.scaffold.answers_file import load
    from opscaffold.scaffold.given import Answers, Given
    from opscaffold.scaffold.questions import OP, PACKAGE

    def told(
        values: dict[str, Value | None], questions: Mapping[str, Question]
    ) -> dict[str, Given]:
        return {k: Given(v, _flag(questions[k], v)) for k, v in values.items() if v is not None}

    flags = Answers(
        told(whole, PACKAGE), tuple({key: Given(text, OP[key].flag)} for key, text in ops)
    )
    file = check(load(path)) if path is not None else Answers()
    return check(merge(file, check(flags), told(about, OP)))


def _flag(question: Question, value: Value) -> str:
    """The flag as it was typed: one of the two of a pair."""
    return question.flag.split("/")[1 if value is False else 0]
