"""Checking a project that was read: the rules that hold, minus what is held back."""

from __future__ import annotations

from opscaffold.config.model import Config
from opscaffold.findings.model import Finding, Position
from opscaffold.rules.base import position
from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.rules.notices import UNREADABLE, unreadable
from opscaffold.rules.suppression import MARKED, Suppression
from opscaffold.source.model import Op
from opscaffold.source.project import Project
from opscaffold.source.questions import Question


def check_project(project: Project, config: Config, codes: frozenset[str]) -> list[Finding]:
    """Return what there is to say about a project's ops, files and comments.

    ``codes`` are the rules that hold, as ``selection.chosen`` gives them. Files outside the
    paths that the project was loaded for are not reported on. Raises UnknownSelectorError.
    """
    suppression = Suppression(project, config)
    unfollowed: dict[Op | None, str] = {}
    chosen = [rule for rule in all_rules() if rule.code in codes]
    found = list(apply_rules(project, chosen, unfollowed))
    if UNREADABLE.code in codes:
        found += [_too_deep(project, op, code) for op, code in unfollowed.items()]
        # Asked last: rules may make more files be read.
        found += [unreadable(p) for p in project.problems if p.path in project.selected]
    return suppression.apply(found, codes)


def questions(codes: frozenset[str]) -> list[Question]:
    """Return what ``check_project`` asks of the bytes of all files."""
    asked = [MARKED.question, *(q for rule in all_rules() if rule.code in codes for q in rule.asks)]
    return list(dict.fromkeys(asked))


def _too_deep(project: Project, op: Op | None, code: str) -> Finding:
    """Report an op that some rules say nothing of, since its code is nested too deeply."""
    if op is None:
        return UNREADABLE.finding(
            Position(project.root, 1),
            f"some code is nested too deeply to be followed: {code} was not applied",
        )
    definition = op.definition
    node = definition.function or definition.statement
    module = definition.function_module or definition.module
    return UNREADABLE.finding(
        position(module, node),
        f"`{op.qualname}`, or what it calls, is nested too deeply to be followed: {code} and rules "
        "like it were not applied",
        op=op.qualname,
        remedy="split it into functions, or loop over a table",
    )


def repair_of(finding: Finding) -> str | None:
    """Return "safe" or "unsafe" where a finding has a repair, None where it has none."""
    if finding.intent is None:
        return None
    return next((r.repair for r in all_rules() if r.code == finding.code), None)
