"""What is asked of the bytes of all files of a tree, as plain data that another process can take.

A question is a tuple of its kind and what that takes. Its answer for a file is plain data too, and
empty where there is nothing of interest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from opscaffold.records import dataclass
from opscaffold.source.code_only import code_only
from opscaffold.source.torch_ops import only_called, reads_ops
from opscaffold.source.words import Words, may_register

Question = tuple[Any, ...]
Answerer = Callable[[bytes], Any]
Read = Callable[[Path], "bytes | None"]
Answers = list[tuple[int, Any]]

REGISTERS: Question = ("registers",)
"""Can a file hold a registration that names torch's API?"""

CALLS_OPS: Question = ("calls ops",)
"""Where a file names ``torch.ops``: what ``only_called`` says of it, in a tuple."""


def mentions(names: Iterable[str]) -> Question:
    """Does a file hold any of the names as a word?"""
    return ("mentions", *sorted(names))


def uses(names: Iterable[str]) -> Question:
    """Does a file hold any of the names as a word of its code?"""
    return ("uses", *sorted(names))


def named(names: Iterable[str]) -> Question:
    """Which of the names, as far as they are ASCII, are words of a file?"""
    return ("named", *sorted(names))


@dataclass(frozen=True, slots=True)
class Topic:
    """What a file is about: it holds one of the words, ASCII and as they are written.

    With ``any_case`` the words are in lower case, and those of the file in any. With a
    ``pattern``, that matches too.
    """

    words: tuple[bytes, ...]
    pattern: bytes = b""
    any_case: bool = False

    @property
    def question(self) -> Question:
        """Is a file about this?"""
        return ("topic", self.words, self.pattern, self.any_case)

    def is_of(self, data: bytes) -> bool:
        """Say whether a file with these bytes is about this."""
        folded = data.lower() if self.any_case else data
        # To look for each word is several times as fast as to look for a pattern of them all.
        for word in self.words:
            if word in folded:
                return not self.pattern or re.search(self.pattern, data) is not None
        return False


def answers(
    question: Question, files: Sequence[Path], numbers: Iterable[int], read: Read
) -> Answers:
    """Return the answers for some files of a list that are not empty, with the files' numbers."""
    answer, unread = answerer(question), of_unreadable(question)
    found: Answers = []
    for number in numbers:
        data = read(files[number])
        told = unread if data is None else answer(data)
        if told:
            found.append((number, told))
    return found


@lru_cache(maxsize=16)
def answerer(question: Question) -> Answerer:
    """Return what answers a question, given what a file holds."""
    kind, *given = question
    match kind:
        case "registers":
            return partial(_in_code, may_register)
        case "calls ops":
            return _calls_ops
        case "mentions":
            return Words(given).in_
        case "uses":
            return partial(_in_code, Words(given).in_)
        case "named":
            words = Words(given)
            return lambda data: sorted(words.found_in(data))
        case "topic":
            return Topic(*given).is_of
    raise ValueError(f"there is no question {kind!r}")


def of_unreadable(question: Question) -> Any:
    """Return the answer for a file that cannot be read.

    It may register: so it is loaded, and becomes a problem.
    """
    return question == REGISTERS


def _in_code(holds: Callable[[bytes], bool], data: bytes) -> bool:
    return holds(data) and (holds(code_only(data)) or not _is_utf8(data))


def _is_utf8(data: bytes) -> bool:
    """Say whether this can be read, so that what looks like a comment is one."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _calls_ops(data: bytes) -> Any:
    return (only_called(data),) if reads_ops(data) else None
