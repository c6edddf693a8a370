"""The process that runs user code, seen from outside: started, listened to, and ended in time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from opscaffold.cli.verify_memory import Memory, shown_size
from opscaffold.errors import UserError

MODULE = "opscaffold.verify.worker"
MIN_IMPORT = 60.0
"""Seconds that importing may take, however little time an op has."""
LAST_LINES = 8

_EVERY = 0.1
_KEPT = 64 * 1024
_DONE = b"."
_FATAL = "Fatal Python error: "

Event = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """What one op may take: seconds, and bytes of memory that the whole process holds."""

    seconds: float
    memory: int


@dataclass
class Ended:
    """How a process came to its end."""

    reason: str = ""
    """Why it did not finish, in words; empty where it did."""
    output: list[str] = field(default_factory=list)
    """The last lines that it wrote."""


@contextlib.contextmanager
def private_directory() -> Iterator[Path]:
    """A directory for caches and files of the run, which is gone at the end, also at a signal."""
    with _signals_raise():
        made = Path(tempfile.mkdtemp(prefix="opscaffold-verify-"))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


def run_worker(
    request: Mapping[str, Any],
    limits: Limits,
    private: Path,
    hear: Callable[[Event], None],
    *,
    command: Sequence[str] = (sys.executable, "-m", MODULE),
) -> Ended:
    """Start a worker on a request, and hand on each event as it comes, until it ends.

    The worker and all that it starts are killed when time or memory is over, and whenever this
    function is left. Time counts anew from each event ``op``; before the first, that of the
    import counts. Raises UserError where no process can be started.
    """
    if os.name != "posix":
        raise UserError("verify runs ops in a process group, which this system does not have")
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [*command, str(writing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[writing],
            env=_environment(private),
            start_new_session=True,
        )
    except OSError as error:
        os.close(reading)
        raise UserError(f"{command[0]}: cannot be started: {error.strerror or error}") from None
    finally:
        os.close(writing)
    tail = _Tail(process)
    try:
        with contextlib.suppress(BrokenPipeError):
            _send(process, request, private)
        reason = _listen(process, reading, limits, hear)
        return Ended(reason, tail.lines() if reason else [])
    finally:
        _end(process)
        os.close(reading)
        tail.close()


def _send(process: subprocess.Popen[bytes], request: Mapping[str, Any], private: Path) -> None:
    if process.stdin is not None:
        process.stdin.write(json.dumps({**request, "private": str(private)}).encode() + b"\n")
        process.stdin.flush()


def _listen(
    process: subprocess.Popen[bytes], reading: int, limits: Limits, hear: Callable[[Event], None]
) -> str:
    """Hand on events until there are no more, and say why the process was ended, if it was."""
    memory = Memory(process.pid)
    importing = max(limits.seconds, MIN_IMPORT)
    deadline = time.monotonic() + importing
    seconds = importing
    rest = b""
    done = False
    while True:
        ready, _, _ = select.select([reading], [], [], _EVERY)
        if ready:
            part = os.read(reading, 65536)
            if not part:
                break
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["event"] == "op":
                    seconds = limits.seconds
                    deadline = time.monotonic() + seconds
                done = done or event["event"] in ("done", "error")
                hear(event)
        elif process.poll() is not None:
            # Something that it started holds the other end, and will not speak for it.
            break
        if time.monotonic() > deadline:
            return f"it took longer than {seconds:g} seconds"
        held = memory.held()
        if held > limits.memory:
            return f"it held {shown_size(held)} of memory, more than {shown_size(limits.memory)}"
    if done:
        return ""
    return _last_words(_wait(process))


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    # The events are over, and so is the process, but for what it does at its end.
    try:
        return process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        return None


def _last_words(code: int | None) -> str:
    if code is None:
        return "its process closed what it speaks through"
    if code >= 0:
        return f"its process exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process died of {name}"


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(_DONE)
            process.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def _environment(private: Path) -> dict[str, str]:
    environment = dict(os.environ)
    home = str(Path(__file__).resolve().parents[2])
    known = environment.get("PYTHONPATH")
    environment.update(
        # Caches do not notice that an op's contract changed (FACTS section 9).
        TORCHINDUCTOR_CACHE_DIR=str(private / "inductor"),
        TRITON_CACHE_DIR=str(private / "triton"),
        TMPDIR=str(private),
        PYTHONPATH=f"{known}{os.pathsep}{home}" if known else home,
        PYTHONUNBUFFERED="1",
    )
    # What is compiled is small: starting helpers takes longer than they save.
    environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # Where it is set, torch turns warnings into errors that users elsewhere do not see.
    environment.pop("CI", None)
    return environment


class _Tail:
    """Keeps the end of what a process writes; all the rest is read and dropped."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._stream = process.stdout
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        if self._stream is None:
            return
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self._stream.fileno(), 65536):
                self._parts.append(part)
                self._size += len(part)
                while self._size - len(self._parts[0]) > _KEPT:
                    self._size -= len(self._parts.popleft())

    def lines(self) -> list[str]:
        """The last lines so far."""
        # What is written is read at once, or at the latest when the process is gone.
        self._thread.join(timeout=0.5)
        text = b"".join(list(self._parts)).decode("utf-8", "replace")
        lines = [line for line in text.splitlines() if line.strip()]
        for number, line in enumerate(lines):
            if line.startswith(_FATAL):
                # What led to it stands right behind, innermost call first.
                return lines[max(number - 2, 0) : number + LAST_LINES]
        return lines[-LAST_LINES:]

    def close(self) -> None:
        """Be done with it, once the process is gone."""
        self._thread.join(timeout=2)
        if self._stream is not None and not self._thread.is_alive():
            self._stream.close()


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """While it lasts, what asks this process to end does so by an exception."""

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, leave)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
