"""Mending what a killed run left: the unit it was at is finished or undone, the rest is dropped."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opscaffold.fs.atomic import as_write_error, commit, discard, shown, stage
from opscaffold.fs.lock import locked
from opscaffold.fs.record import Entry, Story, read, remove, temporary_of
from opscaffold.fs.state import find_state


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found and done after a killed run; units by name.

    ``written`` had been written whole, ``finished`` was half written and is whole now, ``dropped``
    had changed nothing. ``left`` are files of the unit at hand that somebody changed since: they
    were not touched, and their unit may be half done in them. ``files`` are those of the written
    and the finished units.
    """

    written: tuple[str, ...]
    finished: str | None
    dropped: tuple[str, ...]
    left: tuple[Path, ...] = ()
    files: tuple[Path, ...] = field(default=(), compare=False)

    def lines(self) -> list[str]:
        """Say it in words, a statement a line."""
        said = ["an earlier run was killed while it wrote"]
        if self.written:
            said.append(f"  already written: {_listed(self.written)}")
        if self.finished is not None:
            said.append(f"  finished now: {self.finished}")
        if self.dropped:
            said.append(f"  not begun, and dropped: {_listed(self.dropped)}")
        said += [
            f"  {shown(path)} was changed since and left as it is: compare it with the other "
            f"files of {self.finished}, which are changed"
            for path in self.left
        ]
        return said


def recover(root: Path) -> Recovery | None:
    """Finish or undo what a killed run of ``write_units`` began; None if there is nothing.

    A unit of which any file was written is finished, in all its files; the ones behind it are
    dropped, with their temporary files. A file that is neither as it was nor as it was to be is
    somebody's work and stays. May be killed and run again. Where no run was killed, nothing is
    locked or written, so that a read-only tree is no trouble.

    Raises LockedError while another run is writing, WriteError where a file cannot be finished
    (the next run tries again), UserError for a journal that cannot be read or trusted.
    """
    state = find_state(root)
    if not state.exists():
        return None
    with locked(state):
        story = read(state)
        if story is None:
            return None
        for path in _temporaries(story):
            with as_write_error(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
        recovery = _mend(story)
        remove(state)
    return recovery


def _mend(story: Story) -> Recovery:
    names = [name for name, _ in story.units]
    if not story.begun:
        return Recovery((), None, tuple(names))
    at = story.begun - 1
    entries = story.units[at][1]
    now = [_digest(entry.target) for entry in entries]
    reached = [digest == entry.new for digest, entry in zip(now, entries, strict=True)]
    before, behind = tuple(names[:at]), tuple(names[at + 1 :])
    files = {entry.target: None for _, done in story.units[:at] for entry in done}
    if not any(reached):
        return Recovery(before, None, (names[at], *behind), files=tuple(files))
    files |= {entry.target: None for entry in entries}
    if all(reached):
        return Recovery((*before, names[at]), None, behind, files=tuple(files))
    left = []
    for number, (entry, digest) in enumerate(zip(entries, now, strict=True)):
        if digest == entry.old:
            _finish(entry, temporary_of(story.run, at, number))
        elif digest != entry.new:
            left.append(entry.target)
    return Recovery(before, names[at], behind, tuple(left), tuple(files))


def _finish(entry: Entry, temporary: str) -> None:
    like = entry.like if entry.like is not None and entry.like.is_file() else None
    item = stage(entry.target, entry.data(), None, temporary=temporary, like=like)
    try:
        commit(item)
    finally:
        discard(item)


def _temporaries(story: Story) -> Iterator[Path]:
    for unit, (_, entries) in enumerate(story.units):
        for number, entry in enumerate(entries):
            # A link put in place of a directory could lead anywhere.
            if _is_real(entry.target.parent):
                yield entry.target.with_name(temporary_of(story.run, unit, number))


def _digest(target: Path) -> str | None:
    """Return the hash of what a file holds, None if there is none, "" for what is no such file."""
    if not _is_real(target):
        return ""
    try:
        return hashlib.sha256(target.read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return ""


def _is_real(path: Path) -> bool:
    return Path(os.path.realpath(path)) == path


def _listed(names: Sequence[str]) -> str:
    shortened = [*names[:5], *([f"{len(names) - 5} more"] if len(names) > 5 else [])]
    return ", ".join(shortened)
