"""A migration as a document for other programs: what would be done, op by op, and what would not.

Paths are relative to the root. Bytes that are no UTF-8, in paths and in lines, are lone
surrogates in the document, as Python's ``surrogateescape`` has them, so that every file comes
back byte for byte. Lines end at ``\\n`` alone and keep it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opscaffold import __version__
from opscaffold.contract.model import OpContract
from opscaffold.contract.printer import format_schema
from opscaffold.findings.model import Finding, Severity
from opscaffold.migrate.asked import Request
from opscaffold.migrate.call_sites import CallSite
from opscaffold.migrate.engine import Migration
from opscaffold.migrate.outcomes import Left
from opscaffold.migrate.steps import Step, Unit

VERSION = 1

Created = Mapping[Path, tuple[bytes | None, bytes]]
"""Files that are not part of a repair, such as tests, with their bytes before and after."""


def plan_document(
    migration: Migration,
    parts: Sequence[Unit],
    request: Request,
    paths: Iterable[Path],
    tests: Created | None = None,
) -> dict[str, Any]:
    """Return the document; ``paths`` are what was migrated, ``tests`` files to be written too."""
    root = migration.root
    options = request.options
    return {
        "opscaffold_plan": VERSION,
        "opscaffold": __version__,
        "options": {
            "paths": sorted(_relative(path, root) for path in paths),
            "only": sorted(request.only),
            "rules": None if request.codes is None else sorted(request.codes),
            "exclude": list(request.exclude),
            "unsafe": options.unsafe,
            "target_torch": ".".join(map(str, options.target)),
            "out_naming": options.out_naming,
            "compat": options.compat,
            "deprecate": options.deprecate,
        },
        "steps": [_step(part, root) for part in parts],
        "tests": [_file(path, old, new, root) for path, (old, new) in (tests or {}).items()],
        "refusals": [_refusal(left, root) for left in migration.left],
        "notes": [_note(note, root) for note in migration.notes],
    }


def dump(document: Mapping[str, Any]) -> bytes:
    """Return the document as JSON in UTF-8; of a byte that is no text it holds the escape."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return (text + "\n").encode("utf-8", "backslashreplace")


def digest(data: bytes) -> str:
    """Return the SHA-256 by which the document knows what a file holds."""
    return hashlib.sha256(data).hexdigest()


def schema_of(name: str, contract: OpContract | None) -> dict[str, Any]:
    """Return an op as the document has it; null for what cannot be told from the source."""
    if contract is None:
        return {"op": name, "schema": None, "kind": None, "tags": None}
    try:
        schema = format_schema(contract)
    except ValueError:
        # A default that no schema can hold.
        schema = None
    tags = sorted(tag.value for tag in contract.tags)
    return {"op": name, "schema": schema, "kind": contract.kind.value, "tags": tags}


def lines_of(data: bytes) -> list[str]:
    """Return the lines of a file, each with its end, bytes that are no text as surrogates."""
    lines = data.split(b"\n")
    last = lines.pop()
    found = [line + b"\n" for line in lines] + ([last] if last else [])
    return [line.decode("utf-8", "surrogateescape") for line in found]


def hunks(old: bytes, new: bytes) -> list[dict[str, Any]]:
    """Return what changes, by the line (from 1) in the old file; there is no context in it."""
    before, after = lines_of(old), lines_of(new)
    head = _common(before, after)
    tail = min(_common(before[::-1], after[::-1]), min(len(before), len(after)) - head)
    inner = difflib.SequenceMatcher(
        None, before[head : len(before) - tail], after[head : len(after) - tail], autojunk=False
    )
    return [
        {
            "line": head + i + 1,
            "removed": before[head + i : head + j],
            "added": after[head + k : head + m],
        }
        for operation, i, j, k, m in inner.get_opcodes()
        if operation != "equal"
    ]


def _step(part: Unit, root: Path) -> dict[str, Any]:
    repairs: dict[tuple[str, str], list[Step]] = {}
    for step in part.steps:
        repairs.setdefault(step.key, []).append(step)
    return {
        "repairs": [_repair(steps, root) for steps in repairs.values()],
        "files": [_file(path, old, new, root) for path, (old, new) in sorted(part.changes.items())],
    }


def _repair(steps: Sequence[Step], root: Path) -> dict[str, Any]:
    """One repair: the step that changes code, and those that change the prose about it."""
    main = next((step for step in steps if not step.prose), steps[0])
    sites = sorted({site for step in steps for site in step.sites})
    return {
        "op": main.plan.op,
        "does": main.plan.does,
        "rules": sorted(main.plan.codes),
        "safe": all(intent.safe for intent in main.intents),
        "old": schema_of(main.plan.op, main.old),
        "new": [schema_of(name, contract) for name, contract in main.new],
        "call_sites": [_site(site, root) for site in sites],
    }


def _site(site: CallSite, root: Path) -> dict[str, Any]:
    return {
        "path": _relative(site.path, root),
        "line": site.line,
        "before": site.before,
        "after": site.after,
    }


def _file(path: Path, old: bytes | None, new: bytes, root: Path) -> dict[str, Any]:
    return {
        "path": _relative(path, root),
        "sha256_before": None if old is None else digest(old),
        "sha256_after": digest(new),
        "hunks": hunks(old or b"", new),
    }


def _refusal(left: Left, root: Path) -> dict[str, Any]:
    finding = left.finding
    return {
        "op": finding.op,
        "code": finding.code,
        "name": finding.name,
        "state": left.state.value,
        "severity": finding.severity.value,
        "path": _relative(finding.position.path, root),
        "line": finding.position.line,
        "column": finding.position.column,
        "reason": left.reason,
        "remedy": left.remedy,
    }


def _note(note: Finding, root: Path) -> dict[str, Any]:
    return {
        "op": note.op,
        "code": note.code,
        "name": note.name,
        "severity": note.severity.value,
        "path": _relative(note.position.path, root),
        "line": note.position.line,
        "column": note.position.column,
        "message": note.message,
        "remedy": note.remedy,
    }


def remains(document: Mapping[str, Any]) -> bool:
    """Tell whether a plan leaves anything that a person should see to."""
    return any(
        entry["severity"] != Severity.INFO.value
        for entry in (*document["refusals"], *document["notes"])
    )


def _relative(path: Path, root: Path) -> str:
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 -- a link is named by its own name
    try:
        return absolute.relative_to(root).as_posix()
    except ValueError:
        return path.as_posix()


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
