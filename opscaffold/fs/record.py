"""The journal file: what is to be written, unit by unit, and how far that has come.

One JSON document a line: a header, a line for each unit with its files, hashes and new bytes, a
line that closes the list, then one line each time a unit is begun. Up to the closing line the file
appears at once and whole. Paths are relative to the base of the project's state, so that a project
that was moved or is mounted elsewhere is still mended.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from opscaffold.errors import UserError
from opscaffold.fs.atomic import as_write_error, shown, sync_directory, temporary_name
from opscaffold.fs.state import State

VERSION = 1

_RUN = re.compile(r"[0-9a-f]{16}")
_HASH = re.compile(r"[0-9a-f]{64}")


class DamagedJournalError(UserError):
    """A journal that cannot be followed, since it is not as this version writes it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One file of a unit: ``target`` is the file itself, ``path`` what the caller called it.

    ``old`` is None for a file that is made, ``like`` then the file whose mode and owner it gets.
    """

    path: Path
    target: Path
    old: bytes | None
    new: bytes
    like: Path | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A change as the journal tells it: hashes for bytes, the new bytes packed."""

    target: Path
    old: str | None
    new: str
    like: Path | None
    packed: str

    def data(self) -> bytes:
        """Return the new bytes. Raises DamagedJournalError where they are not those meant."""
        try:
            data = zlib.decompress(base64.b64decode(self.packed, validate=True))
        except (zlib.error, binascii.Error) as error:
            raise DamagedJournalError(f"the bytes kept for {shown(self.target)} are damaged") from (
                error
            )
        if digest(data) != self.new:
            raise DamagedJournalError(f"the bytes kept for {shown(self.target)} are damaged")
        return data


@dataclass(frozen=True, slots=True)
class Story:
    """What a journal tells: the units by name and files, and how many of them were begun."""

    run: str
    units: tuple[tuple[str, tuple[Entry, ...]], ...]
    begun: int


def digest(data: bytes) -> str:
    """Return the hash by which the journal knows a content."""
    return hashlib.sha256(data).hexdigest()


def temporary_of(run: str, unit: int, file: int) -> str:
    """Return the name under which a file's new bytes wait: the next run knows it, too."""
    return temporary_name(f"{run}-{unit}-{file}")


class Journal:
    """A journal being kept. Raises WriteError where the disk does not take it."""

    def __init__(self, state: State, units: Iterable[tuple[str, Sequence[Change]]]) -> None:
        self.state = state
        self.run = secrets.token_hex(8)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with as_write_error(state.journal):
            descriptor = os.open(state.unfinished, flags, 0o600)
            try:
                with open(descriptor, "wb") as stream:  # noqa: PTH123 -- opens a descriptor
                    stream.write(_line({"journal": VERSION, "run": self.run}))
                    count = 0
                    for name, changes in units:
                        files = [self._entry(change) for change in changes]
                        stream.write(_line({"unit": name, "files": files}))
                        count += 1
                    stream.write(_line({"units": count}))
                    stream.flush()
                    os.fsync(stream.fileno())
                state.unfinished.replace(state.journal)
                sync_directory(state.directory)
                # Its own name must last as well, or the journal is out of reach.
                sync_directory(state.directory.parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    state.unfinished.unlink(missing_ok=True)
                    state.journal.unlink(missing_ok=True)
                raise

    def begin(self, unit: int) -> None:
        """Note, down to the disk, that the files of a unit are now being replaced."""
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)
        with as_write_error(self.state.journal):
            descriptor = os.open(self.state.journal, flags)
            try:
                line = _line({"begun": unit})
                if os.write(descriptor, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _entry(self, change: Change) -> dict[str, object]:
        def relative(path: Path) -> str:
            return path.relative_to(self.state.base).as_posix()

        return {
            "path": relative(change.target),
            "old": None if change.old is None else digest(change.old),
            "new": digest(change.new),
            "like": None if change.like is None else relative(change.like),
            "bytes": base64.b64encode(zlib.compress(change.new, 1)).decode("ascii"),
        }


def remove(state: State) -> None:
    """Remove the journal: nothing is left to be done. Raises WriteError."""
    with as_write_error(state.journal):
        state.journal.unlink(missing_ok=True)
        sync_directory(state.directory)


def read(state: State) -> Story | None:
    """Read the journal of a run that was killed; None if it left none.

    A last line that is not whole counts as not there: what it announces had not been done.
    Raises DamagedJournalError, WriteError where the file cannot be read.
    """
    with as_write_error(state.journal):
        try:
            lines = state.journal.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return None
    try:
        header, *rest = (json.loads(line) for line in lines)
        if header["journal"] != VERSION or not _RUN.fullmatch(header["run"]):
            raise ValueError(header)
        units = tuple(
            (str(line["unit"]), tuple(_read_entry(file, state.base) for file in line["files"]))
            for line in rest
            if "unit" in line
        )
        closing, *begun = rest[len(units) :]
        if closing["units"] != len(units) or [b["begun"] for b in begun] != [*range(len(begun))]:
            raise ValueError(closing)
        if len(begun) > len(units):
            raise ValueError(begun[-1])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedJournalError(
            f"{shown(state.journal)} tells what a killed run left to do, and this version of "
            "opscaffold cannot read it: look through the changed files, then delete it"
        ) from error
    return Story(header["run"], units, len(begun))


def _line(value: dict[str, Any]) -> bytes:
    # Names of files may hold bytes that are no text; escaped, they come back as they were.
    return json.dumps(value, ensure_ascii=True).encode("ascii") + b"\n"


def _read_entry(value: dict[str, Any], base: Path) -> Entry:
    old, new, like = value["old"], value["new"], value["like"]
    if not _HASH.fullmatch(new) or (old is not None and not _HASH.fullmatch(old)):
        raise ValueError(value)
    return Entry(
        target=_inside(value["path"], base),
        old=old,
        new=new,
        like=None if like is None else _inside(like, base),
        packed=str(value["bytes"]),
    )


def _inside(name: str, base: Path) -> Path:
    path = PurePosixPath(name)
    # Pathlib leaves out "." itself; a drive or a backslash would count on Windows.
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ValueError(name)
    target = base.joinpath(*path.parts)
    if not target.is_relative_to(base):
        raise ValueError(name)
    return target
