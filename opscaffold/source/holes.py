"""Names that are known in part: each ``{...}`` stands for what is only known when they are made."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def known_parts(name: str) -> list[str]:
    """Return what is known of a name: the texts around its holes, one more than there are holes."""
    parts: list[str] = []
    at = 0
    while (start := name.find("{", at)) >= 0 and (end := name.find("}", start)) >= 0:
        parts.append(name[at:start])
        at = end + 1
    return [*parts, name[at:]]


def may_be(parts: Sequence[str], text: str, *, word: bool) -> bool:
    """Say whether a text is these parts with something in each hole; with ``word``, a word.

    A regular expression of many holes would try all the ways to share a text among them.
    """
    first, *others = parts
    if not others:
        return text == first
    if not text.startswith(first):
        return False
    runs = _run_starts(text) if word else [0] * (len(text) + 1)
    ends = [len(first)]
    for number, part in enumerate(others, 1):
        last = number == len(others)
        ends = [
            start + len(part)
            for start in ([len(text) - len(part)] if last else _occurrences(part, text))
            if start >= 0 and text.startswith(part, start) and _reaches(ends, runs[start], start)
        ]
        if not ends:
            return False
    return True


def _reaches(ends: Sequence[int], lowest: int, start: int) -> bool:
    """Whether a hole that begins at one of the ends, and not before ``lowest``, ends at start."""
    at = bisect_left(ends, lowest)
    return at < len(ends) and ends[at] < start


def _occurrences(part: str, text: str) -> list[int]:
    found = []
    at = text.find(part)
    while at >= 0:
        found.append(at)
        at = text.find(part, at + 1)
    return found


def _run_starts(text: str) -> list[int]:
    """For each place, where the word that ends there starts."""
    starts = [0]
    for at, letter in enumerate(text):
        starts.append(starts[-1] if letter.isalnum() or letter == "_" else at + 1)
    return starts
