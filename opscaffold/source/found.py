"""The files of a project, found before any of them is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opscaffold.fs.paths import real_path
from opscaffold.records import dataclass, field
from opscaffold.source.files import find_files, parts_of


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of a project, and those among them that the paths asked for hold.

    ``ordered`` are the former, by path; ``kept`` is what some held when they were read.
    """

    known: frozenset[Path]
    selected: frozenset[Path]
    ordered: Sequence[Path]
    kept: dict[Path, bytes] = field(default_factory=dict)


def project_files(
    paths: Sequence[Path], root: Path, exclude: Sequence[str] = (), *, notebooks: bool = False
) -> FoundFiles:
    """Say which files ``load_project`` reads, given the same."""
    root = real_path(root)
    ordered = find_files([root], root, exclude=exclude, notebooks=notebooks)
    whole = frozenset(ordered)
    if [path.resolve() for path in paths] == [root]:
        return FoundFiles(whole, whole, ordered)
    selected = frozenset(find_files(paths, root, exclude=exclude, notebooks=notebooks))
    if selected <= whole:
        return FoundFiles(whole, selected, ordered)
    return FoundFiles(selected | whole, selected, sorted(selected | whole, key=parts_of))
