"""What git says about a working tree. Everything here is a question: git changes nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from opscaffold.errors import UserError

# A hook's caller sets these for its own repository, which need not be the one asked about.
_REPOSITORY_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")

_NO_REPOSITORY = ("not a git repository", "must be run in a work tree")


class GitError(UserError):
    """Git is there, the tree is a repository, and git still refused to answer."""


def toplevel(path: Path) -> Path | None:
    """Return the root of the working tree that holds ``path`` (a file or directory).

    None without git, outside a repository and in a bare one. Raises GitError where git finds
    a repository but will not read it.
    """
    directory = path if path.is_dir() else path.parent
    output = _git(directory, "rev-parse", "--show-toplevel")
    return None if output is None else Path(os.fsdecode(output.removesuffix(b"\n")))


def dirty_files(root: Path, paths: Sequence[Path] = ()) -> list[Path]:
    """Return what differs from the last commit under ``root``, sorted: staged, changed, untracked.

    ``paths`` (files or directories, at any place in the repository) narrow the question, none
    means the whole working tree. Ignored files count where ``paths`` names the file itself:
    git could not bring them back. Empty without git or repository. Raises GitError.
    """
    top = toplevel(root)
    if top is None:
        return []
    status = ["status", "--porcelain", "-z", "--untracked-files=all"]
    named = [os.fspath(path.absolute()) for path in paths]
    found = _changed(_git(top, *status, "--", *named))
    files = [name for name, path in zip(named, paths, strict=True) if path.is_file()]
    if files:
        found += _changed(_git(top, *status, "--ignored=matching", "--", *files))
    return sorted({top / os.fsdecode(name) for name in found})


def is_dirty(root: Path) -> bool:
    """Tell whether the working tree that holds ``root`` differs from its last commit.

    Untracked files count, ignored ones do not. False without git or repository.
    Raises GitError.
    """
    return bool(dirty_files(root))


def _changed(output: bytes | None) -> list[bytes]:
    entries = iter((output or b"").split(b"\0"))
    names = []
    for entry in entries:
        if not entry:
            continue
        state, name = entry[:2], entry[3:]
        names.append(name)
        if b"R" in state or b"C" in state:
            names.append(next(entries))
    return names


def _git(directory: Path, *arguments: str) -> bytes | None:
    environment = {k: v for k, v in os.environ.items() if k not in _REPOSITORY_VARIABLES}
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    # A repository's own configuration could name a program to run as its file monitor.
    command = ["git", "--literal-pathspecs", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, check=False
        )
    except FileNotFoundError:
        return None
    if done.returncode == 0:
        return done.stdout
    message = done.stderr.decode(errors="replace").strip()
    if any(text in message for text in _NO_REPOSITORY):
        return None
    raise GitError(f"git cannot read the repository at {directory}: {message}")
