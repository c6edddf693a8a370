"""Which templates rendered a package: their digest, and where those of a user's own lie."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from opscaffold import __version__
from opscaffold.fs.paths import real_path
from opscaffold.scaffold.answers import answers_of
from opscaffold.scaffold.managed import Origin, Record
from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.spec import PackageSpec
from opscaffold.scaffold.templates import NAMES, template_directory


def make_record(
    spec: PackageSpec,
    files: Mapping[PurePosixPath, Generated],
    root: Path,
    own: Path | None = None,
) -> Record:
    """The record of a package at ``root`` that these templates made of ``spec`` now.

    ``files`` are all files as rendered. The digest is that of the templates as they are now.
    """
    source = "" if own is None else recorded_source(own, root)
    return Record(answers_of(spec), files, Origin(__version__, templates_digest(own), source))


def templates_digest(own: Path | None = None) -> str:
    """A digest of the templates' files, names and what may be executed; ``own`` ones if given."""
    with template_directory(NAMES[0], own) as first:
        return _digest(first.parent)


def recorded_source(own: Path, root: Path) -> str:
    """How the record of a package at ``root`` names a directory of templates.

    Relative where one git repository holds both, as it will wherever that is cloned; else absolute.
    """
    own, root = real_path(own), real_path(root)
    if not _share_repository(own, root):
        return own.as_posix()
    return Path(os.path.relpath(own, root)).as_posix()


def source_directory(source: str, root: Path) -> Path:
    """The directory that a recorded source names. It need not be there."""
    return real_path(root / source)


def came_along(directory: Path, root: Path) -> bool:
    """Whether templates lie in the package at ``root`` or in the repository that holds it.

    Whoever wrote those may have written the record that names them. They are programs, and are
    not to be run because a record says so.
    """
    directory, root = real_path(directory), real_path(root)
    return directory.is_relative_to(root) or _share_repository(directory, root)


def _share_repository(one: Path, other: Path) -> bool:
    found = _repository(one)
    return found is not None and found == _repository(other)


def _repository(path: Path) -> Path | None:
    return next((p for p in (path, *path.parents) if os.path.lexists(p / ".git")), None)


def _digest(root: Path) -> str:
    total = hashlib.sha256()
    for path in _files(root):
        name = path.relative_to(root).as_posix().encode("utf-8", "surrogateescape")
        data = path.read_bytes()
        mark = b"x" if path.stat().st_mode & 0o100 else b"-"
        total.update(b"%d %s%s %d\n" % (len(name), mark, name, len(data)))
        total.update(data)
    return total.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    # Only what is rendered: beside the templates may lie anything, a repository's own files too.
    for template in sorted(p for p in root.iterdir() if p.is_dir()):
        for part in sorted(p for p in template.iterdir() if "{{" in p.name and p.is_dir()):
            yield from sorted(p for p in part.rglob("*") if p.is_file())
