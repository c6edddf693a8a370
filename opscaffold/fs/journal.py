"""Several files written as units, each whole or not at all, even if the process is killed.

A unit's new bytes are first written beside its files; then a journal says that the unit is begun;
only then are the files replaced, one by one. Whatever stops a run, every file holds its old bytes
or its new ones. Should it stop between two files of one unit, the journal lets the next run finish
that unit: see ``recovery``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opscaffold.errors import UserError
from opscaffold.fs.atomic import (
    Staged,
    StaleFileError,
    WriteError,
    as_write_error,
    commit,
    discard,
    put_back,
    require_unchanged,
    require_writable,
    shown,
    stage,
    sync_directory,
)
from opscaffold.fs.lock import locked
from opscaffold.fs.record import Change, Journal, remove, temporary_of
from opscaffold.fs.signals import deferred_signals
from opscaffold.fs.state import State, find_state


@dataclass(frozen=True, slots=True)
class Unit:
    """Changes that belong together: each path maps to its (old, new) bytes.

    ``None`` as old bytes stands for a file that does not exist yet.
    """

    name: str
    changes: Mapping[Path, tuple[bytes | None, bytes]]


class UnitsError(WriteError):
    """Not every unit could be written; none is half written.

    ``written`` are the names of those that were, before the one that failed.
    """

    def __init__(self, error: WriteError, written: Sequence[str], count: int) -> None:
        super().__init__(error.path, f"{error.reason}; {_so_far(written, count)}")
        self.written = tuple(written)


class InterruptedWriteError(KeyboardInterrupt):
    """Ctrl-C while units were written; ``written`` names those that were, each of them whole."""

    def __init__(self, written: Sequence[str], count: int) -> None:
        super().__init__(_so_far(written, count))
        self.written = tuple(written)


class _HalfWrittenError(WriteError):
    """A unit that could be neither finished nor undone: the journal has to stay."""


def write_units(
    root: Path,
    units: Sequence[Unit],
    *,
    backup_suffix: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Write units in their order, each whole or not at all, also across a kill.

    A later unit may change a file again; its old bytes are then the new ones of the unit before.
    Before anything is touched, every file is compared with its old bytes and tried for access.
    A file that changes after that stops the run at its unit. Modes, owners where allowed, and
    symbolic links are kept, as by ``write_atomically``. With ``backup_suffix``, the bytes that a
    file had at first are kept beside it, under its name and the suffix; a backup is part of the
    first unit that changes its file. ``progress`` gets the name of each unit that is written.

    Ctrl-C and polite kills wait for the unit at hand, then do what they do. All is done under the
    project's lock. ``recover`` comes first: this refuses where a killed run left work.

    Raises UnitsError (a WriteError) with what is wrong and what was written before;
    InterruptedWriteError, a KeyboardInterrupt; LockedError where another run is writing; UserError
    for a suffix that would not name a file beside, and for a journal in the way.
    """
    written: list[str] = []
    try:
        with deferred_signals() as pending, locked(state := find_state(root)):
            if state.journal.exists():
                raise UserError("a run of opscaffold was killed meanwhile: run this again")
            try:
                planned = _prepare(Path(os.path.realpath(root)), units, backup_suffix)
                if pending.signal or not any(planned):
                    return

                def wrote(name: str) -> bool:
                    written.append(name)
                    progress(name)
                    return not pending.signal

                _write(state, [unit.name for unit in units], planned, wrote)
            except WriteError as error:
                raise UnitsError(error, written, len(units)) from error
    except KeyboardInterrupt:
        raise InterruptedWriteError(written, len(units)) from None


def _write(
    state: State,
    names: Sequence[str],
    planned: Sequence[Sequence[Change]],
    wrote: Callable[[str], bool],
) -> None:
    """Write unit by unit for as long as ``wrote`` says to go on."""
    journal = Journal(state, zip(names, planned, strict=True))
    try:
        for index, changes in enumerate(planned):
            _write_unit(journal, index, changes)
            if not wrote(names[index]):
                break
    except _HalfWrittenError:
        raise
    except BaseException:
        with contextlib.suppress(WriteError):
            remove(state)
        raise
    remove(state)


def _write_unit(journal: Journal, index: int, changes: Sequence[Change]) -> None:
    staged: list[Staged] = []
    try:
        for number, change in enumerate(changes):
            name = temporary_of(journal.run, index, number)
            item = stage(change.path, change.new, change.old, temporary=name, like=change.like)
            staged.append(item)
            if item.target != change.target:
                raise StaleFileError(change.path, "it leads elsewhere since it was read")
        for change in changes:
            require_unchanged(change.path, change.old)
        journal.begin(index)
        _commit_all(staged)
    finally:
        for item in staged:
            discard(item)


def _commit_all(staged: Sequence[Staged]) -> None:
    done: list[Staged] = []
    try:
        for item in staged:
            done.append(item)
            commit(item, sync=False)
        for directory in {item.target.parent: item for item in staged}:
            with as_write_error(directory):
                sync_directory(directory)
    except BaseException as error:
        # Something may fail between the replacing and our noticing: look rather than assume.
        lost = [item.path for item in done if not put_back(item)]
        if lost:
            names = ", ".join(shown(path) for path in lost)
            raise _HalfWrittenError(
                lost[0],
                f"{error}; changed already and not put back: {names}; the next run of "
                "opscaffold finishes it",
            ) from error
        raise


def _prepare(root: Path, units: Sequence[Unit], suffix: str | None) -> list[list[Change]]:
    """Return the changes of each unit, backups with them; refuse what can be known to fail."""
    if suffix is not None and (not suffix or Path(f"x{suffix}").name != f"x{suffix}"):
        raise UserError(f"the backup suffix {suffix!r} does not make a name of a file beside")
    latest: dict[Path, bytes | None] = {}
    backups: set[Path] = set()
    planned: list[list[Change]] = []
    for unit in units:
        changes: dict[Path, Change] = {}
        for path, (old, new) in unit.changes.items():
            with as_write_error(path):
                target = Path(os.path.realpath(path))
            if target in changes:
                raise WriteError(path, f"it is the same file as {shown(changes[target].path)}")
            if target in latest:
                if latest[target] != old:
                    raise ValueError(f"{unit.name}: not what the unit before made of {path}")
            else:
                _require_ready(path, target, root, old)
                if suffix is not None and old is not None and old != new:
                    backup = target.with_name(target.name + suffix)
                    backups.add(backup)
                    if _is_new_backup(backup, old):
                        changes[backup] = Change(backup, backup, None, old, like=target)
            latest[target] = new
            changes[target] = Change(path, target, old, new)
        planned.append([change for change in changes.values() if change.old != change.new])
    for path in sorted(backups & latest.keys()):
        raise WriteError(path, "it would be the backup of another file: choose another suffix")
    return planned


def _require_ready(path: Path, target: Path, root: Path, old: bytes | None) -> None:
    if not target.is_relative_to(root):
        raise WriteError(path, f"it lies outside {shown(root)}")
    require_writable(path)
    require_unchanged(path, old)


def _is_new_backup(backup: Path, old: bytes) -> bool:
    if not os.path.lexists(backup):
        require_writable(backup)
        return True
    with as_write_error(backup):
        if not backup.is_symlink() and backup.is_file() and backup.read_bytes() == old:
            return False
    raise WriteError(backup, "a backup that holds something else is there: move it away")


def _so_far(written: Sequence[str], count: int) -> str:
    if not written:
        return "nothing was written"
    return f"{len(written)} of {count} were written before, each of them whole"
