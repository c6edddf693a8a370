"""Which files there are: Python and Markdown files of a tree, git-ignore rules honoured.

Every path given back is absolute and free of symlinks, so that one file has one path.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pathspec

from opscaffold.fs.paths import real_path

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
_SKIPPED_UNTRACKED = frozenset({"build", "dist", "venv", "_build"})

# Every match of the pattern below holds one of these, and they are found faster.
_TELLTALES = (
    *(b"custom_op", b"triton_op", b"torch.library", b"Library", b"import library"),
    *(b"impl_abstract", b"infer_schema", b"mutates_args", b".define", b".impl"),
    *(b"register_fake", b"register_kernel", b"register_autograd", b"register_vmap"),
    *(b"register_autocast", b"register_torch_dispatch"),
    *(b". library", b" .library", b". define", b". impl"),
)
_REGISTERING = re.compile(
    rb"custom_op|triton_op|torch\s*\.\s*library|\bLibrary\b|import library|impl_abstract"
    rb"|\bregister_(?:fake|kernel|autograd|vmap|autocast|torch_dispatch)\b"
    rb"|infer_schema|mutates_args|\.\s*(?:define|impl)\b"
)


def may_register(data: bytes) -> bool:
    """Say whether a file with these bytes can hold a registration that names torch's API.

    One that registers through a project helper or a renamed import need not hold any of these
    words; look for the names of those with ``mentions``.
    """
    return any(word in data for word in _TELLTALES) and _REGISTERING.search(data) is not None


def read_bytes(path: Path) -> bytes | None:
    """Return what a file holds; None where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def as_bytes(name: str) -> bytes:
    """Return a name as files hold it: that of a file, or what a string literal says, too.

    The name of a file need not be UTF-8, and a literal may hold half a pair of surrogates.
    """
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")


def mentions(names: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern that finds any of the names as a whole word; of no names: none."""
    words = sorted({re.escape(as_bytes(name)) for name in names})
    if not words:
        return re.compile(rb"(?!)")
    return re.compile(rb"(?<!\w)(?:" + b"|".join(words) + rb")(?!\w)")


class Words:
    """A set of names, and whether bytes hold any of them as a whole word."""

    def __init__(self, names: Iterable[str]) -> None:
        # One pattern a name: each starts with a literal, which is what re finds fast.
        self._names = [
            (as_bytes(name), re.compile(re.escape(as_bytes(name)) + rb"(?!\w)"))
            for name in sorted(set(names))
        ]

    def in_(self, data: bytes) -> bool:
        """Say whether any of the names is a word of the data."""
        return any(
            _starts_word(data, match.start())
            for literal, pattern in self._names
            if literal in data
            for match in pattern.finditer(data)
        )


def _starts_word(data: bytes, at: int) -> bool:
    before = data[at - 1 : at] if at else b""
    return not (before.isalnum() or before == b"_")


def find_root(paths: Sequence[Path]) -> Path:
    """Return the project that holds the paths.

    It is git's top level, else the nearest directory with a pyproject.toml, setup.py or
    setup.cfg, else the directory the paths have in common (the current one for no paths).
    """
    start = _common_directory(paths)
    answer = _git(start, "rev-parse", "--show-toplevel")
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


def find_documents(paths: Sequence[Path], root: Path, *, exclude: Sequence[str] = ()) -> list[Path]:
    """Return the Markdown files under the paths, by the same rules as ``find_files``."""
    return _find(paths, root, _DOCUMENTS, exclude)


def _find(
    paths: Sequence[Path], root: Path, suffixes: frozenset[str], exclude: Sequence[str]
) -> list[Path]:
    root = real_path(root)
    spec = pathspec.GitIgnoreSpec.from_lines(exclude)
    found: set[Path] = set()
    for path in paths:
        if not path.is_dir():
            found.add(real_path(path))
            continue
        directory = real_path(path)
        for candidate in _list(directory):
            if candidate.suffix not in suffixes:
                continue
            real = real_path(candidate)
            if real != candidate and not real.is_relative_to(root):
                continue
            if not real.is_file() or (exclude and spec.match_file(_relative(real, root))):
                continue
            found.add(real)
    return sorted(found)


def _list(directory: Path) -> Iterator[Path]:
    """Yield the files of a directory that git does not ignore."""
    tracked = _git(directory, "ls-files", "-c", "-z")
    untracked = _git(directory, "ls-files", "-o", "--exclude-standard", "-z")
    if tracked is None or untracked is None:
        yield from _walk(directory, [])
    elif _git(directory, "check-ignore", "-q", ".") is not None:
        # Named on purpose though ignored: git would list nothing of it.
        yield from _walk(directory, [])
    else:
        for listing, skipped in (
            (tracked, _ALWAYS_SKIPPED),
            (untracked, _ALWAYS_SKIPPED | _SKIPPED_UNTRACKED),
        ):
            for raw in listing.split(b"\0"):
                relative = Path(os.fsdecode(raw))
                if not raw or any(part in skipped for part in relative.parts[:-1]):
                    continue
                yield from _files_of(directory / relative)


def _files_of(entry: Path) -> Iterator[Path]:
    """Yield the entry of a git listing; of a submodule or a nested repository, its files."""
    if not entry.is_dir():
        yield entry
    elif not entry.is_symlink() and entry.name not in _ALWAYS_SKIPPED | _SKIPPED_UNTRACKED:
        yield from _list(entry)


def _walk(directory: Path, rules: list[tuple[Path, pathspec.GitIgnoreSpec]]) -> Iterator[Path]:
    ignore_file = directory / ".gitignore"
    if ignore_file.is_file():
        lines = ignore_file.read_text("utf-8", errors="replace").splitlines()
        rules = [*rules, (directory, pathspec.GitIgnoreSpec.from_lines(lines))]
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            if (
                entry.is_symlink()
                or entry.name in _ALWAYS_SKIPPED | _SKIPPED_UNTRACKED
                or (entry / "pyvenv.cfg").is_file()
                or _ignored(entry, rules, "/")
            ):
                continue
            yield from _walk(entry, rules)
        elif not _ignored(entry, rules, ""):
            yield entry


def _ignored(path: Path, rules: list[tuple[Path, pathspec.GitIgnoreSpec]], end: str) -> bool:
    # The deepest file that says anything decides, as in git.
    for base, spec in reversed(rules):
        verdict = spec.check_file(_relative(path, base) + end).include
        if verdict is not None:
            return verdict
    return False


def _relative(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


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


def _git(directory: Path, *arguments: str) -> bytes | None:
    """Run git; None where there is no git, no repository, or git refuses."""
    # Set while a hook runs, and then about the repository of the hook, not the one asked for.
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}
    }
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],
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
