"""All checks, in the order in which they run: what is cheap comes first."""

from __future__ import annotations

import importlib
import pkgutil

from opscaffold.verify import checks
from opscaffold.verify.checks.base import Check


def all_checks() -> tuple[Check, ...]:
    """Every ``CHECK`` that a module beside this one defines, by cost and name."""
    found: list[Check] = []
    for module in pkgutil.iter_modules(checks.__path__):
        value = getattr(importlib.import_module(f"{checks.__name__}.{module.name}"), "CHECK", None)
        if isinstance(value, Check):
            found.append(value)
    return tuple(sorted(found, key=lambda check: (check.cost, check.name)))
