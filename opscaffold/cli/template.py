"""``opscaffold template``: for people who keep their own templates."""

from __future__ import annotations

import typer

from opscaffold.cli.parameters import Command
from opscaffold.cli.template_check import check

template = typer.Typer(
    name="template",
    rich_markup_mode=None,
    no_args_is_help=True,
    help="For people who keep their own templates.",
)


@template.callback()
def root() -> None:
    """For people who keep their own templates."""


template.command(cls=Command)(check)
