"""All rules, found among the modules of this package, and applying them to a project."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Container, Iterable, Iterator
from functools import cache

from opscaffold import rules
from opscaffold.findings.model import Finding
from opscaffold.rules.base import OpFacts, Rule
from opscaffold.source.model import Op
from opscaffold.source.project import Project


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code. A module of this package defines one as ``RULE``."""
    found = []
    for module in pkgutil.iter_modules(rules.__path__):
        rule = getattr(importlib.import_module(f"{rules.__name__}.{module.name}"), "RULE", None)
        if isinstance(rule, Rule):
            found.append(rule)
    return tuple(sorted(found, key=lambda rule: rule.code))


def apply_rules(
    project: Project,
    chosen: Iterable[Rule],
    unfollowed: dict[Op | None, str] | None = None,
    among: Container[str] | None = None,
) -> Iterator[Finding]:
    """Apply rules to the ops defined in the paths that a project was loaded for.

    ``among`` are the names of the ops that rules of one op are applied to, else all.

    A rule that meets code that is nested too deeply says nothing of that op, and the op goes into
    ``unfollowed`` with the code of the first such rule; None stands for the project as a whole.
    """
    chosen = list(chosen)
    missed: dict[Op | None, str] = {} if unfollowed is None else unfollowed
    for op in project.ops:
        if among is not None and op.qualname not in among:
            continue
        facts = OpFacts(project, op)
        for rule in chosen:
            if rule.of_op is not None:
                try:
                    found = list(rule.of_op(facts))
                except RecursionError:
                    missed.setdefault(op, rule.code)
                else:
                    yield from found
    for rule in chosen:
        if rule.of_project is not None:
            try:
                found = list(rule.of_project(project))
            except RecursionError:
                missed.setdefault(None, rule.code)
            else:
                yield from found
