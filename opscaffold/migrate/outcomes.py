"""What a migration leaves as it is, and how that is said."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.migrate.plan import Refused
from opscaffold.migrate.refusal import RefusalError
from opscaffold.rules.base import position
from opscaffold.source.model import Module, Op


class State(enum.Enum):
    """Why a breach stays."""

    REFUSED = "refused"
    UNSAFE = "unsafe"
    WITHDRAWN = "withdrawn"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class Left:
    """One reason why an op stays as it is.

    ``finding`` is what is reported of it; ``reason`` and ``remedy`` say why, and what to do.
    """

    state: State
    finding: Finding
    reason: str
    remedy: str


def refusals(op: Op, findings: Sequence[Finding], refused: Refused) -> list[Left]:
    """One entry for each finding and reason, each where its reason stands."""
    return [
        Left(
            State.UNSAFE if refused.held else State.REFUSED,
            _told(finding, op, where, why, remedy),
            why,
            remedy,
        )
        for finding in findings
        for where, why, remedy in _reasons(refused)
    ]


def reported(finding: Finding) -> Left:
    """A breach for which there is no repair."""
    return Left(State.REFUSED, finding, finding.message, finding.remedy)


def declined(finding: Finding) -> Left:
    """A breach that the user was asked about, and said no."""
    reason = "you declined the repair"
    message = f"{finding.message}; not rewritten: {reason}"
    told = Finding(
        finding.code, finding.name, finding.severity, finding.position, message, finding.op
    )
    return Left(State.DECLINED, told, reason, finding.remedy)


def withdrawal(finding: Finding, reason: str) -> Left:
    """A repair that turned out wrong, so that none of it is kept."""
    remedy = "please report it, and repair the op by hand"
    message = f"the change to this op was withdrawn: {reason}; this is a fault of opscaffold"
    told = Finding(
        finding.code,
        finding.name,
        Severity.ERROR,
        finding.position,
        message,
        finding.op,
        remedy,
    )
    return Left(State.WITHDRAWN, told, reason, remedy)


def _reasons(refused: Refused) -> Iterator[tuple[Position, str, str]]:
    for reason in refused.reasons:
        yield _place(refused, reason), reason.reason, reason.remedy


def _told(finding: Finding, op: Op, where: Position, why: str, remedy: str) -> Finding:
    return Finding(
        finding.code,
        finding.name,
        finding.severity,
        where,
        f"{finding.message}; not rewritten: {why}",
        op.qualname,
        remedy,
        (finding.position,),
    )


def _place(refused: Refused, reason: RefusalError) -> Position:
    if isinstance(reason.where, Position):
        return reason.where
    module = reason.where if isinstance(reason.where, Module) else refused.module
    node = reason.node if reason.node is not None else refused.node
    return position(module, node)
