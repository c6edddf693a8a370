"""A small process beside the worker, which ends it when whoever started it is gone.

A thread could not: user code may hold the interpreter for ever.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal

DONE = b"."
"""Written to the lifeline by one that has ended the worker itself."""


def start(lifeline: int, events: int, private: str | None) -> None:
    """Watch ``lifeline`` from a process of its own; at its end, kill this process group.

    Then the directory ``private`` is removed. Where ``DONE`` comes first, nothing is done. To be
    called while this process has one thread; ``events`` is closed on the other side.
    """
    group = os.getpgrp()
    if os.fork():
        return
    try:
        # A group of its own, which outlives the other.
        os.setpgid(0, 0)
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sign, signal.SIG_IGN)
        os.close(events)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        if os.read(lifeline, 1) != DONE:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
            if private is not None:
                shutil.rmtree(private, ignore_errors=True)
    finally:
        os._exit(0)
