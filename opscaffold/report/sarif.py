"""Findings as SARIF 2.1.0, which code hosts and editors read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.records import dataclass
from opscaffold.report.json import Repair
from opscaffold.report.order import in_order, relative_name

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "ROOT"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


@dataclass(frozen=True, slots=True)
class RuleText:
    """What a rule says of itself."""

    code: str
    name: str
    severity: Severity
    summary: str
    why: str
    remedy: str


def render_sarif(
    findings: Iterable[Finding],
    root: Path,
    *,
    version: str,
    rules: Sequence[RuleText],
    fingerprints: Mapping[Finding, str] | None = None,
    repairs: Mapping[Finding, Repair] | None = None,
) -> str:
    """Return one SARIF run, sorted, ending in a newline.

    ``rules`` describe at least the codes found. ``fingerprints`` tell a host which finding is
    the same as one of an earlier run.
    """
    fingerprints, repairs = fingerprints or {}, repairs or {}
    index = {rule.code: number for number, rule in enumerate(rules)}
    results = []
    for finding in in_order(findings):
        result = _result(finding, root, index.get(finding.code))
        if finding in fingerprints:
            result["partialFingerprints"] = {"opscaffold/v1": fingerprints[finding]}
        properties = {"op": finding.op, "repair": repairs.get(finding)}
        result["properties"] = {key: value for key, value in properties.items() if value}
        results.append(result)
    driver = {
        "name": "opscaffold",
        "version": version,
        "rules": [_rule(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"uri": _directory(root)}},
        "results": results,
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: RuleText) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, root: Path, index: int | None) -> dict[str, Any]:
    # SARIF knows no cells: its lines are those of the cell that the message names.
    cell = "" if finding.position.cell is None else f"cell {finding.position.cell}: "
    text = f"{cell}{finding.message}" + (f"\n{finding.remedy}" if finding.remedy else "")
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding.position, root)],
    }
    if index is not None:
        result["ruleIndex"] = index
    if finding.evidence:
        result["relatedLocations"] = [_location(spot, root) for spot in finding.evidence]
    return result


def _location(position: Position, root: Path) -> dict[str, Any]:
    name = relative_name(position.path, root)
    if Path(name).is_absolute():
        artifact = {"uri": position.path.as_uri()}
    else:
        artifact = {"uri": quote(os.fsencode(name)), "uriBaseId": _ROOT}
    region = {"startLine": position.line, "startColumn": position.column}
    if position.end is not None:
        region["endColumn"] = position.end
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def _directory(root: Path) -> str:
    return root.absolute().as_uri().rstrip("/") + "/"
