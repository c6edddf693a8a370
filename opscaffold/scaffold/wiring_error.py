"""Why a file of the author's cannot take what a new op needs there, and what to write by hand."""

from __future__ import annotations


class WiringError(Exception):
    """A place that is gone or cannot be told for sure. The file is left as it is.

    ``reason`` says what is in the way, in one line; ``by_hand`` is the text to put in, empty where
    nothing is to be put in as it stands. ``line`` counts from 1, 0 where no line is meant.
    """

    def __init__(self, reason: str, by_hand: str = "", line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.by_hand = by_hand
        self.line = line
