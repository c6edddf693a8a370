"""Findings and ops as JSON for other programs: keys stay, new ones may be added."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from opscaffold.findings.model import Finding, Position
from opscaffold.report.ops import OpRecord, op_document, ops_in_order
from opscaffold.report.order import in_order, relative_name

Repair = Literal["safe", "unsafe"]


def render_json(
    findings: Iterable[Finding],
    root: Path,
    *,
    ops: Iterable[OpRecord] = (),
    repairs: Mapping[Finding, Repair] | None = None,
) -> str:
    """Return ``{"findings": [...], "ops": [...]}``, both sorted, ending in a newline.

    ``repairs`` tells which findings have a repair, and whether it is safe; for all others
    ``repair`` is null. Paths are relative to ``root`` where they lie under it.
    """
    repairs = repairs or {}
    document = {
        "findings": [
            finding_document(each, root, repairs.get(each)) for each in in_order(findings)
        ],
        "ops": [op_document(each, root) for each in ops_in_order(ops, root)],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def finding_document(finding: Finding, root: Path, repair: Repair | None = None) -> dict[str, Any]:
    """Return a finding as it stands in any document."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        **_place(finding.position, root),
        "end_column": finding.position.end,
        "op": finding.op or None,
        "message": finding.message,
        "remedy": finding.remedy or None,
        "evidence": [_place(spot, root) for spot in finding.evidence],
        "repair": repair,
    }


def _place(position: Position, root: Path) -> dict[str, Any]:
    return {
        "path": relative_name(position.path, root),
        **({} if position.cell is None else {"cell": position.cell}),
        "line": position.line,
        "column": position.column,
    }
