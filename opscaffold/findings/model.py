"""A finding, and the closed set of repairs a rule may intend."""

from __future__ import annotations

import enum
from pathlib import Path

from opscaffold.findings.intents import Intent
from opscaffold.records import dataclass, field


class Severity(enum.Enum):
    """How much a finding matters: only ``INFO`` leaves the exit code alone."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file. ``line`` and ``column`` count from 1; ``column`` counts characters.

    ``end`` is the column behind its last character on that line, None where it is not known. It
    is for showing only: two positions that differ in it are equal. ``cell`` is the cell of a
    notebook, from 1, in which ``line`` counts; None for other files.
    """

    path: Path
    line: int
    column: int = 1
    end: int | None = field(default=None, compare=False)
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a user should know about an op.

    ``message`` says what happens to the user's program, ``remedy`` what to do about it by hand.
    ``op`` is the qualified name of the op concerned, or empty (a file that cannot be read).
    ``intent`` is the repair that applies, None where there is none.
    """

    code: str
    name: str
    severity: Severity
    position: Position
    message: str
    op: str = ""
    remedy: str = ""
    evidence: tuple[Position, ...] = ()
    intent: Intent | None = None
