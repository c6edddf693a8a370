"""A copy of this process that works beside it: forked, asked over pipes, and gone with its owner.

Nothing but plain data goes over a line (what ``marshal`` takes), so that nothing that is received
can run anything. Where processes cannot be forked safely there is no twin: on Windows, on macOS,
whose libraries may not survive it, and in a process with threads.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import struct
import sys
import warnings
from collections.abc import Callable
from typing import Any

_LENGTH = struct.Struct("Q")
_MOST_AT_ONCE = 1 << 20
_LEAST_CORES = 2


class Line:
    """One end of a line between two processes."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._poll = select.poll()
        self._poll.register(incoming, select.POLLIN)

    def send(self, value: Any) -> None:
        """Send plain data. Raises OSError where nobody is there to take it."""
        data = marshal.dumps(value)
        left = memoryview(_LENGTH.pack(len(data)) + data)
        while left:
            left = left[os.write(self._outgoing, left[:_MOST_AT_ONCE]) :]

    def receive(self) -> Any:
        """Wait for what the other end sends. Raises EOFError where it is gone."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return marshal.loads(self._read(length))  # noqa: S302 -- from a copy of this process

    def waiting(self) -> bool:
        """Say whether there is something to receive, or the other end is gone."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Hang up."""
        os.close(self._incoming)
        os.close(self._outgoing)

    def _read(self, length: int) -> bytes:
        parts = []
        while length:
            part = os.read(self._incoming, min(length, _MOST_AT_ONCE))
            if not part:
                raise EOFError
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


class Twin:
    """A forked process, and the line to it. ``close`` ends it; so does the end of its owner."""

    def __init__(self, process: int, line: Line) -> None:
        self._process = process
        self.line = line

    def close(self) -> None:
        """End the process, whatever it does."""
        self.line.close()
        with contextlib.suppress(OSError):
            os.kill(self._process, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(self._process, 0)


def cores() -> int:
    """Return how many processors this process may use: one where all are busy with other work.

    There a twin only takes turns with its owner, and both together do more than one alone.
    """
    with contextlib.suppress(AttributeError, OSError):
        if os.getloadavg()[0] >= (os.cpu_count() or 1):
            return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_twin(serve: Callable[[Line], None]) -> Twin | None:
    """Fork a process that runs ``serve`` and ends; None where that is not safe or no gain."""
    if not _can_fork() or cores() < _LEAST_CORES:
        return None
    try:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        with warnings.catch_warnings():
            # Later releases warn of threads that Python did not start: the twin needs none.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
    except OSError:
        return None
    if process:
        os.close(theirs_in)
        os.close(theirs_out)
        return Twin(process, Line(ours_in, ours_out))
    try:
        # Ctrl-C reaches all processes of a terminal: the owner answers it, and ends this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.close(ours_in)
        os.close(ours_out)
        serve(Line(theirs_in, theirs_out))
    finally:
        # Neither what is buffered nor what is to be done at the end belongs to a copy.
        os._exit(0)


def _can_fork() -> bool:
    if sys.platform in ("win32", "darwin") or not hasattr(os, "fork"):
        return False
    threading = sys.modules.get("threading")
    return threading is None or threading.active_count() == 1
