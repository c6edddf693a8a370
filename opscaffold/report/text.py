"""Findings as text for people: one line a finding, its remedy below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from opscaffold.findings.model import Finding, Severity
from opscaffold.report.order import in_order, place_name

_INDENT = "    "


def render_text(findings: Iterable[Finding], root: Path) -> str:
    """Return ``path:line:col: CODE name: message`` for each finding, sorted by place.

    Paths are relative to ``root`` where they lie under it. The remedy follows indented; so
    do further lines of a message. Empty for no findings, else it ends in a newline.
    """
    return "".join(_block(finding, root) for finding in in_order(findings))


def summary(findings: Sequence[Finding]) -> str:
    """Return the count in words: ``3 findings (1 error, 2 warnings)``."""
    unique = in_order(findings)
    parts = []
    for severity, word in (
        (Severity.ERROR, "error"),
        (Severity.WARNING, "warning"),
        (Severity.INFO, "note"),
    ):
        number = sum(finding.severity is severity for finding in unique)
        if number:
            parts.append(_count(number, word))
    total = _count(len(unique), "finding")
    return f"{total} ({', '.join(parts)})" if parts else total


def _block(finding: Finding, root: Path) -> str:
    where = place_name(finding.position, root)
    first, *rest = finding.message.splitlines() or [""]
    lines = [f"{where}: {finding.code} {finding.name}: {first}"]
    lines += [f"{_INDENT}{line}" for line in rest]
    lines += [f"{_INDENT}see {place_name(spot, root)}" for spot in finding.evidence]
    lines += [f"{_INDENT}{line}" for line in finding.remedy.splitlines()]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
