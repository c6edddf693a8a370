"""Requests to stop, kept until stopping does no harm."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

_STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


@dataclass(slots=True)
class Pending:
    """The first request to stop that came, as a signal number; 0 while there is none."""

    signal: int = 0


@contextlib.contextmanager
def deferred_signals() -> Iterator[Pending]:
    """Hold Ctrl-C and polite kills back; at the end, what came is sent again.

    It then does what it would have done: Ctrl-C raises KeyboardInterrupt from here, a kill ends
    the process. Where the body raises, that goes first. Signals that were ignored stay so.
    Outside the main thread, which alone gets signals, nothing is changed.
    """
    pending = Pending()
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        pending.signal = pending.signal or number

    former: dict[signal.Signals, Any] = {}
    try:
        for name in _STOPPING:
            number = getattr(signal, name, None)
            # None: set by something other than Python, which could not be put back.
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                former[number] = signal.signal(number, note)
        yield pending
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if pending.signal:
        signal.raise_signal(pending.signal)
