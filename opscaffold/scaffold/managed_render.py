"""What a package with a record is, and what the templates make of it where its files lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

from opscaffold.scaffold.adopted import Adopted
from opscaffold.scaffold.answers import build
from opscaffold.scaffold.given import Answers
from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.render import render_files
from opscaffold.scaffold.spec import PackageSpec


def spec_of(answers: Answers, adopted: Adopted | None) -> PackageSpec:
    """The package that a record's answers describe. Raises AnswerError."""
    return placed(build(answers, empty=adopted is not None), adopted)


def placed(spec: PackageSpec, adopted: Adopted | None) -> PackageSpec:
    """The package with the names that an adopted one has in place of the usual ones."""
    if adopted is None:
        return spec
    return replace(spec, module=adopted.module, folder=adopted.folder, support=adopted.support)


def rendered(
    spec: PackageSpec, adopted: Adopted | None, own: Path | None = None, width: int | None = None
) -> dict[PurePosixPath, Generated]:
    """The files that the templates make of ``spec``, where they belong in its package, sorted.

    Raises like ``render_files``.
    """
    files = render_files(spec, own, width)
    if adopted is None:
        return files
    placed = {adopted.place(path, spec.module): file for path, file in files.items()}
    return dict(sorted((path, file) for path, file in placed.items() if path is not None))
