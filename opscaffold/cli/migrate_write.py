"""Writing what a migration planned: under a journal, on a tree that git could give back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from opscaffold.cli.migrate_progress import Progress
    from opscaffold.fs.journal import Unit

BACKUP_SUFFIX = ".orig"

CACHES = (
    "Compiled code that torch has cached still follows the old contracts: clear it with\n"
    '  rm -rf "${TORCHINDUCTOR_CACHE_DIR:-/tmp/torchinductor_$USER}"'
)


def mend(root: Path, *, writing: bool) -> tuple[Path, ...]:
    """Finish or drop what a killed run left, and say so; where nothing is to be written, only say.

    Returns the files that the killed run changed, if it was finished.

    Raises UserError where another run is at work, or what was left cannot be mended.
    """
    from opscaffold.fs.recovery import recover
    from opscaffold.fs.state import find_state

    if writing:
        recovery = recover(root)
        for line in recovery.lines() if recovery is not None else ():
            typer.echo(line, err=True)
        return () if recovery is None else recovery.files
    if find_state(root).journal.exists():
        typer.echo(
            "a run was killed while it wrote, or is at work: the next one with --write finishes "
            "what was begun",
            err=True,
        )
    return ()


def refuse_dirty(
    root: Path,
    *,
    allow_dirty: bool,
    ours: Sequence[Path] = (),
    earlier: Sequence[Path] = (),
) -> None:
    """Raise UserError where git has uncommitted changes, but for files that this run makes.

    ``earlier`` are files that an earlier run wrote before it was killed: they are said to be.
    """
    from opscaffold.errors import UserError
    from opscaffold.fs.atomic import shown
    from opscaffold.fs.git import dirty_files

    if allow_dirty:
        return
    own = {path.resolve() for path in ours}
    dirty = [path for path in dirty_files(root) if path.resolve() not in own]
    if not dirty:
        return
    first, more = shown(dirty[0]), len(dirty) - 1
    others = f" and {more} other file{'' if more == 1 else 's'} have" if more else " has"
    left = {path.resolve() for path in earlier}
    theirs = [shown(path) for path in dirty if path.resolve() in left]
    if not theirs:
        raise UserError(
            f"{first}{others} uncommitted changes: commit or stash them, or pass --allow-dirty"
        )
    which = "all" if len(theirs) == len(dirty) else ", ".join(theirs)
    raise UserError(
        f"{first}{others} uncommitted changes, {which} from the run that was killed: commit "
        "them, or pass --allow-dirty to go on from there"
    )


def write(root: Path, parts: Sequence[Unit], *, backup: bool, progress: Progress | None) -> None:
    """Write all units, each whole or not at all, and say how to clear compile caches.

    Raises UnitsError, InterruptedWriteError; what was written is said first.
    """
    from opscaffold.fs.journal import InterruptedWriteError, UnitsError, write_units
    from opscaffold.fs.tree import make_parents

    done = 0

    def wrote(_: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress.written(done, len(parts))

    if not parts:
        return
    new = [path for part in parts for path, (old, _) in part.changes.items() if old is None]
    directories = make_parents(root, new)
    try:
        with progress or nullcontext():
            write_units(
                root, parts, backup_suffix=BACKUP_SUFFIX if backup else None, progress=wrote
            )
    except BaseException as error:
        for directory in reversed(directories):
            # Those stay that hold what was written before.
            with suppress(OSError):
                directory.rmdir()
        if isinstance(error, UnitsError | InterruptedWriteError) and error.written:
            typer.echo(f"written before it stopped: {', '.join(error.written)}", err=True)
            typer.echo(CACHES, err=True)
        raise
    typer.echo(CACHES, err=True)
