"""Migrating a project in memory: plan, apply, read again, until nothing more can be done."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.migrate.bindings import Syntaxes
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.plan import OpPlan, Refused, plan_split
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.rewrite import rewrite
from opscaffold.rules.maybe_out import CODE, NAME, check, position
from opscaffold.source.load import Problem
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project, load_project

_READ_CODE, _READ_NAME = "OPS001", "unreadable"


@dataclass(slots=True)
class Migration:
    """What a migration changes and what it leaves.

    ``changes`` maps each changed file to its bytes before and after. ``findings`` are the
    breaches that stay, ``notes`` what a person should look at although nothing is wrong by rule.
    """

    root: Path
    changes: dict[Path, tuple[bytes, bytes]] = field(default_factory=dict)
    plans: list[OpPlan] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    ops: int = 0


def migrate(
    paths: Sequence[Path],
    *,
    root: Path | None = None,
    exclude: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> Migration:
    """Plan the migration of all ops defined in ``paths``; nothing is written.

    Each round plans the ops whose changes do not touch one another, applies them in memory and
    reads the project again. A change that does not parse, or leaves the breach it should repair,
    is withdrawn and reported as a fault of opscaffold.
    """
    overlay: dict[Path, bytes] = {}
    withdrawn: dict[str, Finding] = {}
    plans: list[OpPlan] = []
    while True:
        project = load_project(paths, root, exclude, overlay)
        done = {p.op for p in plans}
        findings, ready, project_plans = _plan_round(project, withdrawn, done)
        if not ready:
            break
        progress(f"{len(ready)} of {len(project.ops)} ops")
        applied = _apply(project, ready, overlay, withdrawn)
        plans += applied
        if not applied and not project_plans:
            break
    migration = Migration(project.root, ops=len(project.ops) - len(plans))
    migration.plans = plans
    migration.findings = [*findings, *withdrawn.values(), *_problems(project)]
    migration.notes = [note for plan in plans for note in plan.notes]
    for path, new in sorted(overlay.items()):
        old = path.read_bytes()
        if old != new:
            migration.changes[path] = (old, new)
    return migration


def _plan_round(
    project: Project, withdrawn: dict[str, Finding], done: set[str]
) -> tuple[list[Finding], list[OpPlan], bool]:
    """The findings that stay, and plans that can be applied together."""
    findings: list[Finding] = []
    ready: list[OpPlan] = []
    taken: dict[Path, FileEdits] = {}
    syntaxes = Syntaxes()
    postponed = False
    for op in project.ops:
        for finding in check(project, op):
            if finding.intent is None:
                findings.append(finding)
                continue
            if op.qualname in withdrawn:
                continue
            if op.qualname in done:
                withdrawn[op.qualname] = _fault(finding, "the breach was still there afterwards")
                continue
            plan = plan_split(project, op, finding.intent, syntaxes)
            if isinstance(plan, Refused):
                findings += _refusals(project, op, finding, plan)
            elif any(taken[p].conflicts(e) for p, e in plan.edits.items() if p in taken):
                postponed = True
            else:
                for path, edits in plan.edits.items():
                    taken.setdefault(path, FileEdits()).update(edits)
                ready.append(plan)
    return findings, ready, postponed


def _apply(
    project: Project,
    ready: list[OpPlan],
    overlay: dict[Path, bytes],
    withdrawn: dict[str, Finding],
) -> list[OpPlan]:
    """Apply plans to the overlay; withdraw those whose result does not parse."""
    syntaxes = Syntaxes()
    while ready:
        merged: dict[Path, FileEdits] = {}
        for plan in ready:
            for path, edits in plan.edits.items():
                merged.setdefault(path, FileEdits()).update(edits)
        results: dict[Path, bytes] = {}
        broken: Path | None = None
        for path, edits in merged.items():
            module = project.module_for(path)
            new = None if module is None else _rewritten(module, edits, syntaxes)
            if new is None:
                broken = path
                break
            results[path] = new
        if broken is None:
            overlay.update(results)
            return ready
        for plan in [p for p in ready if broken in p.edits]:
            ready.remove(plan)
            where = Position(broken, 1, 1)
            finding = Finding(CODE, NAME, Severity.ERROR, where, "", plan.op)
            withdrawn[plan.op] = _fault(finding, "the changed file would not parse")
    return []


def _rewritten(module: Module, edits: FileEdits, syntaxes: Syntaxes) -> bytes | None:
    text = rewrite(syntaxes.of(module), edits)
    try:
        ast.parse(text)
        return module.source.encode(text)
    except (SyntaxError, ValueError):
        return None


def _fault(finding: Finding, reason: str) -> Finding:
    return Finding(
        finding.code,
        finding.name,
        Severity.ERROR,
        finding.position,
        f"the change to this op was withdrawn: {reason}; this is a fault of opscaffold",
        finding.op,
        "please report it, and split the op by hand",
    )


def _refusals(project: Project, op: Op, finding: Finding, refused: Refused) -> Iterable[Finding]:
    """One finding a reason, each where its reason stands."""
    for reason in refused.reasons:
        yield Finding(
            finding.code,
            finding.name,
            finding.severity,
            _place(project, refused, reason),
            f"{finding.message}; not rewritten: {reason.reason}",
            op.qualname,
            reason.remedy,
            (finding.position,),
        )


def _place(project: Project, refused: Refused, reason: RefusalError) -> Position:
    del project
    module = reason.where if isinstance(reason.where, Module) else refused.module
    node = reason.node if reason.node is not None else refused.node
    return position(module, node)


def _problems(project: Project) -> list[Finding]:
    return [_unreadable(problem) for problem in project.problems]


def _unreadable(problem: Problem) -> Finding:
    return Finding(
        _READ_CODE,
        _READ_NAME,
        Severity.WARNING,
        Position(problem.path, problem.line, problem.column),
        f"this file {problem.message}, so what it does with ops is not known",
        remedy="mend or exclude it",
    )
