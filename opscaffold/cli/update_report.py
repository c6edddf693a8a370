"""What an update does to each file: as lines for people, as JSON for programs, as a diff."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscaffold.scaffold.update_apply import Update
    from opscaffold.scaffold.update_plan import Entry


def write_changes(update: Update) -> None:
    """Write the diff of all files of the package to stdout; its record is left out."""
    from opscaffold.report.diff import unified_diff, write_diff

    changes: dict[Path, tuple[bytes | None, bytes | None]] = {}
    for entry in update.entries:
        if entry.removes is not None:
            changes[update.root / entry.removes] = (entry.mine, None)
        if entry.new is not None and (entry.old != entry.new or entry.executable is not None):
            changes[update.root / entry.path] = (entry.old, entry.new)
    bits = {update.root / e.path: e.executable for e in update.entries if e.executable is not None}
    write_diff(unified_diff(changes, update.root, bits))


def render_text(update: Update, *, written: bool, quiet: bool) -> str:
    """A line a file, and what is to be done; with ``quiet`` only what a person has to see to."""
    lines = [_line(entry) for entry in (update.conflicts if quiet else update.entries)]
    if not quiet or lines or (update.writes and not written):
        lines += _summary(update, written=written)
    return "".join(f"{line}\n" for line in lines)


def render_json(update: Update, *, written: bool) -> str:
    """The same as a document: keys stay, new ones may be added."""
    before, after = update.before.origin, update.after.origin
    document = {
        "package": str(update.root),
        "recorded": {"opscaffold": before.version, "templates": before.templates},
        "now": {"opscaffold": after.version, "templates": after.templates},
        "files": [_document(entry) for entry in update.entries],
        "answers_changed": update.asked,
        "changes": len(update.changes),
        "conflicts": len(update.conflicts),
        "current": not update.writes and not update.conflicts,
        "written": written and update.writes,
    }
    return json.dumps(document, indent=2) + "\n"


def _document(entry: Entry) -> dict[str, Any]:
    return {
        "path": entry.path.as_posix(),
        "former": None if entry.former is None else entry.former.as_posix(),
        "action": entry.action.value,
        "reason": entry.reason,
        "changes": entry.writes,
    }


def _line(entry: Entry) -> str:
    name = entry.path.as_posix()
    if entry.former is not None:
        name = f"{entry.former.as_posix()} -> {name}"
    line = f"{entry.action.value:<9}  {name}"
    return f"{line}: {entry.reason}" if entry.reason else line


def _summary(update: Update, *, written: bool) -> Iterator[str]:
    from opscaffold.scaffold.update_plan import MARKED

    changes, conflicts = len(update.changes), len(update.conflicts)
    if not update.writes and not conflicts:
        yield f"current: opscaffold would change nothing in {_files(len(update.entries))}"
        return
    done = "" if written else "would be "
    if update.writes:
        what = [*(["the answers"] if update.asked else []), *([_files(changes)] if changes else [])]
        hint = "" if written else "; --write does it"
        yield f"{' and '.join(what)} {done}brought up to date{hint}"
    if conflicts:
        yield f"{_files(conflicts)} in conflict"
        left = [e for e in update.conflicts if not e.writes and e.reason != MARKED]
        if left:
            yield (
                "those that hold no new markers are as they were, and the next update tries again. "
                "With --write, --conflict markers shows both sides in the file, --conflict keep "
                "takes yours in the places in question, --conflict new the new"
            )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
