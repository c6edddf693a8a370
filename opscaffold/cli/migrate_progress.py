"""How far a long migration is: a bar on a terminal, plain lines elsewhere, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID
    from typing_extensions import Self

# A run that is over sooner says nothing.
FIRST = 2.0
# Between two plain lines.
EVERY = 5.0


class Progress:
    """Shows how many repairs are made, of how many that are known of.

    A context manager; what it shows on a terminal is gone at the end. With ``quiet`` it shows
    nothing.
    """

    def __init__(
        self,
        *,
        quiet: bool,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._clock = clock
        self._next = clock() + FIRST
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        """Start; a bar moves from here on, since reading a large tree takes its time."""
        if not self._quiet and self._stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(file=self._stream),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("reading", total=None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was."""
        del kind, error, trace
        if self._bar is not None:
            self._bar.stop()

    def planned(self, done: int, total: int) -> None:
        """Be told how many repairs are planned, of how many so far."""
        self._show(f"planned {done} of {total} repairs", done, total)

    def written(self, done: int, total: int) -> None:
        """Be told how many repairs are written."""
        self._show(f"written {done} of {total} repairs", done, total)

    def _show(self, text: str, done: int, total: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text, completed=done, total=total or None)
            return
        now = self._clock()
        if not self._quiet and now >= self._next:
            self._next = now + EVERY
            self._stream.write(f"{text}\n")
            self._stream.flush()
