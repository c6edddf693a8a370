"""What an update does to each file of a generated package: decided here, written elsewhere.

Three states of a file decide: as it was generated before (the record), as its author has it, and
as it is generated now. What only one side changed is taken from that side; what both changed is
merged.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opscaffold.fs.tree import Found, Unusable, read_below
from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.merge import (
    Resolution,
    has_markers,
    in_form_of,
    is_text,
    merge,
    same_text,
    still_reads,
)
from opscaffold.scaffold.update_renames import renamed

MARKED = "markers of an earlier update still stand in it: settle them by hand, then update again"


class Action(enum.Enum):
    """What happens to a file."""

    UNCHANGED = "unchanged"
    UPDATED = "updated"
    MERGED = "merged"
    ADDED = "added"
    RENAMED = "renamed"
    REMOVED = "removed"
    CURRENT = "current"
    """It was given what an update would give it by its author."""
    DELETED = "deleted"
    """Its author deleted it, and it stays so."""
    KEPT = "kept"
    """It stays as its author has it, and later updates start from there: it is no longer generated
    and was changed, or it is a link or the like that its author chose to keep."""
    CONFLICT = "conflict"
    """It is left as it was, or holds markers: its author has to see to it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file. ``former`` is its path before, where it was renamed.

    ``old`` and ``new`` are what stands and what is to stand at ``path``; equal where nothing is
    written. ``mine`` is what its author had, at ``former`` for a renamed file: what is removed.
    ``executable`` is the bit to set, None for none. ``base`` is what the record is to hold of the
    file, None for nothing. ``recorded`` tells whether that alone is worth a write.
    """

    path: PurePosixPath
    action: Action
    reason: str = ""
    former: PurePosixPath | None = None
    old: bytes | None = None
    new: bytes | None = None
    mine: bytes | None = None
    executable: bool | None = None
    base: Generated | None = None
    recorded: bool = False

    @property
    def removes(self) -> PurePosixPath | None:
        """The path that is removed, if any."""
        if self.action is Action.REMOVED:
            return self.path
        return self.former if self.former is not None and self.mine is not None else None

    @property
    def base_path(self) -> PurePosixPath:
        """The path under which the record holds ``base``."""
        if self.former is not None and self.action is Action.DELETED:
            # Should its author bring it back, it is renamed then.
            return self.former
        return self.path

    @property
    def writes(self) -> bool:
        """Whether anything of the package or of its record changes."""
        return (
            self.old != self.new
            or self.removes is not None
            or self.executable is not None
            or self.recorded
        )


@dataclass(frozen=True, slots=True)
class Conflict:
    """What cannot be merged. ``marked`` is the file with markers, None where lines tell nothing."""

    path: PurePosixPath
    reason: str
    mine: bytes
    marked: bytes | None


# What is to become of a conflict; None leaves the file as it is, for a later update.
Resolve = Callable[[Conflict], "Resolution | None"]


def plan_update(
    root: Path,
    before: Mapping[PurePosixPath, Generated],
    now: Mapping[PurePosixPath, Generated],
    resolve: Resolve,
) -> list[Entry]:
    """Decide over every file of a package, sorted by path. Nothing is written.

    ``before`` are the files as the record has them, ``now`` as they are rendered. Raises
    GitMissingError where there is something to merge and no git, MergeError.
    """
    return sorted(_Planner(root, before, now, resolve).entries(), key=lambda entry: entry.path)


class _Planner:
    def __init__(
        self,
        root: Path,
        before: Mapping[PurePosixPath, Generated],
        now: Mapping[PurePosixPath, Generated],
        resolve: Resolve,
    ) -> None:
        self.root, self.before, self.now, self.resolve = root, before, now, resolve

    def entries(self) -> Iterator[Entry]:
        gone = {path: file for path, file in self.before.items() if path not in self.now}
        come = {path: file for path, file in self.now.items() if path not in self.before}
        free = {path: file for path, file in come.items() if self.read(path) is None}
        moved = renamed(gone, free)
        for path, file in self.before.items():
            if path in self.now:
                yield self.both(path, file, self.now[path])
            elif path in moved:
                yield self.renamed(path, moved[path])
            else:
                yield self.gone(path, file)
        for path, file in come.items():
            if path not in moved.values():
                yield self.come(path, file)

    def read(self, path: PurePosixPath) -> Found | Unusable | None:
        return read_below(self.root, path)

    def both(self, path: PurePosixPath, base: Generated, new: Generated) -> Entry:
        mine = self.read(path)
        if mine is None:
            # The base stays: should the file be brought back, it is updated from what it was.
            return Entry(path, Action.DELETED, "you deleted it", base=base)
        if isinstance(mine, Unusable):
            if base == new:
                return Entry(path, Action.UNCHANGED, f"it {mine.reason}", base=base)
            return self.unusable(path, f"it {mine.reason}", base, new)
        marked = self.marked(path, mine, base)
        if marked is not None:
            return marked
        executable = _bit(base, mine, new)
        if base.data == new.data:
            action = Action.UNCHANGED if executable is None else Action.UPDATED
            told = "" if executable is None else _told_bit(executable)
            return _entry(path, action, told, mine, mine.data, new, executable)
        if same_text(mine.data, base.data):
            data = in_form_of(mine.data, base.data, new.data)
            return _entry(path, Action.UPDATED, "", mine, data, new, executable)
        if same_text(mine.data, new.data):
            told = "it is as generated now"
            return _entry(path, Action.CURRENT, told, mine, mine.data, new, executable, note=True)
        return self.merged(path, base, mine, new, executable)

    def marked(self, path: PurePosixPath, mine: Found, base: Generated | None) -> Entry | None:
        if not has_markers(mine.data) or (base is not None and has_markers(base.data)):
            return None
        reason = MARKED
        return Entry(path, Action.CONFLICT, reason, old=mine.data, new=mine.data, base=base)

    def merged(
        self,
        path: PurePosixPath,
        base: Generated,
        mine: Found,
        new: Generated,
        executable: bool | None,
    ) -> Entry:
        """Both changed it."""
        if not all(map(is_text, (base.data, mine.data, new.data))):
            told = "you and the templates changed it, and it is no text"
            return self.resolved(path, told, None, base, mine, new, executable)
        merged = merge(base.data, mine.data, new.data)
        if merged.conflicts:
            many = "a place" if merged.conflicts == 1 else f"{merged.conflicts} places"
            told = f"you and the templates changed {many} of it"
            return self.resolved(path, told, merged.data, base, mine, new, executable)
        if not still_reads(path, mine.data, merged.data):
            told = "what you and the templates changed does not go together"
            return self.resolved(path, told, None, base, mine, new, executable)
        if merged.data == mine.data:
            told = "it holds what is generated now"
            return _entry(path, Action.CURRENT, told, mine, mine.data, new, executable, note=True)
        return _entry(path, Action.MERGED, "", mine, merged.data, new, executable)

    def unusable(
        self, path: PurePosixPath, told: str, base: Generated | None, new: Generated
    ) -> Entry:
        """What stands there is never written; it may be declared to be right as it is."""
        if self.resolve(Conflict(path, told, b"", None)) is Resolution.KEEP:
            return Entry(path, Action.KEPT, told, base=new, recorded=True)
        return Entry(path, Action.CONFLICT, told, base=base)

    def resolved(
        self,
        path: PurePosixPath,
        told: str,
        marked: bytes | None,
        base: Generated | None,
        mine: Found,
        new: Generated,
        executable: bool | None,
    ) -> Entry:
        """A conflict, by what its author chose."""
        chosen = self.resolve(Conflict(path, told, mine.data, marked))
        left = Entry(path, Action.CONFLICT, told, old=mine.data, new=mine.data, base=base)
        if chosen is None:
            return left
        if chosen is Resolution.MARKERS:
            if marked is None:
                return left
            told = f"{told}: markers are set there"
            return _entry(path, Action.CONFLICT, told, mine, marked, new, executable, note=True)
        which = "yours is kept" if chosen is Resolution.KEEP else "the new one is taken"
        whole = (
            mine.data if chosen is Resolution.KEEP else in_form_of(mine.data, mine.data, new.data)
        )
        if marked is None or base is None:
            data = whole
        else:
            data = merge(base.data, mine.data, new.data, chosen).data
            if not still_reads(path, mine.data, data):
                # Taken together the places do not fit, the whole file does.
                data = whole
        return _entry(
            path, Action.MERGED, f"{told}: {which}", mine, data, new, executable, note=True
        )

    def come(self, path: PurePosixPath, new: Generated) -> Entry:
        """It was not generated before."""
        mine = self.read(path)
        if mine is None:
            executable = True if new.executable else None
            return Entry(path, Action.ADDED, new=new.data, executable=executable, base=new)
        if isinstance(mine, Unusable):
            return self.unusable(path, f"what stands there {mine.reason}", None, new)
        marked = self.marked(path, mine, None)
        if marked is not None:
            return marked
        if same_text(mine.data, new.data):
            told = "it is as generated now"
            return _entry(path, Action.CURRENT, told, mine, mine.data, new, None, note=True)
        told = "a file of yours is there already"
        shown = None
        if is_text(mine.data) and is_text(new.data):
            shown = merge(b"", mine.data, new.data).data
        return self.resolved(path, told, shown, None, mine, new, None)

    def gone(self, path: PurePosixPath, base: Generated) -> Entry:
        """It is no longer generated."""
        mine = self.read(path)
        if mine is None:
            told = "you deleted it, and it is no longer generated"
            return Entry(path, Action.DELETED, told, recorded=True)
        if isinstance(mine, Unusable):
            told = f"it is no longer generated, and {mine.reason}"
            return Entry(path, Action.KEPT, told, recorded=True)
        if same_text(mine.data, base.data):
            told = "it is no longer generated"
            return Entry(path, Action.REMOVED, told, old=mine.data, mine=mine.data)
        told = "it is no longer generated, and you changed it"
        return Entry(path, Action.KEPT, told, old=mine.data, new=mine.data, recorded=True)

    def renamed(self, path: PurePosixPath, to: PurePosixPath) -> Entry:
        """It goes on as another file, which is not there yet."""
        base, new, mine = self.before[path], self.now[to], self.read(path)
        if mine is None:
            return Entry(to, Action.DELETED, "you deleted it", former=path, base=base)
        if isinstance(mine, Unusable):
            told = f"it is {to} now, and what stands there {mine.reason}"
            return Entry(path, Action.CONFLICT, told, base=base)
        marked = self.marked(path, mine, base)
        if marked is not None:
            return marked
        entry = self.both_at(path, base, mine, new)
        if entry.base is base and entry.action is Action.CONFLICT:
            return entry
        executable = True if new.executable or mine.executable else None
        action = entry.action if entry.action is Action.CONFLICT else Action.RENAMED
        return Entry(
            to,
            action,
            entry.reason,
            former=path,
            new=entry.new,
            mine=mine.data,
            executable=executable,
            base=new,
        )

    def both_at(self, path: PurePosixPath, base: Generated, mine: Found, new: Generated) -> Entry:
        if base.data == new.data:
            return _entry(path, Action.UNCHANGED, "", mine, mine.data, new, None)
        if same_text(mine.data, base.data):
            return _entry(
                path,
                Action.UPDATED,
                "",
                mine,
                in_form_of(mine.data, base.data, new.data),
                new,
                None,
            )
        return self.merged(path, base, mine, new, None)


def _entry(
    path: PurePosixPath,
    action: Action,
    reason: str,
    mine: Found,
    data: bytes,
    base: Generated,
    executable: bool | None,
    *,
    note: bool = False,
) -> Entry:
    return Entry(
        path,
        action,
        reason,
        old=mine.data,
        new=data,
        executable=executable,
        base=base,
        recorded=note,
    )


def _bit(base: Generated, mine: Found, new: Generated) -> bool | None:
    """The bit to set: the templates changed it, and the author did not."""
    changed = base.executable != new.executable and mine.executable == base.executable
    return new.executable if changed else None


def _told_bit(executable: bool) -> str:
    return "it may be executed" if executable else "it may no longer be executed"
