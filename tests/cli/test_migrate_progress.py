from __future__ import annotations

import io
import os
import pty
import sys

import pytest

from opscaffold.cli.migrate_progress import EVERY, FIRST, Progress


class Clock:
    """A clock that goes as it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


END = b"\x1b[?25h"
"""What shows the cursor again."""


def shown_until(leader: int, end: bytes) -> str:
    """What a terminal was sent: it hands on what there is, maybe in parts."""
    found = b""
    while end not in found:
        found += os.read(leader, 100_000)
    return found.decode()


def test_short_runs_say_nothing() -> None:
    stream = io.StringIO()
    with Progress(quiet=False, stream=stream, clock=Clock()) as progress:
        progress.planned(0, 3)
        progress.planned(3, 3)
    assert stream.getvalue() == ""


def test_long_runs_say_a_line_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(quiet=False, stream=stream, clock=clock) as progress:
        clock.now += FIRST
        progress.planned(1, 9)
        progress.planned(2, 9)
        clock.now += EVERY
        progress.written(3, 9)
    assert stream.getvalue() == "planned 1 of 9 repairs\nwritten 3 of 9 repairs\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_says_nothing(terminal: bool) -> None:
    leader, follower = pty.openpty()
    clock = Clock()
    with os.fdopen(follower, "w") as tty:
        stream = tty if terminal else io.StringIO()
        with Progress(quiet=True, stream=stream, clock=clock) as progress:
            clock.now += 60
            progress.planned(1, 9)
        stream.write("end\n")
        stream.flush()
        if isinstance(stream, io.StringIO):
            assert stream.getvalue() == "end\n"
        else:
            assert shown_until(leader, b"end\r\n") == "end\r\n"
    os.close(leader)


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as tty:
        with Progress(quiet=False, stream=tty) as progress:
            progress.planned(4, 9)
        tty.write("end\n")
        tty.flush()
        shown = shown_until(leader, b"end\r\n")
    os.close(leader)
    assert "planned 4 of 9 repairs" in shown
    # The line is erased, and the cursor shown again.
    assert "\x1b[2K" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_an_error_leaves_the_terminal_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as tty:
        with pytest.raises(KeyboardInterrupt), Progress(quiet=False, stream=tty):
            raise KeyboardInterrupt
        tty.flush()
        shown = shown_until(leader, END)
    os.close(leader)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_rich_is_loaded_for_a_bar_only() -> None:
    before = set(sys.modules)
    with Progress(quiet=False, stream=io.StringIO()) as progress:
        progress.planned(1, 2)
    assert not {name for name in set(sys.modules) - before if name.startswith("rich")}
