"""``opscaffold template check``: render every kind of op, and hold what is made to every tool."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from opscaffold.scaffold.matrix import Group

OK = 0
RED = 1


class Format(str, enum.Enum):
    """How the result is written."""

    TEXT = "text"
    JSON = "json"


def check(
    *,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            metavar="DIR",
            help="Your own templates (default: those of opscaffold). What they make is run.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Every combination, and ops made by chance: takes long."),
    ] = False,
    cell: Annotated[
        list[str] | None,
        typer.Option("--cell", metavar="NAME", help="This cell alone. May be repeated."),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            "--tool",
            metavar="NAME",
            help="This tool alone: ruff, format, mypy, pytest, check or verify. May be repeated.",
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", "-j", metavar="N", min=1, help="Tools to run at once (default: one a core)."
        ),
    ] = os.cpu_count() or 1,
    output_format: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="text or json.")
    ] = Format.TEXT,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Keep the packages and all that the tools said, in this new directory.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing before the result.")
    ] = False,
) -> int:
    """Render every kind of op, and hold what is made to its tests and to every tool.

    The cells are the ends of the decision tree, and a choice of ops in which any two answers
    meet that can. Each package is held to ruff, ruff format, mypy --strict, its tests, opscaffold
    check and opscaffold verify.

    Exit codes: 0 every cell is green, 1 some are red, 2 wrong usage or a tool that is missing.
    """
    from opscaffold.cli.template_report import render_json, render_text
    from opscaffold.cli.template_run import run_cells
    from opscaffold.cli.template_tools import chosen_tools
    from opscaffold.cli.verify_process import private_directory
    from opscaffold.scaffold.templates import check_layout

    if template is not None:
        check_layout(template)
    groups = _chosen(cell or (), full=full)
    tools = chosen_tools(tool or ())

    def tell(group: str, name: str, green: bool, seconds: float) -> None:
        if not quiet:
            verdict = "ok" if green else "RED"
            typer.echo(f"{group}: {name} {verdict}, {seconds:.1f} s", err=True)

    if keep is not None:
        keep = _made(keep)
    with private_directory() as private:
        directory = private / "packages" if keep is None else keep
        directory.mkdir(exist_ok=True)
        result = run_cells(groups, tools, directory, private, own=template, jobs=jobs, tell=tell)
    render = render_json if output_format is Format.JSON else render_text
    typer.echo(render(result), nl=False)
    return RED if result.reds else OK


def _chosen(names: Sequence[str], *, full: bool) -> tuple[Group, ...]:
    """The packages of a run. Raises UserError for a cell that is none."""
    from opscaffold.errors import UserError
    from opscaffold.scaffold.matrix import everything, groups, matrix

    if not names:
        return matrix(full=full)
    cells = {cell.name: cell for cell in everything()}
    for name in names:
        if name not in cells:
            raise UserError(f"--cell: there is no {name!r}; the table of a run names them all")
    return groups("chosen", [cells[name] for name in dict.fromkeys(names)])


def _made(keep: Path) -> Path:
    """An empty directory, made where there is none. Raises UserError where there can be none."""
    from opscaffold.errors import UserError

    try:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise UserError(f"--keep: {keep} is not empty; name a new directory")
    except OSError as error:
        raise UserError(f"--keep: {keep}: {error.strerror or error}") from None
    return keep.resolve()
