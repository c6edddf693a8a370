"""An update of a generated package: rendered, planned, and written so that a kill does no harm."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from opscaffold.fs.atomic import as_write_error, require_unchanged
from opscaffold.fs.journal import Unit, write_units
from opscaffold.fs.tree import make_parents, read_below
from opscaffold.scaffold.adopted import Adopted
from opscaffold.scaffold.given import AnswerError, Answers
from opscaffold.scaffold.managed import (
    ANSWERS,
    Record,
    read_record,
    record_files,
)
from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.managed_origin import make_record
from opscaffold.scaffold.managed_render import rendered, spec_of
from opscaffold.scaffold.own_templates import templates_of
from opscaffold.scaffold.spec import PackageSpec
from opscaffold.scaffold.templates import TemplateError
from opscaffold.scaffold.update_plan import Action, Entry, Resolve, plan_update


@dataclass(frozen=True, slots=True)
class Update:
    """What an update of the package at ``root`` is to do. ``after`` is the record it leads to.

    ``asked`` tells that the answers are not those of the record, be there a file to show it or not.
    """

    root: Path
    before: Record
    after: Record
    entries: tuple[Entry, ...]
    asked: bool = False

    @property
    def conflicts(self) -> tuple[Entry, ...]:
        """The files that their author has to see to."""
        return tuple(entry for entry in self.entries if entry.action is Action.CONFLICT)

    @property
    def changes(self) -> tuple[Entry, ...]:
        """The files that are written, made or removed, or whose part of the record is."""
        return tuple(entry for entry in self.entries if entry.writes)

    @property
    def writes(self) -> bool:
        """Whether there is anything to write."""
        return self.asked or bool(self.changes)


def plan(root: Path, answers: Answers, told: Path | None, resolve: Resolve) -> Update:
    """Plan the update of the package at ``root`` to these answers and to the templates of now.

    ``told`` are templates of the user's own, which are then run; None takes those of the record.
    Raises what ``read_record``, ``spec_of``, ``templates_of``, ``rendered`` and ``plan_update``
    raise.
    """
    before = read_record(root)
    spec = spec_of(answers, before.adopted)
    own = templates_of(root, before, told)
    files = rendered(spec, before.adopted, own)
    if before.adopted is not None:
        files = {p: f for p, f in files.items() if _is_ours(root, p, before, before.adopted)}
        # What imports them is its author's: they may be in use, whatever the answers say now.
        files = {**before.files, **files}
    after = replace(make_record(spec, files, root, own), adopted=before.adopted)
    try:
        # Before anything is planned: what cannot be recorded must not be written.
        record_files(after)
    except ValueError as error:
        raise TemplateError(f"the templates make a file that may not be: {error}") from None
    return between(root, before, after, resolve, asked=_differs(before, spec))


def between(
    root: Path, before: Record, after: Record, resolve: Resolve, *, asked: bool = False
) -> Update:
    """Plan the way from one record of the package at ``root`` to another.

    Raises what ``plan_update`` raises.
    """
    entries = plan_update(root, before.files, after.files, resolve)
    bases = {e.base_path: e.base for e in entries if e.base is not None}
    origin = after.origin
    if any(entry.action is Action.CONFLICT and not entry.writes for entry in entries):
        # Not wholly applied: it is still a package of the templates before.
        origin = replace(before.origin, own=origin.own)
    record = replace(after, files=bases, origin=origin)
    return Update(root, before, record, tuple(entries), asked)


def apply(update: Update) -> None:
    """Write what was planned, and the record with it.

    Contents are written first, all of them with the record as one unit of the journal; then files
    are removed and bits are set; then the record says that this is done as well. A run that was
    killed is thus finished by ``recover`` and the next update. Raises what ``write_units`` raises,
    and WriteError.
    """
    if not update.writes:
        return
    files: dict[Path, tuple[bytes | None, bytes]] = {}
    for entry in update.entries:
        if entry.new is not None and entry.old != entry.new:
            files[update.root / entry.path] = (entry.old, entry.new)
    rest = [e for e in update.entries if e.removes is not None or e.executable is not None]
    made = make_parents(update.root, files)
    try:
        record = _half_done(update.after, rest) if rest else update.after
        write_units(update.root, [Unit("the update", {**files, **_record(update.root, record)})])
    except BaseException:
        for directory in reversed(made):
            with contextlib.suppress(OSError):
                directory.rmdir()
        raise
    if rest:
        for entry in rest:
            _finish(update.root, entry)
        write_units(update.root, [Unit("the record", _record(update.root, update.after))])


def _is_ours(root: Path, path: PurePosixPath, record: Record, adopted: Adopted) -> bool:
    """Whether a file of an adopted package is opscaffold's to update: all others are its author's.

    One that ops have come to need since is put there, if nothing is.
    """
    return path in record.files or (adopted.needs(path) and read_below(root, path) is None)


def _differs(before: Record, spec: PackageSpec) -> bool:
    try:
        return spec_of(before.answers, before.adopted) != spec
    except AnswerError:
        # They were edited to what is no package: other answers were given, then.
        return True


def _record(root: Path, record: Record) -> dict[Path, tuple[bytes | None, bytes]]:
    return {
        root / path: (root.joinpath(path).read_bytes(), data)
        for path, data in record_files(record).items()
    }


def _half_done(record: Record, rest: Sequence[Entry]) -> Record:
    """The record of a package whose contents are written, and nothing else.

    What is still to be removed counts as never changed by its author, what is to be executable as
    generated otherwise: an update then does the rest.
    """
    files = dict(record.files)
    for entry in rest:
        if entry.removes is not None and entry.mine is not None:
            files[entry.removes] = Generated(entry.mine)
        if entry.executable is not None and entry.base is not None:
            files[entry.path] = replace(entry.base, executable=not entry.executable)
    return replace(record, files=files)


def _finish(root: Path, entry: Entry) -> None:
    if entry.removes is not None:
        path = root / entry.removes
        require_unchanged(path, entry.mine)
        with as_write_error(path):
            path.unlink()
        _remove_empty(root, entry.removes)
    if entry.executable is not None:
        path = root / entry.path
        with as_write_error(path):
            mode = stat.S_IMODE(path.stat().st_mode)
            # Whoever may read it may execute it, as git does it.
            bits = (mode & 0o444) >> 2
            path.chmod(mode | bits if entry.executable else mode & ~0o111)


def _remove_empty(root: Path, removed: PurePosixPath) -> None:
    for directory in removed.parents[:-1]:
        with contextlib.suppress(OSError):
            root.joinpath(directory).rmdir()
            continue
        return


def answers_file(root: Path) -> Path:
    """Where the answers of the package at ``root`` stand."""
    return root.joinpath(ANSWERS)
