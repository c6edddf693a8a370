"""Takes ops one by one through samples and checks, and tells what comes of it as it happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from opscaffold.findings.model import Position
from opscaffold.findings.promises import CHECK_FAILED, Promise, Verdict
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation, first_line
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample

Tell = Callable[[dict[str, Any]], None]


@dataclass
class Clock:
    """Where the time of a run went, in seconds by what was done."""

    spent: dict[str, float] = field(default_factory=dict)

    def timed(self, what: str, started: float) -> None:
        """Add the time since ``started``, a ``time.perf_counter()``."""
        self.spent[what] = self.spent.get(what, 0.0) + time.perf_counter() - started


@dataclass(frozen=True)
class Gathered:
    """The samples of one op, and what is to be told of them."""

    samples: Sequence[Sample]
    observations: Sequence[Observation] = ()
    summary: str = ""
    """One line: how many there are, where they come from, which lines they reach."""


def verify_op(
    op: Op,
    gathered: Gathered,
    checks: Sequence[Check],
    bench: Bench,
    clock: Clock,
    tell: Tell,
) -> Verdict:
    """Run all checks that apply on an op, tell each finding, and return the verdict.

    Findings are told as soon as a check is through: user code may end the process in the next.
    """
    seen = list(gathered.observations)
    told: set[tuple[str, str]] = set()

    def report(observations: Sequence[Observation]) -> None:
        fresh = [each for each in observations if _key(each) not in told]
        told.update(_key(each) for each in fresh)
        for finding in findings(op, fresh):
            tell({"event": "finding", **finding})

    report(seen)
    for check in checks:
        if (
            not gathered.samples
            or not check.applies(op)
            or (bench.fast and check.cost is Cost.INDUCTOR)
        ):
            continue
        tell({"event": "check", "op": op.qualname, "check": check.name})
        started = time.perf_counter()
        observed = _observed(op, check, gathered.samples, bench)
        clock.timed(check.name, started)
        report(observed)
        seen += observed
    verdict = verdict_of(observation.promise for observation in seen)
    tell(
        {
            "event": "verdict",
            "op": op.qualname,
            "verdict": verdict.value,
            "samples": len(gathered.samples),
            "summary": gathered.summary,
            "spent": clock.spent,
        }
    )
    return verdict


def _observed(op: Op, check: Check, samples: Sequence[Sample], bench: Bench) -> list[Observation]:
    seen: list[Observation] = []
    try:
        seen.extend(check.run(op, samples, bench))
    except Exception as error:  # noqa: BLE001 -- one check must not take the others with it
        message = f"the check {check.name} stopped: {first_line(error)}"
        seen.append(Observation(CHECK_FAILED, message, subject=check.name))
    return seen


def verdict_of(promises: Iterable[Promise]) -> Verdict:
    """The verdict on an op: a breach outweighs what is undecided, and that outweighs the rest."""
    verdicts = {promise.verdict for promise in promises}
    for verdict in (Verdict.BREACH, Verdict.UNDECIDED):
        if verdict in verdicts:
            return verdict
    return Verdict.SOUND


def findings(op: Op, seen: Iterable[Observation]) -> list[dict[str, Any]]:
    """One finding for each promise and subject, with the sample that shows it first."""
    groups: dict[tuple[str, str], list[Observation]] = {}
    for observation in seen:
        groups.setdefault(_key(observation), []).append(observation)
    return [_finding(op, group) for group in groups.values()]


def _key(observation: Observation) -> tuple[str, str]:
    return observation.promise.code, observation.subject


def _finding(op: Op, group: Sequence[Observation]) -> dict[str, Any]:
    first = group[0]
    message = first.message
    if first.sample is not None:
        message += f"; shown by {first.sample.label}: {op.qualname}{first.sample.described()}"
        shown = {each.sample.label for each in group if each.sample is not None}
        if len(shown) > 1:
            others = len(shown) - 1
            message += f", and by {others} other sample{'' if others == 1 else 's'}"
    return {
        "code": first.promise.code,
        "op": op.qualname,
        "message": message,
        "sample": None if first.sample is None else first.sample.label,
        **place(op.position),
    }


def place(position: Position) -> dict[str, Any]:
    """A position as events tell it."""
    return {"path": str(position.path), "line": position.line}
