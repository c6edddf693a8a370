"""``opscaffold migrate --apply``: do what a plan says, and plan nothing anew."""

from __future__ import annotations

from pathlib import Path

import typer


def apply(
    plan_path: Path,
    root: Path | None,
    *,
    allow_dirty: bool,
    backup: bool,
    quiet: bool,
) -> int:
    """Apply a plan to the project, and return the exit code.

    1 where the plan leaves something that a person should see to. Raises UserError: for a plan
    that cannot be read, a file that is not what it was, and all that a write may meet.
    """
    from opscaffold.cli.migrate_progress import Progress
    from opscaffold.cli.migrate_write import mend, refuse_dirty, write
    from opscaffold.fs.atomic import shown
    from opscaffold.migrate.plan_apply import load_plan, planned_units
    from opscaffold.source.files import find_root

    plan = load_plan(plan_path)
    root = (root if root is not None else find_root([Path()])).resolve()
    earlier = mend(root, writing=True)
    parts = planned_units(plan, root, shown(plan_path))
    if parts:
        refuse_dirty(root, allow_dirty=allow_dirty, ours=[plan_path], earlier=earlier)
        write(root, parts, backup=backup, progress=Progress(quiet=quiet))
    if not quiet:
        for step in plan.steps:
            for line in step.said:
                typer.echo(line, err=True)
        files = len({path for part in parts for path in part.changes})
        typer.echo(f"{files} file{'' if files == 1 else 's'} changed as planned", err=True)
    return 1 if plan.remains else 0
