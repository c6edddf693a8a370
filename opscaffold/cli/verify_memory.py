"""How much memory a process and all that it started hold, and how sizes are written."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from opscaffold.errors import UserError

GIB = 1024**3
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": GIB, "T": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)
_PROC = Path("/proc")
# Which processes there are is looked up less often than what they hold.
_LOOK = 1.0


def parse_size(text: str) -> int:
    """Return the bytes that ``8G``, ``512 MiB`` or ``1000000`` stand for. Raises UserError."""
    match = _SIZE.match(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size <= 0:
        raise UserError(f"--memory: {text!r} is no size; write one like 8G or 512M")
    return size


def shown_size(size: int) -> str:
    """Return a size for people."""
    if size >= GIB:
        return f"{size / GIB:.3g} GiB"
    return f"{size / 1024**2:.3g} MiB"


def default_memory() -> int:
    """Return 8 GiB, or three quarters of what the machine has where that is less."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 8 * GIB
    return min(8 * GIB, whole * 3 // 4)


class Memory:
    """The memory of one group of processes, named by its leader."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._members: list[int] = [leader]
        self._next = 0.0

    def held(self) -> int:
        """Return the bytes that they hold for themselves now; 0 where that cannot be told."""
        now = time.monotonic()
        if not (_PROC / "self" / "statm").exists():
            if now < self._next:
                return 0
            self._next = now + _LOOK
            return self._asked()
        if now >= self._next:
            self._next = now + _LOOK
            self._members = self._session()
        return sum(_own_bytes(pid) for pid in self._members)

    def _session(self) -> list[int]:
        found = [self._leader]
        for entry in _PROC.iterdir():
            if entry.name.isdigit() and int(entry.name) != self._leader:
                try:
                    # The name of the program, in brackets, may hold anything.
                    fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                except OSError:
                    continue
                if len(fields) > 3 and int(fields[3]) == self._leader:
                    found.append(int(entry.name))
        return found

    def _asked(self) -> int:
        done = subprocess.run(
            ["ps", "-A", "-o", "pgid=,rss="], capture_output=True, text=True, check=False
        )
        rows = [line.split() for line in done.stdout.splitlines()]
        return sum(int(r[1]) * 1024 for r in rows if len(r) == 2 and r[0] == str(self._leader))


def _own_bytes(pid: int) -> int:
    """What is resident of a process and not a file's: code is shared by all."""
    try:
        fields = (_PROC / str(pid) / "statm").read_bytes().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
