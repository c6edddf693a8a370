"""What a migration came to, on stderr, so that stdout holds the diff and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from opscaffold.migrate.engine import Migration


def summarise(result: Migration, *, written: bool, quiet: bool) -> None:
    """Say what is left, and unless ``quiet`` what was or would be done."""
    from opscaffold.report.text import render_text

    said = render_text([*result.findings, *result.notes], result.root)
    if said:
        typer.echo(said.rstrip("\n"), err=True)
    if quiet:
        return
    calls: dict[tuple[str, str], int] = {}
    for step in result.steps:
        # The plan of the code was made when the prose was done already.
        count = len(step.sites) if step.prose else step.plan.calls
        calls[step.key] = calls.get(step.key, 0) + count
    for (op, does), count in calls.items():
        sites = "1 call site" if count == 1 else f"{count} call sites"
        typer.echo(f"{op}: {'' if written else 'would be '}{does} ({sites})", err=True)
    files = "1 file" if len(result.changes) == 1 else f"{len(result.changes)} files"
    verb = "changed" if written else "would change"
    left = {f.op for f in result.findings if f.op and f.severity.value != "info"}
    repaired = len({plan.op for plan in result.plans})
    counts = f"{repaired} {verb} in {files}, {len(left)} left as they are"
    typer.echo(f"{result.ops} ops read, {counts}", err=True)


def remains(result: Migration) -> bool:
    """Tell whether anything is left that a person should see to."""
    return any(f.severity.value != "info" for f in (*result.findings, *result.notes))
