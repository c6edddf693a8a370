"""One run at a time: a lock that the system takes back when its holder dies."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from opscaffold.errors import UserError
from opscaffold.fs.atomic import WriteError, as_write_error, shown
from opscaffold.fs.state import State

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Each further try means that another run ended between two of our calls.
_TRIES = 100


class LockedError(UserError):
    """Another run is writing to the same project."""


@contextlib.contextmanager
def locked(state: State) -> Iterator[None]:
    """Hold the project's lock; nothing of it is left behind, and a dead holder's is taken over.

    Raises LockedError where another process holds it, WriteError where it cannot be made.
    """
    descriptor = _acquire(state)
    try:
        state.hide()
        # For the message of a run that is refused; on a full disk, that one must do without.
        with contextlib.suppress(OSError):
            os.truncate(descriptor, 0)
            os.write(descriptor, b"%d\n" % os.getpid())
        yield
    finally:
        state.clear()
        _release(state, descriptor)


def _acquire(state: State) -> int:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    for _ in range(_TRIES):
        state.create()
        try:
            with as_write_error(state.lock):
                descriptor = os.open(state.lock, flags, 0o600)
                if _take(descriptor, state):
                    return descriptor
        except WriteError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                continue
            _remove_directory(state)
            raise
    raise LockedError(f"other runs of opscaffold keep on writing to {shown(state.base)}")


def _take(descriptor: int, state: State) -> bool:
    try:
        _lock(descriptor, state)
        # The former holder may have removed the file between our opening and locking it.
        if _is(state, descriptor):
            return True
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return False


def _lock(descriptor: int, state: State) -> None:
    try:
        if sys.platform == "win32":
            # Behind the process id, which others may then still read.
            os.lseek(descriptor, 1 << 20, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        process = os.read(descriptor, 32).strip().decode("ascii", "replace")
        who = f" (process {process})" if process.isdigit() else ""
        raise LockedError(
            f"another run of opscaffold{who} is writing to {shown(state.base)}: "
            "run this again when it has finished"
        ) from None


def _is(state: State, descriptor: int) -> bool:
    try:
        return os.path.samestat(state.lock.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _release(state: State, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        state.lock.unlink()
    os.close(descriptor)
    if sys.platform == "win32":
        # An open file could not be removed.
        with contextlib.suppress(OSError):
            state.lock.unlink()
    _remove_directory(state)


def _remove_directory(state: State) -> None:
    # It is not empty where a journal stays, or where another run has just begun.
    with contextlib.suppress(OSError):
        state.directory.rmdir()
