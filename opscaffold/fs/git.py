"""What git says about a working tree. Everything here is a question: git changes nothing.

Nor does git run a program that the repository's own configuration names: a tree may have come with
it, packed in an archive.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from opscaffold.errors import UserError
from opscaffold.records import dataclass

# A hook's caller sets these for its own repository, which need not be the one asked about.
_REPOSITORY_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")

# What a repository's own configuration could have git run: a monitor of files, and hooks.
_RUN_NOTHING = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
# In a clone without all objects git would fetch those it lacks, by a program that is configured.
_FETCH_NOTHING = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
_FILTERS = r"^filter\..*\.(clean|process)$"
# Git has no better word for what lies in the repository, or in a file that it includes.
_OWN_SCOPES = (b"local", b"worktree")
# Files that are never written, whose filters are often configured by a repository.
_NOTEBOOK = b".ipynb"

_NO_REPOSITORY = ("not a git repository", "must be run in a work tree")

_HUNK = re.compile(rb"@@ -\d+(?:,(?P<old>\d+))? \+(?P<start>\d+)(?:,(?P<length>\d+))? @@")
_ESCAPED = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
    b'"': b'"',
    b"\\": b"\\",
}


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
    # Of what lies in submodules we ask them, one by one: git would run what they configure.
    status = ["status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=dirty"]
    named = [os.fspath(path.absolute()) for path in paths]
    filters = _own_filters(top)
    found = _changed(_git(top, *status, "--", *named, configured=filters))
    if filters:
        found = [name for name in found if not name.endswith(_NOTEBOOK)]
    files = [name for name, path in zip(named, paths, strict=True) if path.is_file()]
    if files:
        ignored = [*status, "--ignored=matching"]
        found += _changed(_git(top, *ignored, "--", *files, configured=filters))
    dirty = {top / os.fsdecode(name) for name in found}
    for submodule in _submodules(top):
        inside = [path for path in paths if path.absolute().is_relative_to(submodule)]
        if not paths or inside or any(submodule.is_relative_to(p.absolute()) for p in paths):
            dirty.update(dirty_files(submodule, inside))
    return sorted(dirty)


@dataclass(frozen=True, slots=True)
class Changed:
    """What of a file is not as a revision has it. Lines count from 1 and are those of today.

    ``lines`` are None for a file that is new as a whole. Behind each line of ``gaps`` lines were
    removed; behind each of ``ends``, indented ones, which belong to the block that ends there.
    """

    lines: frozenset[int] | None = frozenset()
    gaps: frozenset[int] = frozenset()
    ends: frozenset[int] = frozenset()

    def touches(self, first: int, last: int) -> bool:
        """Tell whether any of these lines changed, or one was removed from among them."""
        if self.lines is None:
            return True
        return (
            any(first <= line <= last for line in self.lines)
            or any(first <= line < last for line in self.gaps)
            or any(first <= line <= last for line in self.ends)
        )


def changed_lines(root: Path, revision: str) -> dict[Path, Changed]:
    """Return which lines of the working tree's files are not those of a revision.

    Files that are as they were are left out. Raises UserError for a revision that there is not
    and where there is no git or no repository, GitError where git will not read it.
    """
    top, commit = _commit(root, revision)
    options = ["--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"]
    prefixes = ["--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules"]
    asked = ["-c", "core.quotePath=true", "diff", *options, *prefixes, commit, "--"]
    diff = _git(top, *asked, configured=_own_filters(top))
    changed = dict(_hunk_lines(diff or b"", top))
    for entry in (_git(top, "ls-files", "-o", "--exclude-standard", "-z") or b"").split(b"\0"):
        if entry:
            changed[top / os.fsdecode(entry)] = Changed(None)
    return changed


@dataclass(frozen=True, slots=True)
class Before:
    """What files held at a revision, of those that hold something else now.

    ``contents`` has None for a file that was not there. ``moved`` tells for files that go by
    another name now what that is.
    """

    contents: dict[Path, bytes | None]
    moved: dict[Path, Path]


def contents_at(root: Path, revision: str) -> Before:
    """Return what the files of a working tree held at a revision. Raises as changed_lines does."""
    top, commit = _commit(root, revision)
    raw = ["--raw", "--no-abbrev", "-z", "--find-renames", "--ignore-submodules", "--no-ext-diff"]
    answer = _git(top, "diff", *raw, commit, "--", configured=_own_filters(top))
    fields = iter((answer or b"").split(b"\0"))
    blobs: dict[Path, bytes] = {}
    contents: dict[Path, bytes | None] = {}
    moved: dict[Path, Path] = {}
    for field in fields:
        if not field:
            continue
        mode, _, blob, _, state = field.split(b" ")
        old = new = top / os.fsdecode(next(fields))
        if state[:1] in (b"R", b"C"):
            new = top / os.fsdecode(next(fields))
            contents[new] = None
        if state[:1] == b"R":
            moved[old] = new
        contents[old] = None
        # A link holds no text of its own.
        if mode in (b":100644", b":100755") and state[:1] != b"C":
            blobs[old] = blob
    for entry in (_git(top, "ls-files", "-o", "--exclude-standard", "-z") or b"").split(b"\0"):
        if entry:
            contents[top / os.fsdecode(entry)] = None
    found = _blobs(top, list(blobs.values()))
    return Before(contents | dict(zip(blobs, found, strict=True)), moved)


def _commit(root: Path, revision: str) -> tuple[Path, str]:
    top = toplevel(root)
    if top is None:
        if shutil.which("git") is None:
            raise UserError(f"git is not on PATH, and only git knows the revision {revision!r}")
        raise UserError(f"{root} is in no git repository, so it has no revision {revision!r}")
    name = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    try:
        commit = (_git(top, *name) or b"").decode("ascii").strip()
    except GitError:
        commit = ""
    if not commit:
        raise UserError(f"git knows no revision {revision!r} in {top}")
    return top, commit


def _blobs(top: Path, names: Sequence[bytes]) -> list[bytes]:
    """Return what git objects hold, in order."""
    answer = _git(top, "cat-file", "--batch", given=b"".join(n + b"\n" for n in names)) or b""
    found: list[bytes] = []
    at = 0
    for name in names:
        head, _, _ = answer[at:].partition(b"\n")
        words = head.split(b" ")
        if len(words) != 3:
            raise GitError(
                f"git cannot read the object {name.decode('ascii')} in {top}: where the clone "
                "lacks it, let git fetch it first, as with `git diff REVISION`"
            )
        start = at + len(head) + 1
        end = start + int(words[2])
        found.append(answer[start:end])
        at = end + 1
    return found


def _hunk_lines(diff: bytes, top: Path) -> Iterator[tuple[Path, Changed]]:
    path: Path | None = None
    lines: set[int] = set()
    gaps: set[int] = set()
    ends: set[int] = set()
    # Lines of a hunk still to come: what they hold is not to be taken for a header.
    left = 0
    removed: int | None = None
    for line in diff.split(b"\n"):
        if left and line[:1] in (b"+", b"-"):
            left -= 1
            if removed is not None and line[1:].strip():
                (ends if line[1:2] in (b" ", b"\t") else gaps).add(removed)
                removed = None
            continue
        if line.startswith(b"+++ "):
            if path is not None and (lines or gaps or ends):
                yield path, Changed(frozenset(lines), frozenset(gaps), frozenset(ends))
            name = _unquoted(line[4:])
            path = top / os.fsdecode(name[2:]) if name.startswith(b"b/") else None
            lines, gaps, ends = set(), set(), set()
            continue
        match = _HUNK.match(line)
        if match:
            start = int(match["start"])
            length = int(match["length"] or 1)
            left = length + int(match["old"] or 1)
            removed = start if length == 0 else None
            lines |= set(range(start, start + length))
    if path is not None and (lines or gaps or ends):
        yield path, Changed(frozenset(lines), frozenset(gaps), frozenset(ends))


def _unquoted(name: bytes) -> bytes:
    """Return a file name as git writes it in a diff, without quotes and escapes."""
    name = name.removesuffix(b"\t")
    if not name.startswith(b'"'):
        return name

    def plain(match: re.Match[bytes]) -> bytes:
        escape = match[1]
        return _ESCAPES.get(escape) or bytes([int(escape, 8)])

    return _ESCAPED.sub(plain, name[1:-1])


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


def _own_filters(top: Path) -> dict[str, str]:
    """Return what switches off the filters that a repository itself configures."""
    asked = ["config", "--show-scope", "--name-only", "-z", "--get-regexp", _FILTERS]
    try:
        fields = (_git(top, *asked) or b"").split(b"\0")
    except GitError:
        # There is none.
        return {}
    found: dict[str, str] = {}
    for scope, key in zip(fields[::2], fields[1::2], strict=False):
        if scope in _OWN_SCOPES:
            name, _, _ = os.fsdecode(key).rpartition(".")
            found |= {f"{name}.clean": "", f"{name}.process": "", f"{name}.required": "false"}
    return found


def _submodules(top: Path) -> list[Path]:
    """Return the submodules that are checked out."""
    entries = (_git(top, "ls-files", "--stage", "-z") or b"").split(b"\0")
    links = [entry.partition(b"\t")[2] for entry in entries if entry.startswith(b"160000 ")]
    found = [top / os.fsdecode(link) for link in links]
    return [path for path in found if (path / ".git").exists() and toplevel(path) == path]


def _git(
    directory: Path, *arguments: str, given: bytes = b"", configured: dict[str, str] | None = None
) -> bytes | None:
    environment = {k: v for k, v in os.environ.items() if k not in _REPOSITORY_VARIABLES}
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **_FETCH_NOTHING}
    if configured:
        # Names may hold what the command line has no way to say. The user's own count is kept.
        count = environment.get("GIT_CONFIG_COUNT", "")
        first = int(count) if count.isdecimal() else 0
        environment["GIT_CONFIG_COUNT"] = str(first + len(configured))
        for number, (key, value) in enumerate(configured.items(), first):
            environment[f"GIT_CONFIG_KEY_{number}"] = key
            environment[f"GIT_CONFIG_VALUE_{number}"] = value
    command = ["git", "--literal-pathspecs", *_RUN_NOTHING, *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            input=given,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    if done.returncode == 0:
        return done.stdout
    message = done.stderr.decode(errors="replace").strip()
    if any(text in message for text in _NO_REPOSITORY):
        return None
    raise GitError(f"git cannot read the repository at {directory}: {message}")
