"""``opscaffold migrate --tests``: which test modules are written, and which are left alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opscaffold.errors import UserError
from opscaffold.fs.atomic import shown
from opscaffold.migrate.op_tests import is_unedited, render_tests, subjects

if TYPE_CHECKING:
    from opscaffold.migrate.engine import Migration


def planned_tests(
    migration: Migration, directory: Path, *, force: bool
) -> dict[Path, tuple[bytes | None, bytes]]:
    """Return the test modules that change, with their bytes before and after.

    One that somebody edited is left alone, and that is said, unless ``force``. Raises UserError
    where the directory is none, or lies outside of the project.
    """
    target = Path(os.path.realpath(directory))
    if not target.is_relative_to(migration.root):
        raise UserError(f"--tests: {shown(directory)} lies outside of {shown(migration.root)}")
    if target.exists() and not target.is_dir():
        raise UserError(f"--tests: {shown(directory)} is no directory")
    changes: dict[Path, tuple[bytes | None, bytes]] = {}
    for subject in subjects(migration.steps):
        path = target / subject.file_name
        new = render_tests(subject, target)
        try:
            old = path.read_bytes() if path.exists() else None
        except OSError as error:
            raise UserError(f"{shown(path)}: cannot be read: {error.strerror}") from None
        if old == new:
            continue
        if old is not None and not force and not is_unedited(old):
            typer.echo(
                f"{shown(path)} was edited, and is left as it is: --force replaces it", err=True
            )
            continue
        changes[path] = (old, new)
    return changes
