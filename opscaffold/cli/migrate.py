"""``opscaffold migrate``: show or write the repairs of a project's ops."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from opscaffold.migrate.engine import Migration


def migrate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files or directories whose ops are migrated; default: here."),
    ] = None,
    *,
    write: Annotated[bool, typer.Option("--write", help="Write the changes to the files.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print no diff; exit 1 if anything would change.")
    ] = False,
    allow_dirty: Annotated[
        bool,
        typer.Option("--allow-dirty", help="Write although git has uncommitted changes."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NS::OP", help="Repair this op alone. May be repeated."),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Repair what these rules find, and nothing else."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Leave what these rules find. May be repeated."),
    ] = None,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="Also make repairs whose effect callers could see."),
    ] = False,
    root: Annotated[
        Path | None,
        typer.Option(help="Where call sites are searched; default: the project of PATHS."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            help="A git-ignore pattern of files to leave out; replaces `exclude` of the "
            "configuration. May be repeated."
        ),
    ] = None,
) -> int:
    """Repair ops that break their contract, with all their call sites.

    Prints a diff that `git apply` takes, and writes nothing, unless told to. What cannot be
    rewritten for sure is reported with its place and reason. Nothing that is read is run.

    Exit codes: 0 done, 1 breaches remain (or, with --check, something would change), 2 usage.
    """
    from opscaffold.cli.check import listed
    from opscaffold.config.load import load_config
    from opscaffold.errors import UserError
    from opscaffold.fs.atomic import write_all
    from opscaffold.migrate.engine import Request
    from opscaffold.migrate.engine import migrate as plan
    from opscaffold.migrate.plan import Options
    from opscaffold.report.diff import unified_diff, write_diff
    from opscaffold.rules.selection import chosen_for
    from opscaffold.source.files import find_root

    if write and check:
        raise UserError("--write and --check exclude each other: choose one")
    chosen = paths or [Path()]
    for path in [*chosen, *([root] if root else [])]:
        if not path.exists():
            raise UserError(f"{path}: there is no such file or directory")
    root = (root if root is not None else find_root(chosen)).resolve()
    for path in chosen:
        if not path.resolve().is_relative_to(root):
            raise UserError(f"{path} lies outside the root {root}: choose another --root")
    config = load_config(root)
    request = Request(
        config=config,
        options=Options(unsafe=unsafe),
        codes=chosen_for(config, listed(select), listed(ignore) or ()),
        only=frozenset(only or ()),
        exclude=config.excluded(exclude),
    )
    result = plan(chosen, request, root=root)
    if write:
        _refuse_dirty(result, allow_dirty=allow_dirty)
        write_all(dict(result.changes))
    elif not check:
        write_diff(unified_diff(dict(result.changes), result.root))
    _summarise(result, written=write)
    remaining = any(f.severity.value != "info" for f in (*result.findings, *result.notes))
    return 1 if remaining or (check and bool(result.changes)) else 0


def _refuse_dirty(result: Migration, *, allow_dirty: bool) -> None:
    from opscaffold.errors import UserError
    from opscaffold.fs.git import dirty_files

    if allow_dirty or not result.changes:
        return
    dirty = dirty_files(result.root)
    if dirty:
        raise UserError(
            f"{dirty[0]} and {len(dirty) - 1} other files have uncommitted changes: commit or "
            "stash them, or pass --allow-dirty"
            if len(dirty) > 1
            else f"{dirty[0]} has uncommitted changes: commit or stash them, or pass --allow-dirty"
        )


def _summarise(result: Migration, *, written: bool) -> None:
    """Say what was found on stderr, so that stdout holds the diff and nothing else."""
    from opscaffold.report.text import render_text

    said = render_text([*result.findings, *result.notes], result.root)
    if said:
        typer.echo(said.rstrip("\n"), err=True)
    for plan in result.plans:
        sites = "1 call site" if plan.calls == 1 else f"{plan.calls} call sites"
        typer.echo(f"{plan.op}: {'' if written else 'would be '}{plan.does} ({sites})", err=True)
    files = "1 file" if len(result.changes) == 1 else f"{len(result.changes)} files"
    verb = "changed" if written else "would change"
    left = {f.op for f in result.findings if f.op and f.severity.value != "info"}
    repaired = len({plan.op for plan in result.plans})
    counts = f"{repaired} {verb} in {files}, {len(left)} left as they are"
    typer.echo(f"{result.ops} ops read, {counts}", err=True)
    if written and result.changes:
        typer.echo(
            "Compiled code that torch has cached still follows the old contracts: clear it with\n"
            '  rm -rf "${TORCHINDUCTOR_CACHE_DIR:-/tmp/torchinductor_$USER}"',
            err=True,
        )
