"""Asking about each repair before it is made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opscaffold.cli.streams import read_word
from opscaffold.errors import UserError

if TYPE_CHECKING:
    from opscaffold.migrate.steps import Step

_HELP = """\
y - make this repair
n - leave this op as it is, wholly
q - leave this op and all that follow
a - make this repair and all that follow
d - show the diff again
"""


def require_terminal() -> None:
    """Raise UserError where there is nobody to ask."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(
            "--interactive asks on a terminal, and this is none: choose ops with --only instead"
        )


class Asker:
    """Shows each repair and reads the answer, until one answer holds for all that follow."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rest: bool | None = None

    def __call__(self, step: Step) -> bool:
        """Tell whether a repair is wanted. Raises EOFError where the input ends."""
        if self._rest is not None:
            return self._rest
        self._show(step)
        while True:
            match self._read():
                case "y" | "yes":
                    return True
                case "n" | "no":
                    return False
                case "a" | "all":
                    self._rest = True
                    return True
                case "q" | "quit":
                    self._rest = False
                    return False
                case "d" | "diff":
                    self._show_diff(step)
                case _:
                    sys.stdout.write(_HELP)

    def _show(self, step: Step) -> None:
        from rich.console import Console
        from rich.text import Text

        sites = f"{step.plan.calls} call site{'' if step.plan.calls == 1 else 's'}"
        files = f"{len(step.changes)} file{'' if len(step.changes) == 1 else 's'}"
        self._show_diff(step)
        console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        console.print(Text(step.plan.op, style="bold"), end="")
        console.print(Text(f" would be {step.plan.does} ({sites}, {files})"))

    def _show_diff(self, step: Step) -> None:
        from opscaffold.report.diff import unified_diff, write_diff

        write_diff(unified_diff(dict(step.changes), self._root))

    def _read(self) -> str:
        return read_word("Make this repair? [y,n,q,a,d,?] > ")
