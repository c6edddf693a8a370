"""Which files there are: Python and Markdown files of a tree, git-ignore rules honoured.

Every path given back is absolute and free of symlinks, so that one file has one path.
"""

# Paths are strings until a file is taken: a Path costs more than all else that is asked of it.
# ruff: noqa: PTH110, PTH112, PTH113, PTH114, PTH118, PTH119, PTH123

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opscaffold.fs.paths import real_path

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_PYTHON = frozenset({".py"})
_WITH_NOTEBOOKS = _PYTHON | {".ipynb"}
_DOCUMENTS = frozenset({".md", ".markdown"})
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")

# Never source of the project, tracked or not.
_ALWAYS_SKIPPED = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        ".tox",
        ".nox",
        ".eggs",
        "node_modules",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        "site-packages",
    }
)
# Build output, unless git tracks it: a package may well be called `build`.
_SKIPPED = _ALWAYS_SKIPPED | {"build", "dist", "venv", "_build"}


def read_bytes(path: Path) -> bytes | None:
    """Return what a file holds; None where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return None


def find_root(paths: Sequence[Path]) -> Path:
    """Return the project that holds the paths.

    It is git's top level, else the nearest directory with a pyproject.toml, setup.py or
    setup.cfg, else the directory the paths have in common (the current one for no paths).
    """
    start = _common_directory(paths)
    answer = _git(os.fspath(start), "rev-parse", "--show-toplevel")
    if answer is not None and answer.strip():
        return real_path(Path(os.fsdecode(answer).rstrip("\n")))
    for directory in (start, *start.parents):
        if any((directory / name).is_file() for name in _PROJECT_FILES):
            return directory
    return start


def find_files(
    paths: Sequence[Path], root: Path, *, exclude: Sequence[str] = (), notebooks: bool = False
) -> list[Path]:
    """Return the Python files under the paths, sorted, each once.

    A file named by itself is always taken, whatever its suffix and whatever ignores it. Of a
    directory: ``*.py`` that git does not ignore, nothing in virtual environments, caches or
    build output, nothing that matches ``exclude`` (git-ignore patterns, relative to ``root``),
    and nothing that a symlink leads to outside ``root``. With ``notebooks``, also ``*.ipynb``.
    """
    return _find(paths, root, _WITH_NOTEBOOKS if notebooks else _PYTHON, exclude)


def without_excluded(paths: Sequence[Path], root: Path, exclude: Sequence[str]) -> list[Path]:
    """Return the paths, less the files among them that match ``exclude``.

    For callers that name each file of a project, as hooks do: ``find_files`` takes named ones.
    """
    if not exclude:
        return list(paths)
    spec, base = _spec(exclude), os.path.realpath(root)

    def matches(path: Path) -> bool:
        real = os.path.realpath(path)
        inside = real.startswith(os.path.join(base, ""))
        return inside and not os.path.isdir(real) and spec.match_file(_relative(real, base))

    return [path for path in paths if not matches(path)]


def find_documents(paths: Sequence[Path], root: Path, *, exclude: Sequence[str] = ()) -> list[Path]:
    """Return the Markdown files under the paths, by the same rules as ``find_files``."""
    return _find(paths, root, _DOCUMENTS, exclude)


def _find(
    paths: Sequence[Path], root: Path, suffixes: frozenset[str], exclude: Sequence[str]
) -> list[Path]:
    root = real_path(root)
    spec = _spec(exclude) if exclude else None
    within = os.path.join(root, "")
    ends = tuple(suffixes)
    found: set[str] = set()
    for path in paths:
        if not path.is_dir():
            found.add(os.path.realpath(path))
            continue
        directories: dict[str, str] = {}
        for candidate in _list(os.path.realpath(path)):
            # What is called `.py` and nothing else has no suffix.
            if not candidate.endswith(ends) or os.path.basename(candidate) in suffixes:
                continue
            real = _real_file(candidate, directories)
            if real is None or (real != candidate and not real.startswith(within)):
                continue
            if spec is not None and spec.match_file(_relative(real, os.fspath(root))):
                continue
            found.add(real)
    return sorted(map(Path, found), key=parts_of)


def _spec(lines: Iterable[str]) -> GitIgnoreSpec:
    # Loaded where there is a pattern at all: that takes as long as to read hundreds of files.
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def parts_of(path: Path) -> tuple[str, ...]:
    """Return the key that sorts paths as paths compare, looked up once for each."""
    return path.parts


def _real_file(path: str, directories: dict[str, str]) -> str | None:
    """Return the real path of a regular file; ``directories`` holds those of directories."""
    directory, name = os.path.split(path)
    real = directories.get(directory)
    if real is None:
        real = directories[directory] = os.path.realpath(directory)
    path = os.path.join(real, name)
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISLNK(mode):
        path = os.path.realpath(path)
        return path if os.path.isfile(path) else None
    return path if stat.S_ISREG(mode) else None


def _list(directory: str) -> Iterator[str]:
    """Yield the files of a directory that git does not ignore."""
    listing = _git(directory, "ls-files", "-t", "-c", "-o", "--exclude-standard", "-z")
    if listing is None or _is_ignored(directory):
        # Without git; or named on purpose though ignored: git would list nothing of it.
        yield from _walk(directory, [])
        return
    for entry in listing.split(b"\0"):
        # A tag and a space stand before the path; of what git does not track, it is "?".
        skipped = _SKIPPED if entry.startswith(b"?") else _ALWAYS_SKIPPED
        relative = os.fsdecode(entry[2:])
        if relative and skipped.isdisjoint(relative.split("/")[:-1]):
            yield from _files_of(os.path.join(directory, relative))


def _is_ignored(directory: str) -> bool:
    # The top of a working tree cannot be.
    if os.path.exists(os.path.join(directory, ".git")):
        return False
    return _git(directory, "check-ignore", "-q", ".") is not None


def _files_of(entry: str) -> Iterator[str]:
    """Yield the entry of a git listing; of a submodule or a nested repository, its files."""
    if not os.path.isdir(entry):
        yield entry
    elif not os.path.islink(entry) and os.path.basename(entry.rstrip("/")) not in _SKIPPED:
        yield from _list(entry.rstrip("/"))


def _walk(directory: str, rules: list[tuple[str, GitIgnoreSpec]]) -> Iterator[str]:
    try:
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name == ".gitignore" and entry.is_file() for entry in entries):
        lines = _lines(os.path.join(directory, ".gitignore"))
        rules = [*rules, (directory, _spec(lines))]
    for entry in entries:
        if _is_directory(entry):
            if (
                entry.is_symlink()
                or entry.name in _SKIPPED
                or os.path.isfile(os.path.join(entry.path, "pyvenv.cfg"))
                or _ignored(entry.path, rules, "/")
            ):
                continue
            yield from _walk(entry.path, rules)
        elif not _ignored(entry.path, rules, ""):
            yield entry.path


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _lines(path: str) -> list[str]:
    return (read_bytes(Path(path)) or b"").decode("utf-8", "replace").splitlines()


def _ignored(path: str, rules: list[tuple[str, GitIgnoreSpec]], end: str) -> bool:
    # The deepest file that says anything decides, as in git.
    for base, spec in reversed(rules):
        verdict = spec.check_file(_relative(path, base) + end).include
        if verdict is not None:
            return verdict
    return False


def _relative(path: str, base: str) -> str:
    inside = os.path.join(base, "")
    relative = path.removeprefix(inside)
    return relative.replace(os.sep, "/")


def _common_directory(paths: Sequence[Path]) -> Path:
    if not paths:
        return Path.cwd()
    found = [real_path(path) for path in paths]
    parents = [str(path if path.is_dir() else path.parent) for path in found]
    try:
        start = Path(os.path.commonpath(parents))
    except ValueError:
        start = Path(parents[0])
    while not start.is_dir() and start != start.parent:
        start = start.parent
    return start


def _has_repository(directory: str) -> bool:
    """Say whether git may find a repository: to start it, to hear of none, takes a while."""
    current = os.path.realpath(directory)
    while not os.path.lexists(os.path.join(current, ".git")):
        above = os.path.dirname(current)  # noqa: PTH120
        if above == current:
            return False
        current = above
    return True


def _git(directory: str, *arguments: str) -> bytes | None:
    """Run git; None where there is no git, no repository, or git refuses."""
    if not _has_repository(directory):
        return None
    # Set while a hook runs, and then about the repository of the hook, not the one asked for.
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}
    }
    try:
        done = subprocess.run(
            # A repository's own configuration could name a program to run as its file monitor.
            ["git", "-C", directory, "-c", "core.fsmonitor=false", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=120,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
