"""A baseline: the findings that a project starts with, so that only new ones fail.

An entry is a finding's file, code, op and the text of its line, with how often that occurs: it
stays the same when lines above it come and go. Editing the line itself makes its finding new.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from opscaffold.errors import UserError
from opscaffold.findings.model import Finding
from opscaffold.records import dataclass

VERSION = 1

Entry = tuple[str, str, str, str]
"""Path from the root, code, op, and the stripped text of the line."""

LineOf = Callable[[Finding], str]
"""Gives the text of the line that a finding is reported on; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """How often each entry is accepted."""

    entries: Mapping[Entry, int]


def entry_of(finding: Finding, root: Path, line_of: LineOf) -> Entry:
    """Return what a finding is known by from one run to the next."""
    path = finding.position.path
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
    return name, finding.code, finding.op, " ".join(line_of(finding).split())


def fingerprints(findings: Iterable[Finding], root: Path, line_of: LineOf) -> dict[Finding, str]:
    """Return a short name for each finding that stays when lines above it change."""
    import hashlib

    seen: Counter[Entry] = Counter()
    found: dict[Finding, str] = {}
    for finding in sorted(findings, key=lambda f: f.position):
        entry = entry_of(finding, root, line_of)
        text = "\0".join((*entry, str(seen[entry])))
        found[finding] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        seen[entry] += 1
    return found


def baseline_of(findings: Iterable[Finding], root: Path, line_of: LineOf) -> Baseline:
    """Return a baseline that accepts exactly these findings."""
    return Baseline(Counter(entry_of(f, root, line_of) for f in findings))


def split(
    findings: Iterable[Finding], baseline: Baseline, root: Path, line_of: LineOf
) -> tuple[list[Finding], int]:
    """Return the findings that a baseline does not accept, and how many it does."""
    left = Counter(dict(baseline.entries))
    new: list[Finding] = []
    accepted = 0
    for finding in sorted(findings, key=lambda f: f.position):
        entry = entry_of(finding, root, line_of)
        if left[entry] > 0:
            left[entry] -= 1
            accepted += 1
        else:
            new.append(finding)
    return new, accepted


def dump(baseline: Baseline) -> str:
    """Return a baseline as JSON, one entry a line, sorted: it goes under version control."""
    rows = [
        json.dumps(
            {"path": path, "code": code, "op": op, "text": text, "count": count},
            ensure_ascii=False,
        )
        for (path, code, op, text), count in sorted(baseline.entries.items())
    ]
    body = ",\n".join(f"    {row}" for row in rows)
    inside = f"\n{body}\n  " if rows else ""
    return f'{{\n  "version": {VERSION},\n  "findings": [{inside}]\n}}\n'


def parse(text: str, shown: str) -> Baseline:
    """Read a baseline back. Raises UserError; ``shown`` names the file in it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{shown}: is no baseline: {error}") from None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise UserError(
            f"{shown}: is no baseline of version {VERSION}; make it anew with --write-baseline"
        )
    entries: Counter[Entry] = Counter()
    rows = document.get("findings")
    for number, row in enumerate(rows if isinstance(rows, list) else [None], 1):
        entry = _entry(row)
        if entry is None:
            raise UserError(f"{shown}: entry {number} is no finding; make it anew")
        entries[entry] += row["count"]
    return Baseline(entries)


def _entry(row: Any) -> Entry | None:
    if not isinstance(row, dict) or not isinstance(row.get("count"), int):
        return None
    words = [row.get(key) for key in ("path", "code", "op", "text")]
    path, code, op, text = (word if isinstance(word, str) else None for word in words)
    if path is None or code is None or op is None or text is None:
        return None
    return path, code, op, text
