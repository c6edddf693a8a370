"""The order in which findings are shown, and how their places are named: the same everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from opscaffold.findings.model import Finding, Position


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by place, then by what they say; equal ones once."""
    return sorted(dict.fromkeys(findings), key=_key)


def relative_name(path: Path, root: Path) -> str:
    """Return ``path`` as seen from ``root``, with forward slashes; whole where it is elsewhere."""
    absolute, base = (Path(os.path.abspath(each)) for each in (path, root))  # noqa: PTH100
    try:
        return absolute.relative_to(base).as_posix()
    except ValueError:
        return path.as_posix()


def place_name(position: Position, root: Path) -> str:
    """Return ``path:line:column``; of a notebook ``path:cell 3:line:column``."""
    cell = "" if position.cell is None else f"cell {position.cell}:"
    name = relative_name(position.path, root)
    return f"{name}:{cell}{position.line}:{position.column}"


def _key(finding: Finding) -> tuple[object, ...]:
    place = finding.position
    return (
        place.path.as_posix(),
        place.cell or 0,
        place.line,
        place.column,
        finding.code,
        finding.op,
        finding.message,
        finding.remedy,
        finding.severity.value,
        tuple(
            (spot.path.as_posix(), spot.cell or 0, spot.line, spot.column)
            for spot in finding.evidence
        ),
    )
