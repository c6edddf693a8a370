"""Three-way merges of one file by ``git merge-file``, in the author's own form of text.

The author's line endings, byte order mark and missing last newline are no changes of theirs: the
merge is made without them, and what comes of it gets them back.
"""

from __future__ import annotations

import codecs
import difflib
import enum
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opscaffold.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MINE, BASE, NEW = "yours", "generated before", "generated now"

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_OPENING = re.compile(rb"^<{7} %s\r?$" % MINE.encode(), re.MULTILINE)
_CLOSING = re.compile(rb"^>{7} %s\r?$" % NEW.encode(), re.MULTILINE)
# With more, git cannot tell their number.
_MOST = 127


class GitMissingError(UserError):
    """There is no git, which merges what author and templates both changed."""


class MergeError(UserError):
    """Git refused to merge. The text says what it said."""


class Resolution(enum.Enum):
    """What becomes of the places that author and templates both changed."""

    MARKERS = "markers"
    KEEP = "keep"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge gave. With ``conflicts``, ``data`` holds markers, unless they were resolved."""

    data: bytes
    conflicts: int = 0


def is_text(data: bytes) -> bool:
    """Whether lines of it can be merged with ours, which are UTF-8."""
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False


def same_text(one: bytes, other: bytes) -> bool:
    """Whether two contents differ in nothing, or in the form of text alone."""
    if one == other:
        return True
    return is_text(one) and is_text(other) and _plain(one) == _plain(other)


def in_form_of(mine: bytes, base: bytes, new: bytes) -> bytes:
    """``new`` in the form that its author gave ``base`` in ``mine``."""
    if not (is_text(mine) and _is_ours(base) and _is_ours(new)):
        return new
    return _dressed(_plain(new), mine, base, new)


def has_markers(data: bytes) -> bool:
    """Whether markers of a merge stand in it, as ``merge`` sets them."""
    return bool(_OPENING.search(data) and _CLOSING.search(data))


def merge(base: bytes, mine: bytes, new: bytes, resolution: Resolution | None = None) -> Merged:
    """Merge what became of ``base`` in ``mine`` and in ``new``; all are text.

    Where both changed the same place, markers are set; with ``resolution`` KEEP or NEW that side is
    taken there, and nowhere else. Raises GitMissingError, MergeError, and ValueError for no text.
    """
    if not all(map(is_text, (base, mine, new))):
        raise ValueError("only text can be merged")
    if _is_ours(base) and _is_ours(new):
        merged = _merge(_plain(base), _plain(mine), _plain(new), resolution)
        return Merged(_dressed(merged.data, mine, base, new), merged.conflicts)
    return _merge(base, mine, new, resolution)


def still_reads(path: PurePosixPath, before: bytes, after: bytes) -> bool:
    """Whether a merge spoilt nothing that can be told: Python and TOML are read as before."""
    read = {".py": _read_python, ".pyi": _read_python, ".toml": _read_toml}.get(path.suffix)
    return read is None or read(after) or not read(before)


def _read_python(data: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The compiler finds what the parser does not: an argument given twice, for one.
            compile(data, "merged", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _read_toml(data: bytes) -> bool:
    try:
        tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except (ValueError, RecursionError):
        return False
    return True


def _merge(base: bytes, mine: bytes, new: bytes, resolution: Resolution | None) -> Merged:
    with tempfile.TemporaryDirectory(prefix="opscaffold-merge-") as name:
        directory = Path(name)
        for file, data in (("mine", mine), ("base", base), ("new", new)):
            (directory / file).write_bytes(data)
        style = {Resolution.KEEP: "--ours", Resolution.NEW: "--theirs"}
        how = "--diff3" if resolution is None else style.get(resolution, "--diff3")
        labels = [part for label in (MINE, BASE, NEW) for part in ("-L", label)]
        return _run(["-p", "-q", how, *labels, "mine", "base", "new"], directory)


def _run(arguments: Sequence[str], directory: Path) -> Merged:
    # No setting of a repository or a user is to change what a merge gives.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    environment["GIT_CEILING_DIRECTORIES"] = os.fspath(directory.parent)
    try:
        done = subprocess.run(
            ["git", "merge-file", *arguments],
            cwd=directory,
            env=environment,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise GitMissingError(
            "git is not on PATH, and git merge-file merges what you and the templates both "
            "changed: install git"
        ) from None
    if not 0 <= done.returncode <= _MOST:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise MergeError(f"git merge-file failed: {said or f'exit code {done.returncode}'}")
    return Merged(done.stdout, done.returncode)


def _is_ours(data: bytes) -> bool:
    """Whether a rendered text has the one form that the templates here give."""
    return b"\r" not in data and not data.startswith(codecs.BOM_UTF8)


def _plain(data: bytes) -> bytes:
    data = data.removeprefix(codecs.BOM_UTF8)
    # Where nothing else ends a line, a carriage return does.
    data = data.replace(b"\r\n", b"\n") if b"\n" in data else data.replace(b"\r", b"\n")
    return data + b"\n" if _is_open(data) else data


def _is_open(data: bytes) -> bool:
    """Whether the last line has no end."""
    return bool(data) and not data.endswith((b"\n", b"\r"))


def _dressed(data: bytes, mine: bytes, base: bytes, new: bytes) -> bytes:
    """Plain ``data`` in the form of ``mine``: lines that stand in both end as they did."""
    if _is_open(new if _is_open(mine) == _is_open(base) else mine):
        data = data.removesuffix(b"\n")
    if b"\r" in mine:
        data = _with_endings(data, mine.removeprefix(codecs.BOM_UTF8))
    return (codecs.BOM_UTF8 if mine.startswith(codecs.BOM_UTF8) else b"") + data


def _with_endings(data: bytes, mine: bytes) -> bytes:
    if b"\n" not in mine:
        return data.replace(b"\n", b"\r")
    lines = _LINE.findall(mine)
    windows = [line.endswith(b"\r\n") for line in lines]
    usual = sum(windows) * 2 > len(lines)
    if all(windows[:-1]) and (windows[-1] or not lines[-1].endswith(b"\n")):
        return data.replace(b"\n", b"\r\n")
    plain = [line.replace(b"\r\n", b"\n") for line in lines]
    merged = _LINE.findall(data)
    endings = [usual] * len(merged)
    for block in difflib.SequenceMatcher(None, plain, merged, autojunk=False).get_matching_blocks():
        endings[block.b : block.b + block.size] = windows[block.a : block.a + block.size]
    return b"".join(
        line.replace(b"\n", b"\r\n") if ending else line
        for line, ending in zip(merged, endings, strict=True)
    )
