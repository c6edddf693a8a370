"""What is asked of a migration."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from opscaffold.config.model import Config
from opscaffold.errors import UserError
from opscaffold.migrate.plan import Options
from opscaffold.source.project import Project


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a migration.

    ``codes`` are the rules that hold (None: every one), ``only`` the ops to repair (empty: all).
    """

    config: Config = field(default_factory=Config)
    options: Options = field(default_factory=Options)
    codes: frozenset[str] | None = None
    only: frozenset[str] = frozenset()
    exclude: tuple[str, ...] = ()


class UnknownOpError(UserError):
    """An op that was asked for is not defined in the paths."""


def refuse_unknown(wanted: frozenset[str], project: Project) -> None:
    """Raise UnknownOpError for a name that no op of the paths has; it names what is near."""
    known = [op.qualname for op in project.ops]
    for name in sorted(wanted.difference(known)):
        elsewhere = next((op for op in project.all_ops if op.qualname == name), None)
        if elsewhere is not None:
            place = elsewhere.definition.module.path
            raise UnknownOpError(f"{name} is defined in {place}, outside of the paths given")
        close = difflib.get_close_matches(name, known, 1, 0.6)
        hint = f"did you mean {close[0]}?" if close else "`opscaffold check --list-ops` lists all"
        raise UnknownOpError(f"no op {name} is defined here; {hint}")
