"""Writing what was planned below a package's root: all of it or nothing, also across a kill."""

from __future__ import annotations

import contextlib
import stat

from opscaffold.fs.atomic import as_write_error
from opscaffold.fs.journal import write_units
from opscaffold.fs.tree import make_parents
from opscaffold.scaffold.add import Addition


def write_addition(planned: Addition) -> None:
    """Write the ops and the record in one unit. Raises what ``write_units`` raises.

    Directories that were made for it go again where nothing comes of it.
    """
    unit = planned.unit()
    made = make_parents(planned.root, [path for path, (old, _) in unit.changes.items() if not old])
    try:
        write_units(planned.root, [unit])
    except BaseException:
        for directory in reversed(made):
            with contextlib.suppress(OSError):
                directory.rmdir()
        raise
    for path in planned.executable:
        target = planned.root / path
        with as_write_error(target):
            target.chmod(target.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
