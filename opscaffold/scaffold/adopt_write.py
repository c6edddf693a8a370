"""Writing what an adoption puts beside a package: all of it or nothing, also across a kill."""

from __future__ import annotations

import contextlib

from opscaffold.fs.journal import write_units
from opscaffold.fs.tree import make_parents
from opscaffold.scaffold.adopt import Adoption


def write_adoption(planned: Adoption) -> None:
    """Write the record and what added ops need in one unit. Raises what ``write_units`` raises."""
    unit = planned.unit()
    made = make_parents(planned.root, unit.changes)
    try:
        write_units(planned.root, [unit])
    except BaseException:
        for directory in reversed(made):
            with contextlib.suppress(OSError):
                directory.rmdir()
        raise
