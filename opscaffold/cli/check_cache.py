"""What earlier checks came to, so that one of an unchanged project need not be done again.

A whole check is kept under a digest of all that it depends on: what every Python file of the
project holds, which other files stand beside them, the configuration, the options, and
opscaffold and Python themselves. An edit of any file leads to another digest, so that nothing
old is ever shown. Entries are written whole and then renamed: runs at the same time do not
disturb one another. Where nothing can be written, nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscaffold import __version__

if TYPE_CHECKING:
    from opscaffold.source.found import FoundFiles

VARIABLE = "OPSCAFFOLD_CACHE_DIR"
"""Names the directory; set to nothing, there is no cache."""

# ruff: noqa: PTH111, PTH115, PTH117, PTH120

# What an entry holds, and how; a change of either makes earlier entries unreadable.
_FORMAT = 2
_MOST_ENTRIES = 32
# Directories that the search for compiled sources goes into, see unresolved-call-site.
_BESIDE = ("csrc", "src", "cpp", "cuda", "kernels", "lib")


def directory() -> Path | None:
    """Return where checks are kept; None where they are not to be."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) / "check" if named else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
        if not os.path.isabs(base):
            return None
    return Path(base) / "opscaffold" / "check"


class Entry:
    """The place of one check in the cache, whether or not it has been done."""

    def __init__(self, place: Path, digest: str, found: FoundFiles, unkept: bytes) -> None:
        self._path = place / f"{digest}.json"
        self._found = found
        self._unkept = unkept

    def read(self) -> dict[str, Any] | None:
        """Return what was kept; None where there is nothing, or nothing that can be read."""
        try:
            seal, _, data = self._path.read_bytes().partition(b"\n")
            # What a disk or a hand damaged may still be JSON.
            kept = json.loads(data) if seal == _seal(data) else None
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(kept, dict) or kept.get("format") != _FORMAT:
            return None
        # What is used stays longest.
        with contextlib.suppress(OSError):
            os.utime(self._path)
        return kept

    def write(self, outcome: dict[str, Any]) -> None:
        """Keep what a check came to, unless files changed while it ran."""
        from opscaffold.errors import UserError
        from opscaffold.fs.atomic import write_atomically

        if _digest_of_unkept(self._found) != self._unkept:
            return
        data = json.dumps({"format": _FORMAT, **outcome}).encode()
        place = self._path.parent
        with contextlib.suppress(OSError, UserError):
            # It holds lines of source, which may be private.
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, _seal(data) + b"\n" + data)
            _make_room(place)


def _seal(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).hexdigest().encode()


def entry(found: FoundFiles, root: Path, asked: Sequence[object]) -> Entry | None:
    """Return the place of a check of these files; None where checks are not kept.

    ``asked`` is all else that the outcome depends on; each part is told from others by its repr.
    What the files hold is read, and as much as is sensible kept in ``found`` for the check.
    """
    place = directory()
    if place is None:
        return None
    total = hashlib.blake2b(digest_size=32)
    for part in (_FORMAT, __version__, sys.version, os.fspath(root), *_own_code(), *asked):
        total.update(repr(part).encode("utf-8", "backslashreplace") + b"\0")
    for path in sorted(found.known, key=os.fspath):
        total.update(os.fsencode(path) + (b"\1" if path in found.selected else b"\0"))
    held, unkept = _read_all(found)
    total.update(held)
    for line in _surroundings(found, root):
        total.update(line + b"\0")
    return Entry(place, total.hexdigest(), found, unkept)


def _own_code() -> Iterator[tuple[str, int, int]]:
    """Yield what tells one state of opscaffold's own code from another, installed or in work."""
    package = Path(__file__).parent.parent
    for path in sorted(package.glob("*/*.py")):
        status = path.stat()
        yield f"{path.parent.name}/{path.name}", status.st_size, status.st_mtime_ns


def _read_all(found: FoundFiles) -> tuple[bytes, bytes]:
    """Read every file once, and keep what there is room for.

    Returns the digest of all, and that of the files not kept.
    """
    from opscaffold.source.tree import KEPT

    total, unkept = hashlib.blake2b(digest_size=32), hashlib.blake2b(digest_size=32)
    room = KEPT
    for path in sorted(found.known, key=os.fspath):
        data = _hash(path, total)
        if data is not None and len(data) <= room:
            found.kept[path] = data
            room -= len(data)
        else:
            _take(data, unkept)
    return total.digest(), unkept.digest()


def _digest_of_unkept(found: FoundFiles) -> bytes:
    total = hashlib.blake2b(digest_size=32)
    for path in sorted(found.known - found.kept.keys(), key=os.fspath):
        _hash(path, total)
    return total.digest()


def _hash(path: Path, total: hashlib.blake2b) -> bytes | None:
    from opscaffold.source.files import read_bytes

    data = read_bytes(path)
    _take(data, total)
    return data


def _take(data: bytes | None, total: hashlib.blake2b) -> None:
    # The length tells where one file ends, and that one cannot be read.
    total.update(b"-" if data is None else b"%d:" % len(data))
    if data is not None:
        total.update(data)


def _surroundings(found: FoundFiles, root: Path) -> Iterator[bytes]:
    """Yield what stands beside the files: links that are modules, sources that are compiled."""
    directories = {os.fspath(root)}
    for path in {file.parent for file in found.known}:
        current = os.fspath(path)
        while current not in directories:
            directories.add(current)
            if not path.is_relative_to(root) or current == os.path.dirname(current):
                break
            current = os.path.dirname(current)
    for directory in sorted(directories):
        yield from _listing(directory)
    for name in _BESIDE:
        for start in sorted([root / name, *root.glob(f"*/{name}")]):
            for current, _, files in os.walk(start):
                if current not in directories and files:
                    yield from map(os.fsencode, (current, *sorted(files)))


def _listing(path: str) -> Iterable[bytes]:
    yield os.fsencode(path)
    try:
        with os.scandir(path) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in listed:
        # What tools leave behind comes and goes, and is no module.
        if entry.name != "__pycache__":
            yield os.fsencode(entry.name)
            if entry.is_symlink():
                with contextlib.suppress(OSError):
                    yield os.fsencode(os.readlink(entry.path))


def _make_room(place: Path) -> None:
    """Remove the entries that were used longest ago."""
    with os.scandir(place) as entries:
        ours = [(e.stat().st_mtime_ns, e.path) for e in entries if e.name.endswith(".json")]
    for _, path in sorted(ours, reverse=True)[_MOST_ENTRIES:]:
        Path(path).unlink(missing_ok=True)
