"""What a repair would do: the closed set of intents that rules emit and migrate carries out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SplitMaybeOut:
    """Split an op that takes an Optional buffer into a functional and a mutable half.

    ``op`` is the qualified name, ``buffer`` the name of the parameter.
    """

    op: str
    buffer: str


Intent = SplitMaybeOut
