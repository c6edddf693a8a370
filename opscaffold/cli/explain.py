"""``opscaffold explain``: a rule, what verify shows, or a kind of op, in its own words."""

from __future__ import annotations

from typing import Annotated

import typer

from opscaffold.cli import completion


def explain(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE|NAME|KIND",
            autocompletion=completion.explained,
            help="A rule, or what verify shows, by code or name; a start of codes; functional, "
            "in-place, out= or mutable.",
        ),
    ] = None,
    *,
    as_page: Annotated[
        bool,
        typer.Option("--page", help="Print the page of all rules, as Markdown."),
    ] = False,
) -> int:
    """Explain a rule, a thing that verify shows, or a kind of op: what it means, what to do.

    Without an argument, list them all.
    """
    from opscaffold.errors import UserError
    from opscaffold.rules.document import explanation, lookup, overview, page

    if as_page and what is not None:
        raise UserError("--page takes no rule: it prints all of them")
    if as_page:
        typer.echo(page(), nl=False)
    elif what is None:
        typer.echo(overview(), nl=False)
    else:
        typer.echo(explanation(lookup(what)), nl=False)
    return 0
