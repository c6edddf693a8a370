"""Findings one a line, and as the commands that GitHub turns into annotations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from opscaffold.findings.model import Finding, Severity
from opscaffold.report.excerpt import visible
from opscaffold.report.order import in_order, place_name, relative_name

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render_concise(findings: Iterable[Finding], root: Path) -> str:
    """Return ``path:line:col: CODE name: message``, exactly one line a finding."""
    return "".join(
        f"{visible(place_name(f.position, root))}: {f.code} {f.name}: "
        f"{visible(' '.join(f.message.split()))}\n"
        for f in in_order(findings)
    )


def render_github(findings: Iterable[Finding], root: Path) -> str:
    """Return a workflow command for each finding: GitHub shows it beside the line."""
    return "".join(_annotation(finding, root) for finding in in_order(findings))


def _annotation(finding: Finding, root: Path) -> str:
    place = finding.position
    properties = {
        "title": f"{finding.code} {finding.name}",
        "file": relative_name(place.path, root),
        "line": str(place.line),
        "col": str(place.column),
    }
    if place.end is not None and place.end > place.column:
        properties["endColumn"] = str(place.end - 1)
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    cell = "" if place.cell is None else f"cell {place.cell}: "
    text = f"{cell}{finding.message}" + (f"\n{finding.remedy}" if finding.remedy else "")
    return f"::{_COMMANDS[finding.severity]} {listed}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
