"""Checking a project that was read: the rules that hold, minus what is held back."""

from __future__ import annotations

from opscaffold.config.model import Config
from opscaffold.findings.model import Finding
from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.rules.notices import UNREADABLE, unreadable
from opscaffold.rules.suppression import Suppression
from opscaffold.source.project import Project


def check_project(project: Project, config: Config, codes: frozenset[str]) -> list[Finding]:
    """Return what there is to say about a project's ops, files and comments.

    ``codes`` are the rules that hold, as ``selection.chosen`` gives them. Files outside the
    paths that the project was loaded for are not reported on. Raises UnknownSelectorError.
    """
    suppression = Suppression(project, config)
    found = list(apply_rules(project, [r for r in all_rules() if r.code in codes]))
    if UNREADABLE.code in codes:
        # Asked last: rules may make more files be read.
        found += [unreadable(p) for p in project.problems if p.path in project.selected]
    return suppression.apply(found, codes)


def repair_of(finding: Finding) -> str | None:
    """Return "safe" or "unsafe" where a finding has a repair, None where it has none."""
    if finding.intent is None:
        return None
    return next((r.repair for r in all_rules() if r.code == finding.code), None)
