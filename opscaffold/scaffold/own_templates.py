"""The templates that a package with a record is rendered by, now."""

from __future__ import annotations

from pathlib import Path

from opscaffold.scaffold.managed import Record
from opscaffold.scaffold.managed_origin import came_along, source_directory
from opscaffold.scaffold.templates import TemplateError, check_layout


def templates_of(root: Path, record: Record, told: Path | None) -> Path | None:
    """The user's own templates, None where opscaffold's made the package.

    ``told`` is where the user says they are, and is taken at its word. Raises TemplateError where
    they are not where the record says, or came with the package: they are programs, and are not
    run because a record that came with them says so.
    """
    if told is not None:
        check_layout(told)
        return told
    if not record.origin.own:
        return None
    directory = source_directory(record.origin.own, root)
    if not directory.is_dir():
        raise TemplateError(
            f"{root} was made with the templates in {directory}, which are not there: say with "
            "--template DIR where they are now"
        )
    if came_along(directory, root):
        raise TemplateError(
            f"{root} was made with the templates in {directory}. They come with the package, and "
            f"templates are programs: if you trust them, say --template {directory}"
        )
    check_layout(directory)
    return directory
