from __future__ import annotations

import io
import os
import pty

from opscaffold.cli.verify_progress import Progress


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with Progress(quiet=False, stream=stream) as progress:
        progress.show("demo::f: aliasing", 1, 3)
    assert stream.getvalue() == ""


def shown(*, quiet: bool) -> str:
    leader, follower = pty.openpty()
    try:
        with os.fdopen(follower, "w") as stream:
            with Progress(quiet=quiet, stream=stream) as progress:
                progress.show("demo::f: aliasing", 1, 3)
            stream.write("over")
            stream.flush()
            found = b""
            while b"over" not in found:
                found += os.read(leader, 100_000)
    finally:
        os.close(leader)
    return found.decode()


def test_a_terminal_shows_op_check_and_count() -> None:
    text = shown(quiet=False)
    assert "demo::f: aliasing" in text
    assert "1 of 3 ops" in text


def test_quiet_is_quiet_on_a_terminal_too() -> None:
    assert shown(quiet=True) == "over"
