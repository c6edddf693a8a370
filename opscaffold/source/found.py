"""The files of a project, found before any of them is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opscaffold.fs.paths import real_path
from opscaffold.records import dataclass, field
from opscaffold.source.files import find_files


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of a project, and those among them that the paths asked for hold.

    ``kept`` is what some of them held when they were read.
    """

    known: frozenset[Path]
    selected: frozenset[Path]
    kept: dict[Path, bytes] = field(default_factory=dict)


def project_files(
    paths: Sequence[Path], root: Path, exclude: Sequence[str] = (), *, notebooks: bool = False
) -> FoundFiles:
    """Say which files ``load_project`` reads, given the same."""
    root = real_path(root)
    whole = frozenset(find_files([root], root, exclude=exclude, notebooks=notebooks))
    selected = whole
    if [path.resolve() for path in paths] != [root]:
        selected = frozenset(find_files(paths, root, exclude=exclude, notebooks=notebooks))
    return FoundFiles(selected | whole, selected)
