"""Reading a plan back, and doing exactly what it says, or nothing.

A plan may come from another machine: nothing in it is trusted. What it names lies in the root, and
each file holds the bytes that it was planned from, or nothing is done.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from opscaffold.errors import UserError
from opscaffold.fs.atomic import shown
from opscaffold.fs.journal import Unit
from opscaffold.migrate.plan_file import VERSION, digest, lines_of, remains

_HASH = re.compile(r"[0-9a-f]{64}")


class PlanError(UserError):
    """A plan that cannot be applied; the text names the file that is in the way."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that change. ``line`` counts from 1 in the file as it was before the whole step."""

    line: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileEdit:
    """What becomes of one file; ``before`` is None for one that is made."""

    path: str
    before: str | None
    after: str
    hunks: tuple[Hunk, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Edits that belong together. ``said`` tells each repair in words, for the user."""

    name: str
    said: tuple[str, ...]
    files: tuple[FileEdit, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as read. ``remains`` says that it leaves something for a person to see to."""

    steps: tuple[Step, ...]
    remains: bool


def load_plan(path: Path) -> Plan:
    """Read a plan. Raises PlanError, which names the file, where it is not one."""
    name = shown(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlanError(f"{name}: cannot be read: {error.strerror or error}") from None
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{name}: is no plan: {error}") from None
    version = document.get("opscaffold_plan") if isinstance(document, dict) else None
    if version is None:
        raise PlanError(f"{name}: is no plan: make one with `opscaffold migrate --plan`")
    if version != VERSION:
        raise PlanError(
            f"{name}: is a plan of version {version!r}, and this opscaffold knows {VERSION}: "
            "make it anew"
        )
    try:
        steps = [_read_step(each) for each in _list(document["steps"])]
        tests = tuple(_read_file(each) for each in _list(document["tests"]))
        left = remains(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"there is no {error}" if isinstance(error, KeyError) else error
        raise PlanError(f"{name}: is damaged: {what}") from None
    if tests:
        steps.append(Step("tests", (), tests))
    return Plan(tuple(steps), left)


def planned_units(plan: Plan, root: Path, name: str) -> list[Unit]:
    """Return what a plan changes in a tree, ready to be written.

    Raises PlanError, which names the file, where one does not hold what it was planned from.
    """
    now: dict[Path, bytes | None] = {}
    found = []
    for step in plan.steps:
        changes: dict[Path, tuple[bytes | None, bytes]] = {}
        for edit in step.files:
            path = root.joinpath(*PurePosixPath(edit.path).parts)
            if path in changes:
                raise PlanError(f"{name}: is damaged: {_shown(edit)} stands twice in one step")
            old = now[path] if path in now else _read(path, edit)
            new = _applied(edit, old, name)
            changes[path] = (old, new)
            now[path] = new
        found.append(Unit(step.name, changes))
    return found


def _read(path: Path, edit: FileEdit) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or error
        raise PlanError(f"{_shown(edit)} cannot be read: {why}; nothing was written") from None


def _applied(edit: FileEdit, old: bytes | None, name: str) -> bytes:
    if (None if old is None else digest(old)) != edit.before:
        if old is None:
            reason = "is not there any more"
        elif edit.before is None:
            reason = "is there already"
        else:
            reason = "is not what it was when the plan was made"
        raise PlanError(f"{_shown(edit)} {reason}: make a new plan; nothing was written")
    lines = lines_of(old or b"")
    result: list[str] = []
    at = 0
    for hunk in edit.hunks:
        start = hunk.line - 1
        end = start + len(hunk.removed)
        if start < at or tuple(lines[start:end]) != hunk.removed:
            raise PlanError(f"{name}: is damaged: its lines of {_shown(edit)} do not fit the file")
        result += [*lines[at:start], *hunk.added]
        at = end
    text = "".join([*result, *lines[at:]])
    try:
        new = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        new = b""
    if digest(new) != edit.after:
        raise PlanError(
            f"{name}: is damaged: its lines of {_shown(edit)} do not make the file that it promises"
        )
    return new


def _shown(edit: FileEdit) -> str:
    return shown(Path(edit.path))


def _read_step(value: Mapping[str, Any]) -> Step:
    repairs = _list(value["repairs"])
    if not repairs:
        raise ValueError("a step repairs nothing")
    names = dict.fromkeys(_text(repair["op"]) for repair in repairs)
    said = tuple(
        f"{_text(repair['op'])}: {_text(repair['does'])} ({_count(_list(repair['call_sites']))})"
        for repair in repairs
    )
    return Step(", ".join(names), said, tuple(_read_file(each) for each in _list(value["files"])))


def _count(sites: list[Any]) -> str:
    return "1 call site" if len(sites) == 1 else f"{len(sites)} call sites"


def _read_file(value: Mapping[str, Any]) -> FileEdit:
    before = value["sha256_before"]
    return FileEdit(
        _inside(_text(value["path"])),
        None if before is None else _hash(before),
        _hash(value["sha256_after"]),
        tuple(_read_hunk(hunk) for hunk in _list(value["hunks"])),
    )


def _read_hunk(value: Mapping[str, Any]) -> Hunk:
    line = value["line"]
    if not isinstance(line, int) or isinstance(line, bool) or line < 1:
        raise ValueError(f"{line!r} is no line")
    removed, added = (tuple(map(_text, _list(value[key]))) for key in ("removed", "added"))
    return Hunk(line, removed, added)


def _inside(name: str) -> str:
    """A path that cannot lead out of the root, nor into git's or opscaffold's own files."""
    path = PurePosixPath(name)
    own = {".git", ".opscaffold", ".opscaffold.run"}
    if not path.parts or path.is_absolute() or ".." in path.parts or own & set(path.parts):
        raise ValueError(f"{name!r} is no path in the project")
    if "\0" in name or (os.name == "nt" and re.search(r"[\\:]", name)):
        raise ValueError(f"{name!r} is no path in the project")
    return name


def _hash(value: object) -> str:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise ValueError(f"{value!r} is no SHA-256")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value
