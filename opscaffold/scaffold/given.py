"""Raw answers and where each came from, before they are validated into a PackageSpec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opscaffold.errors import UserError

Value = str | bool | tuple[str, ...]

DEFAULT = "default"
PROMPT = "your answer"


class AnswerError(UserError):
    """An answer that cannot be used. One line: where it stands, what is wrong, what would do.

    ``keys`` names the answers at fault, the first being the one to ask again.
    """

    def __init__(self, message: str, origin: str = "", keys: tuple[str, ...] = ()) -> None:
        super().__init__(f"{origin}: {message}" if origin else message)
        self.message = message
        self.origin = origin
        self.keys = keys


@dataclass(frozen=True, slots=True)
class Given:
    """A raw answer. ``origin`` is a flag, ``file:line``, or one of DEFAULT and PROMPT."""

    value: Value
    origin: str = PROMPT


Table = Mapping[str, Given]


@dataclass(frozen=True, slots=True)
class Answers:
    """What was answered: keys of ``questions.PACKAGE``, and of ``questions.OP`` for each op."""

    package: Table = field(default_factory=dict)
    ops: tuple[Table, ...] = ()
