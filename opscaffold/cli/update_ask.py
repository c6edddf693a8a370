"""Asking about each conflict of an update before anything is written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opscaffold.cli.streams import read_word

if TYPE_CHECKING:
    from opscaffold.scaffold.merge import Resolution
    from opscaffold.scaffold.update_plan import Conflict

_HELP = """\
k - keep yours, in the places in question
n - take the new, in the places in question
m - set markers there, to be edited
l - leave the whole file as it is; the next update asks again
d - show the places
"""


class Asker:
    """Shows each conflict and reads what is to become of it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self, conflict: Conflict) -> Resolution | None:
        """Return what was chosen, None to leave the file. Raises EOFError where the input ends."""
        from opscaffold.scaffold.merge import Resolution

        sys.stdout.write(f"\n{conflict.path}: {conflict.reason}\n")
        while True:
            match self._read():
                case "k" | "keep":
                    return Resolution.KEEP
                case "n" | "new":
                    return Resolution.NEW
                case "m" | "markers":
                    if conflict.marked is not None:
                        return Resolution.MARKERS
                    sys.stdout.write("There are no lines to mark in it.\n")
                case "" | "l" | "leave":
                    return None
                case "d" | "diff":
                    self._show(conflict)
                case _:
                    sys.stdout.write(_HELP)

    def _show(self, conflict: Conflict) -> None:
        from opscaffold.report.diff import unified_diff, write_diff

        if conflict.marked is None:
            sys.stdout.write("There are no lines to show.\n")
            return
        path = self._root / conflict.path
        write_diff(unified_diff({path: (conflict.mine, conflict.marked)}, self._root))

    def _read(self) -> str:
        return read_word("What is it to be? [k,n,m,l,d,?] (l) > ")
