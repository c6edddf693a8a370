"""Findings as GitLab's code quality report, which a merge request shows beside the lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from opscaffold.findings.model import Finding, Severity
from opscaffold.report.order import in_order, relative_name

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def render_gitlab(
    findings: Iterable[Finding], root: Path, fingerprints: Mapping[Finding, str]
) -> str:
    """Return one JSON list, sorted, ending in a newline.

    ``fingerprints`` tell GitLab which finding is the same as one of an earlier run. It drops all
    but one of those that have the same, so each is told apart by its place among them.
    """
    seen: dict[str, int] = {}
    issues = []
    for finding in in_order(findings):
        place = finding.position
        name = relative_name(place.path, root)
        mark = fingerprints.get(finding) or f"{finding.code}:{name}:{finding.message}"
        seen[mark] = seen.get(mark, 0) + 1
        cell = "" if place.cell is None else f"cell {place.cell}: "
        remedy = f" ({finding.remedy})" if finding.remedy else ""
        issues.append(
            {
                "check_name": f"{finding.code} {finding.name}",
                "description": f"{cell}{finding.message}{remedy}",
                "fingerprint": hashlib.sha256(f"{mark}:{seen[mark]}".encode()).hexdigest(),
                "severity": _SEVERITIES[finding.severity],
                "location": {"path": name, "lines": {"begin": place.line}},
            }
        )
    return json.dumps(issues, indent=2) + "\n"
