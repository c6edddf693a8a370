"""Migrating a project in memory: plan, apply, read again, until nothing more can be done."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opscaffold.config.model import Registrar
from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.migrate.bindings import Syntaxes
from opscaffold.migrate.documents import Example, Snippet, collect, read_document, splice
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.plan import OpPlan, Refused, plan_split
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.rewrite import rewrite
from opscaffold.rules.base import position
from opscaffold.rules.catalog import apply_rules
from opscaffold.rules.maybe_out import RULE as MAYBE_OUT
from opscaffold.rules.notices import unreadable
from opscaffold.rules.optional_side_output import RULE as SIDE_OUTPUT
from opscaffold.source.files import find_documents, find_root
from opscaffold.source.load import Problem
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project, load_project

_REPAIRED = (MAYBE_OUT, SIDE_OUTPUT)


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
    registrars: Sequence[Registrar] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> Migration:
    """Plan the migration of all ops defined in ``paths``; nothing is written.

    Each round plans the ops whose changes do not touch one another, applies them in memory and
    reads the project again. An op whose change does not parse, or leaves the breach it should
    repair, is withdrawn: everything is planned anew without it, and it is reported as a fault of
    opscaffold.
    """
    withdrawn: dict[str, Finding] = {}
    while True:
        run = _Run(paths, root, exclude, registrars, withdrawn, progress)
        if run.to_the_end():
            return run.result()


class _Run:
    """One attempt to migrate a project, leaving out the ops withdrawn before."""

    def __init__(
        self,
        paths: Sequence[Path],
        root: Path | None,
        exclude: Sequence[str],
        registrars: Sequence[Registrar],
        withdrawn: dict[str, Finding],
        progress: Callable[[str], None],
    ) -> None:
        self.paths, self.exclude, self.withdrawn = paths, exclude, withdrawn
        self.progress, self.registrars = progress, registrars
        self.root = root if root is not None else find_root(paths)
        self.documents = find_documents([self.root], self.root, exclude=exclude)
        self.overlay: dict[Path, bytes] = {}
        self.plans: list[OpPlan] = []
        self.findings: list[Finding] = []
        # A file is only opened where an op is looked for: what one round met, the next may not.
        self.problems: dict[Path, Problem] = {}
        self.project = self._load()
        self.ops = len(self.project.ops)

    def _load(self, more: dict[Path, bytes] | None = None) -> Project:
        documents = frozenset(self.documents)
        overlay = {p: data for p, data in self.overlay.items() if p not in documents}
        overlay |= more or {}
        return load_project(self.paths, self.root, self.exclude, overlay, self.registrars)

    def to_the_end(self) -> bool:
        """Go round until nothing more can be done; False where an op was withdrawn."""
        while True:
            ready, snippets = self._plan()
            self.problems |= {problem.path: problem for problem in self.project.problems}
            if ready is None:
                return False
            if not ready:
                return True
            self.progress(f"{len(self.plans) + len(ready)} of {self.ops} ops")
            if not self._rewrite_prose(ready, snippets):
                if not self._apply(ready):
                    return False
                self.plans += ready
            self.project = self._load()

    def result(self) -> Migration:
        """What the run came to."""
        migration = Migration(self.project.root, ops=self.ops, plans=self.plans)
        unread = [unreadable(problem) for _, problem in sorted(self.problems.items())]
        migration.findings = [*self.findings, *self.withdrawn.values(), *unread]
        migration.notes = [note for plan in self.plans for note in plan.notes]
        for path, new in sorted(self.overlay.items()):
            old = path.read_bytes()
            if old != new:
                migration.changes[path] = (old, new)
        return migration

    def _plan(self) -> tuple[list[OpPlan] | None, dict[Path, Snippet]]:
        """Plans that can be applied together (None: an op was withdrawn), and the prose read."""
        self.findings = []
        done = {plan.op for plan in self.plans}
        wanted: list[tuple[Op, Finding]] = []
        ops = {op.qualname: op for op in self.project.ops}
        for finding in apply_rules(self.project, _REPAIRED):
            if finding.intent is None:
                self.findings.append(finding)
            elif finding.op in done:
                self._withdraw(finding, "the breach was still there afterwards")
                return None, {}
            elif finding.op not in self.withdrawn:
                wanted.append((ops[finding.op], finding))
        snippets = self._read_prose([op for op, _ in wanted])
        ready: list[OpPlan] = []
        taken: dict[Path, FileEdits] = {}
        reserved: dict[Path, set[str]] = {}
        syntaxes = Syntaxes()
        for op, finding in wanted:
            current = self._same_op(op)
            if finding.intent is None or current is None:
                continue
            plan = plan_split(self.project, current, finding.intent, syntaxes, snippets, reserved)
            if isinstance(plan, Refused):
                self.findings += _refusals(op, finding, plan)
            elif not any(taken[p].conflicts(e) for p, e in plan.edits.items() if p in taken):
                for path, edits in plan.edits.items():
                    taken.setdefault(path, FileEdits()).update(edits)
                ready.append(plan)
        return ready, snippets

    def _read_prose(self, ops: list[Op]) -> dict[Path, Snippet]:
        """Read docstrings and documents that mention these ops into the project."""
        words = {op.name for op in ops}
        words |= {getattr(op.definition.function, "name", op.name) for op in ops}
        found = collect(self.project, self.documents, self.overlay, words) if words else []
        snippets = {snippet.path: snippet for snippet in found}
        if snippets:
            self.project = self._load({p: s.text.encode() for p, s in snippets.items()})
        return snippets

    def _same_op(self, op: Op) -> Op | None:
        here = op.definition
        return next(
            (
                o
                for o in self.project.ops
                if o.qualname == op.qualname
                and o.definition.module.path == here.module.path
                and o.definition.statement.lineno == here.statement.lineno
            ),
            None,
        )

    def _rewrite_prose(self, ready: list[OpPlan], snippets: dict[Path, Snippet]) -> bool:
        """Rewrite what prose the plans change, and leave the rest to the next round."""
        syntaxes = Syntaxes()
        replaced: dict[Path, list[tuple[Example, list[str]]]] = {}
        for path, edits in _merged(ready).items():
            module = self.project.module_for(path) if path in snippets else None
            if module is None:
                continue
            text = rewrite(syntaxes.of(module), edits)
            snippet = snippets[path]
            replaced.setdefault(snippet.host, []).extend(snippet.replaced(text))
        for host, changes in replaced.items():
            data = self.overlay.get(host) or host.read_bytes()
            source = read_document(host, data)
            if source is not None and changes:
                self.overlay[host] = splice(source, changes)
        return any(replaced.values())

    def _apply(self, ready: list[OpPlan]) -> bool:
        """Apply plans to the overlay; False where a result does not parse."""
        syntaxes = Syntaxes()
        results: dict[Path, bytes] = {}
        for path, edits in _merged(ready).items():
            module = self.project.module_for(path)
            new = None if module is None else _rewritten(module, edits, syntaxes)
            if new is None:
                for plan in ready:
                    if path in plan.edits:
                        where = Position(path, 1, 1)
                        rule = MAYBE_OUT
                        finding = Finding(rule.code, rule.name, rule.severity, where, "", plan.op)
                        self._withdraw(finding, "the changed file would not parse")
                return False
            results[path] = new
        self.overlay.update(results)
        return True

    def _withdraw(self, finding: Finding, reason: str) -> None:
        self.withdrawn[finding.op] = Finding(
            finding.code,
            finding.name,
            Severity.ERROR,
            finding.position,
            f"the change to this op was withdrawn: {reason}; this is a fault of opscaffold",
            finding.op,
            "please report it, and split the op by hand",
        )


def _merged(plans: Iterable[OpPlan]) -> dict[Path, FileEdits]:
    merged: dict[Path, FileEdits] = {}
    for plan in plans:
        for path, edits in plan.edits.items():
            merged.setdefault(path, FileEdits()).update(edits)
    return merged


def _rewritten(module: Module, edits: FileEdits, syntaxes: Syntaxes) -> bytes | None:
    text = rewrite(syntaxes.of(module), edits)
    try:
        ast.parse(text)
        return module.source.encode(text)
    except (SyntaxError, ValueError):
        return None


def _refusals(op: Op, finding: Finding, refused: Refused) -> Iterable[Finding]:
    """One finding a reason, each where its reason stands."""
    for reason in refused.reasons:
        yield Finding(
            finding.code,
            finding.name,
            finding.severity,
            _place(refused, reason),
            f"{finding.message}; not rewritten: {reason.reason}",
            op.qualname,
            reason.remedy,
            (finding.position,),
        )


def _place(refused: Refused, reason: RefusalError) -> Position:
    if isinstance(reason.where, Position):
        return reason.where
    module = reason.where if isinstance(reason.where, Module) else refused.module
    node = reason.node if reason.node is not None else refused.node
    return position(module, node)
