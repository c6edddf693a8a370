"""Files written wholly or not at all, one or several together."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
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
        super().__init__(f"cannot write {path}: {reason}")
        self.path = path
        self.reason = reason


class StaleFileError(WriteError):
    """A file that changed or vanished since it was read: nothing was written."""


@dataclass(slots=True)
class _Staged:
    path: Path
    target: Path
    temporary: Path
    old: bytes | None


def write_atomically(path: Path, data: bytes) -> None:
    """Replace or create a file so that readers see the old bytes or the new, never a mix.

    Permission bits and, where allowed, the owner of an existing file are kept. A symbolic link
    stays one: the file it leads to is replaced. A hard link becomes a file of its own.
    Raises WriteError, with no trace left behind: where the directory cannot be written, the
    file is marked read-only or is not a regular file, or the disk is full.
    """
    staged = _stage(path, data, old=None)
    try:
        _commit(staged)
    finally:
        _discard(staged)


def write_all(changes: Mapping[Path, tuple[bytes | None, bytes]]) -> None:
    """Write several files, all or none. Each path maps to its (old, new) bytes.

    ``None`` as old bytes stands for a file that does not exist yet. Every new content is first
    written beside its file; then every file is compared with its old bytes; only then is the
    first one replaced. Should replacing one fail, those already replaced are put back.
    Raises StaleFileError if a file is not as it was read, WriteError for everything else; its
    text names the files that could not be put back, should there be any.
    """
    staged: list[_Staged] = []
    try:
        for path, (old, new) in changes.items():
            staged.append(_stage(path, new, old))
        _refuse_shared_targets(staged)
        for item in staged:
            _require_unchanged(item)
        _commit_all(staged)
    finally:
        for item in staged:
            _discard(item)


def _commit_all(staged: list[_Staged]) -> None:
    done: list[_Staged] = []
    try:
        for item in staged:
            done.append(item)
            _commit(item)
    except BaseException as error:
        # A signal may fall between the replacing and our noticing: look rather than assume.
        lost = [item.path for item in done if not _restored(item)]
        if lost:
            names = ", ".join(str(path) for path in lost)
            reason = f"{error}; already changed and not put back: {names}"
            raise WriteError(done[-1].path, reason) from error
        raise


def _restored(item: _Staged) -> bool:
    try:
        if item.temporary.exists():
            return True
        if item.old is None:
            item.target.unlink(missing_ok=True)
        else:
            write_atomically(item.target, item.old)
    except (OSError, WriteError):
        return False
    return True


def _stage(path: Path, data: bytes, old: bytes | None) -> _Staged:
    with _as_write_error(path):
        target = Path(os.path.realpath(path))
        status = _existing(path, target)
        temporary = target.with_name(f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        # 0o666 lets the umask decide on a new file, as for any file the user makes.
        descriptor = os.open(temporary, flags, 0o666)
        try:
            with open(descriptor, "wb") as stream:  # noqa: PTH123 -- opens a descriptor
                if status is not None:
                    _copy_ownership(temporary, status)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return _Staged(path, target, temporary, old)


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


def _commit(item: _Staged) -> None:
    with _as_write_error(item.path):
        item.temporary.replace(item.target)
        _sync_directory(item.target.parent)


def _sync_directory(directory: Path) -> None:
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        # Some network file systems refuse to sync a directory; the rename has happened.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(item: _Staged) -> None:
    with contextlib.suppress(OSError):
        item.temporary.unlink(missing_ok=True)


def _refuse_shared_targets(staged: list[_Staged]) -> None:
    seen: dict[Path, Path] = {}
    for item in staged:
        other = seen.setdefault(item.target, item.path)
        if other != item.path:
            raise WriteError(item.path, f"it is the same file as {other}")


def _require_unchanged(item: _Staged) -> None:
    try:
        now: bytes | None = item.path.read_bytes()
    except FileNotFoundError:
        now = None
    except OSError as error:
        raise StaleFileError(item.path, _reason(error)) from error
    if now == item.old:
        return
    if now is None:
        raise StaleFileError(item.path, "it vanished since it was read; nothing was written")
    if item.old is None:
        raise StaleFileError(item.path, "it exists already; nothing was written")
    raise StaleFileError(item.path, "it changed since it was read; nothing was written")


@contextlib.contextmanager
def _as_write_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(path, _reason(error)) from error


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)
