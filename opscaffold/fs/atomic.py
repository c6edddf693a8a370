"""Files written wholly or not at all, one or several together."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opscaffold.errors import UserError

PREFIX = ".opscaffold-"
SUFFIX = ".tmp"

_REASONS = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.ENOENT: "its directory does not exist",
    errno.ENOTDIR: "its directory is not a directory",
    errno.ELOOP: "its symbolic links go round in a circle",
}


class WriteError(UserError):
    """A file that could not be written. ``path`` is the file as the caller named it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot write {shown(path)}: {reason}")
        self.path = path
        self.reason = reason


class StaleFileError(WriteError):
    """A file that changed or vanished since it was read: nothing was written."""


@dataclass(slots=True)
class Staged:
    """New bytes that lie on the disk beside the file they are for, ready to take its place."""

    path: Path
    target: Path
    temporary: Path
    old: bytes | None
    new: bytes


def write_atomically(path: Path, data: bytes) -> None:
    """Replace or create a file so that readers see the old bytes or the new, never a mix.

    Permission bits and, where allowed, the owner of an existing file are kept. A symbolic link
    stays one: the file it leads to is replaced. A hard link becomes a file of its own.
    Raises WriteError, with no trace left behind: where the directory cannot be written, the
    file is marked read-only or is not a regular file, or the disk is full.
    """
    staged = stage(path, data, old=None)
    try:
        commit(staged)
    finally:
        discard(staged)


def put_back(item: Staged) -> bool:
    """Undo a commit, should it have happened; tell whether the file is as it was before.

    A file that holds neither what was written nor what was there before is left alone.
    """
    try:
        if item.temporary.exists():
            return True
        now = item.target.read_bytes() if item.target.exists() else None
        if now == item.old:
            return True
        if now != item.new:
            return False
        if item.old is None:
            item.target.unlink()
            sync_directory(item.target.parent)
        else:
            former = stage(item.target, item.old, item.new, temporary=item.temporary.name)
            try:
                commit(former)
            finally:
                discard(former)
    except (OSError, WriteError):
        return False
    return True


def stage(
    path: Path,
    data: bytes,
    old: bytes | None,
    *,
    temporary: str = "",
    like: Path | None = None,
) -> Staged:
    """Write new bytes beside a file, down to the disk; the file itself is not touched.

    ``temporary`` is the name to write them under, for a caller that must know it; a random one
    unless given. A file that does not exist yet gets the mode and owner of ``like``, if given.
    Raises WriteError and leaves nothing.
    """
    with as_write_error(path):
        target = Path(os.path.realpath(path))
        status = require_writable(path)
        if status is None and like is not None:
            status = like.stat()
        beside = target.with_name(temporary or temporary_name(secrets.token_hex(8)))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        # 0o666 lets the umask decide on a new file, as for any file the user makes.
        descriptor = os.open(beside, flags, 0o666)
        try:
            with open(descriptor, "wb") as stream:  # noqa: PTH123 -- opens a descriptor
                if status is not None:
                    _copy_ownership(beside, status)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
    return Staged(path, target, beside, old, data)


def temporary_name(token: str) -> str:
    """Return the name of a temporary file of ours."""
    return f"{PREFIX}{token}{SUFFIX}"


def require_writable(path: Path) -> os.stat_result | None:
    """Return the status of a file that may be replaced, None for one that may be made.

    Raises WriteError where that can be known without trying.
    """
    target = Path(os.path.realpath(path))
    with as_write_error(path):
        status = _existing(path, target)
        if status is None and not target.parent.is_dir():
            raise WriteError(path, _REASONS[errno.ENOENT])
    if not os.access(target.parent, os.W_OK):
        raise WriteError(path, "its directory is read-only")
    return status


def _existing(path: Path, target: Path) -> os.stat_result | None:
    try:
        # Not target: realpath stops without a word where links go round in a circle.
        status = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise WriteError(path, "it is not a regular file")
    if not os.access(target, os.W_OK):
        raise WriteError(path, "it is read-only")
    return status


def _copy_ownership(temporary: Path, status: os.stat_result) -> None:
    own = temporary.stat()
    if hasattr(os, "chown") and (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        with contextlib.suppress(PermissionError):
            os.chown(temporary, status.st_uid, status.st_gid)
    # Behind chown, which clears the set-user-id bits.
    temporary.chmod(stat.S_IMODE(status.st_mode))


def commit(item: Staged, *, sync: bool = True) -> None:
    """Put the new bytes in place; raises WriteError.

    Without ``sync`` the caller syncs the directory: until then a loss of power may undo this.
    """
    with as_write_error(item.path):
        item.temporary.replace(item.target)
        if sync:
            sync_directory(item.target.parent)


def sync_directory(directory: Path) -> None:
    """Bring the names in a directory down to the disk. Raises OSError if it cannot be opened."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        # Some network file systems refuse to sync a directory; the rename has happened.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(item: Staged) -> None:
    """Remove the temporary file, if it is still there."""
    with contextlib.suppress(OSError):
        item.temporary.unlink(missing_ok=True)


def require_unchanged(path: Path, old: bytes | None) -> None:
    """Raise StaleFileError unless a file holds these bytes; with None, unless there is none."""
    try:
        now: bytes | None = path.read_bytes()
    except FileNotFoundError:
        now = None
    except OSError as error:
        raise StaleFileError(path, _reason(error)) from error
    if now == old:
        return
    if now is None:
        raise StaleFileError(path, "it vanished since it was read")
    if old is None:
        raise StaleFileError(path, "it exists already")
    raise StaleFileError(path, "it changed since it was read")


def shown(path: Path) -> str:
    """Return a path as text that any stream can print, bytes that are no text escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextlib.contextmanager
def as_write_error(path: Path) -> Iterator[None]:
    """Turn an OSError into a WriteError about ``path`` that says why in plain words."""
    try:
        yield
    except OSError as error:
        raise WriteError(path, _reason(error)) from error


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)
