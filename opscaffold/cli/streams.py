"""The standard streams as the caller left them: closed, full, or without a reader."""

from __future__ import annotations

import errno
import io
import os
import sys

from opscaffold.errors import UserError

_CANNOT_WRITE = frozenset(
    {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, errno.ENXIO, getattr(errno, "EDQUOT", -1)}
)


class _ClosedInput(io.StringIO):
    """Stands for a stdin that is closed: it has ended, and is no terminal."""


def reserve() -> None:
    """Let a closed stream be one all the same: Python has None for it.

    Stdin has then ended, what is written to stdout fails as it does on a full disk, and stderr is
    dropped. Files that are opened later do not take the place of a closed stream.
    A stream of another encoding than UTF-8 shows escapes of what it does not have.
    """
    for number in range(3):
        if not _is_open(number):
            # The lowest number that is free: this one. It cannot be written to.
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdin is None:
        sys.stdin = _ClosedInput()
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Of what a terminal cannot show, show the escape, as Python itself does on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")


def read_stdin() -> bytes:
    """Return all of stdin. Raises UserError where it is closed or cannot be read."""
    if isinstance(sys.stdin, _ClosedInput):
        raise UserError("stdin is closed, and - reads it")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise UserError(f"stdin cannot be read: {error.strerror or error}") from None


def read_word(prompt: str) -> str:
    """Ask on the terminal, and return what was answered, in lower case. Raises EOFError."""
    while True:
        sys.stdout.write(prompt)
        sys.stdout.flush()
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError:
            continue
        if not line:
            raise EOFError
        return line.strip().lower()


def is_lost_output(error: OSError) -> bool:
    """Tell whether an error is that stdout or stderr takes nothing more."""
    # An error about a file names it.
    return error.filename is None and error.errno in _CANNOT_WRITE


def drop_output() -> None:
    """Let what is still to be written to stdout go nowhere.

    The interpreter flushes it once more at exit, and would complain.
    """
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
