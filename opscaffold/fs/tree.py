"""Files of a tree that somebody else may have arranged: read and made without leaving it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opscaffold.fs.atomic import as_write_error


@dataclass(frozen=True, slots=True)
class Unusable:
    """What stands at a path and is no file that can be read. ``reason`` completes "it ..."."""

    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file: what it holds, and whether it may be executed."""

    data: bytes
    executable: bool


def read_below(root: Path, path: PurePosixPath) -> Found | Unusable | None:
    """Read the file at ``path`` below ``root``; None where there is none.

    No symbolic link below the root is followed, wherever it leads.
    """
    place = root
    for number, part in enumerate(path.parts, 1):
        place = place / part
        try:
            mode = place.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Unusable(f"cannot be read: {_said(error)}")
        last = number == len(path.parts)
        which = "is" if last else f"lies in {PurePosixPath(*path.parts[:number])}, which is"
        if stat.S_ISLNK(mode):
            return Unusable(f"{which} a symbolic link")
        if not last and not stat.S_ISDIR(mode):
            return Unusable(f"{which} no directory")
        if last and not stat.S_ISREG(mode):
            return Unusable(f"{which} {'a directory' if stat.S_ISDIR(mode) else 'no regular file'}")
    try:
        return Found(place.read_bytes(), bool(place.stat().st_mode & stat.S_IXUSR))
    except OSError as error:
        return Unusable(f"cannot be read: {_said(error)}")


def make_parents(root: Path, files: Iterable[Path]) -> list[Path]:
    """Make the directories that new files need, and return those that were not there, in order.

    What would lie outside of ``root``, because a link leads there, is not made. Raises WriteError.
    """
    made: list[Path] = []
    for path in files:
        missing = [each for each in (path.parent, *path.parent.parents) if not each.exists()]
        for directory in reversed(missing):
            if Path(os.path.realpath(directory)).is_relative_to(os.path.realpath(root)):
                with as_write_error(directory):
                    directory.mkdir()
                made.append(directory)
    return made


def _said(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
