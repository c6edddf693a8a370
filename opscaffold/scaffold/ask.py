"""Asking on a terminal: one question at a time, answers that can be taken back.

A script of questions runs from the start each time; what is settled is not asked again. Going
back unsettles one answer and runs the script anew, so that later questions always follow from
what is settled before them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from opscaffold.errors import UserError
from opscaffold.scaffold.given import AnswerError

BACK = "back"

T = TypeVar("T")
Result = TypeVar("Result")
Key = tuple[Hashable, ...]


class Screen(Protocol):
    """Where questions are shown and answers typed."""

    def show(self, text: str, style: str = "") -> None:
        """Show lines of text; ``style`` is empty, ``bold``, ``dim`` or ``error``."""

    def read(self, default: str) -> str:
        """Read one line. Raises EOFError where there is none."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question as it is shown. ``choices`` are (answer, what follows from it)."""

    ask: str
    why: str = ""
    choices: Sequence[tuple[str, str]] = ()


class _Again(Exception):  # noqa: N818 -- a jump, no error
    """Run the script from the start."""


@dataclass(frozen=True, slots=True)
class _Unusable:
    reason: str


def _checked(check: Callable[[str], T], text: str) -> T | _Unusable:
    try:
        return check(text)
    except ValueError as error:
        return _Unusable(str(error))


class Interview:
    """Runs a script, remembering what was answered. Keys tell the questions apart."""

    def __init__(self, screen: Screen) -> None:
        """Start with nothing answered."""
        self.screen = screen
        self._settled: dict[Key, str] = {}
        self._earlier: dict[Key, str] = {}
        # The keys of the questions that the script has come by, in this run of it.
        self.order: list[Key] = []
        self._reopened: set[Key] = set()
        self._shown: set[Key] = set()

    def run(self, script: Callable[[], Result]) -> Result:
        """Run the script to its end.

        Raises UserError where the input ends; KeyboardInterrupt passes through.
        """
        while True:
            self.order = []
            try:
                return script()
            except _Again:
                continue

    def ask(
        self,
        key: Key,
        prompt: Prompt,
        check: Callable[[str], T],
        *,
        default: str,
        given: str | None = None,
    ) -> tuple[T, bool]:
        """The checked answer, and whether it was asked for here.

        ``check`` raises ValueError for an answer that will not do: it is explained, and the
        question asked again. A ``given`` answer settles the question until it is reopened.
        """
        known = self._settled.get(key, None if key in self._reopened else given)
        if known is not None:
            answer = _checked(check, known)
            if not isinstance(answer, _Unusable):
                self.order.append(key)
                return answer, key in self._settled
            # What was answered before it has changed since.
            self.screen.show(f"{answer.reason}.", "error")
        preset = self._earlier.get(key, default if given is None else given)
        self._show(prompt)
        while True:
            text = self._read(preset)
            if text.lower() == BACK:
                self._back()
                continue
            answer = _checked(check, text or preset)
            if isinstance(answer, _Unusable):
                self.screen.show(f"{answer.reason}.", "error")
                continue
            if text:
                self._earlier[key] = text
            self._settled[key] = text or preset
            self.order.append(key)
            return answer, True

    def reopen(self, error: AnswerError, under: Key) -> None:
        """Explain the error and ask its answers again.

        ``under`` starts the keys of the questions it is about. Raises the error itself where
        none of its answers was asked for.
        """
        for name in error.keys:
            keys = [k for k in self.order if k[: len(under) + 1] == (*under, name)]
            if keys:
                self.screen.show(f"{error.message}.", "error")
                for key in keys:
                    self._unsettle(key)
                raise _Again
        raise error

    def once(self, key: Key, text: str, style: str = "") -> None:
        """Show a text the first time the script comes by with it."""
        if (*key, text) not in self._shown:
            self._shown.add((*key, text))
            self.screen.show(text, style)

    def _show(self, prompt: Prompt) -> None:
        self.screen.show(f"\n{prompt.ask}", "bold")
        if prompt.why:
            self.screen.show(prompt.why, "dim")
        width = max((len(answer) for answer, _ in prompt.choices), default=0)
        for answer, meaning in prompt.choices:
            self.screen.show(f"  {answer:<{width}}  {meaning}")

    def _read(self, default: str) -> str:
        text = None
        while text is None:
            text = self._line(default)
        return text

    def _line(self, default: str) -> str | None:
        """One line, or None where the terminal's bytes are no text."""
        try:
            return self.screen.read(default).strip()
        except UnicodeDecodeError:
            self.screen.show("That is no text in the terminal's encoding.", "error")
            return None
        except EOFError:
            raise UserError(
                "the input ended before every question was answered; nothing was written"
            ) from None

    def _back(self) -> None:
        if not self.order:
            self.screen.show("This is the first question.", "error")
            return
        self._unsettle(self.order[-1])
        raise _Again

    def _unsettle(self, key: Key) -> None:
        self._settled.pop(key, None)
        self._reopened.add(key)
