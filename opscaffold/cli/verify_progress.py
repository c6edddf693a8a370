"""How far a run of ops is: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID
    from typing_extensions import Self


class Progress:
    """Shows which op is in which check. A context manager; what it shows is gone at the end."""

    def __init__(self, *, quiet: bool, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown = not quiet and self._stream.isatty()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        """Start: importing torch takes its time too."""
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[count]}", markup=False),
                TimeElapsedColumn(),
                console=Console(file=self._stream),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("starting", total=None, count="")
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

    def show(self, what: str, done: int, total: int) -> None:
        """Be told what is being done, and how many ops are done of how many."""
        if self._bar is not None and self._task is not None:
            count = f"{done} of {total} ops" if total else ""
            self._bar.update(
                self._task, description=what, completed=done, total=total or None, count=count
            )
