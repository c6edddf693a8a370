"""Where a run keeps what the next one must know, should it be killed.

In a git repository that is a directory of ours inside git's own one, which no status shows and no
clean removes; else ``.opscaffold.run`` in the root (``.opscaffold`` is the record of a generated
package, which is kept). It exists only while something is being written, and after a run that was
killed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from opscaffold.errors import UserError
from opscaffold.fs.atomic import as_write_error, shown

_IN_GIT = "opscaffold"
_IN_ROOT = ".opscaffold.run"
_IGNORE = ".gitignore"
_POINTER = b"gitdir: "


@dataclass(frozen=True, slots=True)
class State:
    """The directory, and the one that the paths in it start from."""

    directory: Path
    base: Path

    @property
    def lock(self) -> Path:
        """The file that a run at work holds locked."""
        return self.directory / "lock"

    @property
    def journal(self) -> Path:
        """What is being written: complete if it is there at all."""
        return self.directory / "journal"

    @property
    def unfinished(self) -> Path:
        """A journal that is itself still being written."""
        return self.directory / "journal.tmp"

    def exists(self) -> bool:
        """Tell whether a run is at work here or was killed here.

        Raises UserError for a directory that another user made, or a link: following what it
        holds could change files in that user's interest.
        """
        try:
            status = self.directory.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISDIR(status.st_mode) or not _trusted(self.directory, self.base):
            raise UserError(
                f"{shown(self.directory)} is not a directory that opscaffold made for you: "
                "look at it, and delete it if you know nothing of it"
            )
        return True

    def create(self) -> None:
        """Make the directory if it is not there. Raises WriteError or UserError."""
        if not self.exists():
            with as_write_error(self.directory), contextlib.suppress(FileExistsError):
                # It holds source, and source may be private.
                self.directory.mkdir(mode=0o700)

    def hide(self) -> None:
        """Keep the directory out of git's sight, should the root become part of a repository."""
        if self.directory.name == _IN_ROOT:
            # A link of that name could lead to any file, and the tree may have come with one.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            with as_write_error(self.directory / _IGNORE):
                descriptor = os.open(self.directory / _IGNORE, flags, 0o600)
                try:
                    os.write(descriptor, b"*\n")
                finally:
                    os.close(descriptor)

    def clear(self) -> None:
        """Remove what is ours, unless a journal is left for the next run; the lock stays."""
        with contextlib.suppress(OSError):
            self.unfinished.unlink(missing_ok=True)
        if not self.journal.exists():
            with contextlib.suppress(OSError):
                (self.directory / _IGNORE).unlink(missing_ok=True)


def find_state(root: Path) -> State:
    """Say where the state of a project belongs; nothing is made.

    The way there is read from the file system alone, so that a run finds it whether or not git
    is installed or willing: in a linked worktree and a submodule, ``.git`` is a file that names
    the directory. A ``.git`` of another user is passed by, as git itself does.
    """
    root = Path(os.path.realpath(root))
    for base in (root, *root.parents):
        git = base / ".git"
        if not os.path.lexists(git):
            continue
        directory = _git_directory(git)
        if directory is not None and _trusted(git, root) and _trusted(directory, root):
            return State(directory / _IN_GIT, base)
        break
    return State(root / _IN_ROOT, root)


def _git_directory(git: Path) -> Path | None:
    try:
        if git.is_dir():
            found = git
        else:
            text = git.read_bytes()
            if not text.startswith(_POINTER):
                return None
            name = os.fsdecode(text.removeprefix(_POINTER).rstrip(b"\r\n"))
            found = git.parent / name
        found = Path(os.path.realpath(found))
        return found if (found / "HEAD").is_file() else None
    except (OSError, ValueError):
        return None


def _trusted(path: Path, root: Path) -> bool:
    """Tell whether the user, or the owner of the project, made ``path``."""
    if not hasattr(os, "geteuid"):
        return True
    try:
        return path.lstat().st_uid in (os.geteuid(), root.stat().st_uid)
    except OSError:
        return False
