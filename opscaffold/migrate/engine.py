"""Migrating a project in memory: plan, apply, read again, until nothing more can be done."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opscaffold.findings.model import Finding
from opscaffold.migrate.asked import Request, refuse_unknown
from opscaffold.migrate.bindings import Syntaxes
from opscaffold.migrate.call_sites import CallSite, call_sites
from opscaffold.migrate.documents import Example, Snippet, collect, read_document, splice
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.outcomes import Left, declined, refusals, reported, withdrawal
from opscaffold.migrate.plan import Context, OpPlan, Refused
from opscaffold.migrate.plan_compat import keep_callable
from opscaffold.migrate.postcheck import contracts_after, definitions, encoded, fault_after
from opscaffold.migrate.repairs import first_repair, plan_repair
from opscaffold.migrate.rewrite_file import rewrite
from opscaffold.migrate.steps import Changes, Step, unpaired_prose
from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.rules.contracts import contract_of
from opscaffold.rules.notices import unreadable
from opscaffold.rules.optional_side_output import RULE as SIDE_OUTPUT
from opscaffold.rules.suppression import Suppression
from opscaffold.source.files import find_documents, find_root
from opscaffold.source.load import Problem
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project, load_project

Accept = Callable[[Step], bool]
"""Decides whether a repair is wanted, given what it alone would change."""

Prove = Callable[["Migration"], Mapping[str, str]]
"""Puts a finished plan to the test; names the ops whose repair failed it, with the reason."""

Progress = Callable[[int, int], None]
"""Is told how many repairs are made, and how many there are to make as far as is known."""


@dataclass(slots=True)
class Migration:
    """What a migration changes and what it leaves.

    ``changes`` maps each changed file to its bytes before and after; ``steps`` lead from the one
    to the other. ``findings`` are the breaches that stay, ``left`` says why those of ops do, and
    ``notes`` are what a person should look at although nothing is wrong by rule.
    """

    root: Path
    changes: Changes = field(default_factory=dict)
    plans: list[OpPlan] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    ops: int = 0


def migrate(
    paths: Sequence[Path],
    request: Request | None = None,
    *,
    root: Path | None = None,
    accept: Accept | None = None,
    prove: Prove | None = None,
    progress: Progress | None = None,
) -> Migration:
    """Plan the migration of all ops defined in ``paths``; nothing is written.

    Each round plans the ops whose changes do not touch one another, applies them in memory and
    reads the project again. An op whose change does not parse, leaves the breach it should
    repair, or leaves the op without the contract it should have, is withdrawn: everything is
    planned anew without it, and it is reported as a fault of opscaffold. ``accept`` is asked once
    for each repair; an op of which one was declined is left alone from there on. What fails
    ``prove`` is withdrawn likewise. Raises UnknownOpError, and UnknownSelectorError for a rule in
    the configuration that there is not.
    """
    withdrawn: dict[str, Left] = {}
    answers: dict[tuple[str, str], bool] = {}
    while True:
        run = _Run(paths, root, request or Request(), withdrawn, progress)
        run.accept, run.answers = accept, answers
        if run.to_the_end() and (prove is None or run.stands(prove)):
            return run.result()
        # A project holds itself, and nobody else may look for such garbage.
        del run
        gc.collect()


class _Run:
    """One attempt to migrate a project, leaving out the ops withdrawn before."""

    def __init__(
        self,
        paths: Sequence[Path],
        root: Path | None,
        request: Request,
        withdrawn: dict[str, Left],
        progress: Progress | None,
    ) -> None:
        self.paths, self.request, self.withdrawn = paths, request, withdrawn
        self.progress = progress
        self.accept: Accept | None = None
        self.answers: dict[tuple[str, str], bool] = {}
        self.root = root if root is not None else find_root(paths)
        self.documents = find_documents([self.root], self.root, exclude=request.exclude)
        self.overlay: dict[Path, bytes] = {}
        self.plans: list[OpPlan] = []
        self.steps: list[Step] = []
        self.left: list[Left] = []
        self.chosen: dict[int, tuple[Op, list[Finding]]] = {}
        # A file is only opened where an op is looked for: what one round met, the next may not.
        self.problems: dict[Path, Problem] = {}
        self.first: frozenset[tuple[str, str]] | None = None
        self.project = self._load()
        self.ops = len(self.project.ops)
        refuse_unknown(request.only, self.project)
        holds = request.codes
        self.rules = [
            rule
            for rule in all_rules()
            if (rule.repair or rule is SIDE_OUTPUT) and (holds is None or rule.code in holds)
        ]

    def _load(self, more: dict[Path, bytes] | None = None) -> Project:
        documents = frozenset(self.documents)
        overlay = {p: data for p, data in self.overlay.items() if p not in documents}
        overlay |= more or {}
        asked, known = self.request, getattr(self, "project", None)
        given = (self.paths, self.root, asked.exclude, overlay, asked.config.registrars)
        return load_project(*given, earlier=known)

    def to_the_end(self) -> bool:
        """Go round until nothing more can be done; False where an op was withdrawn."""
        while True:
            ready, snippets = self._plan()
            self.problems |= {problem.path: problem for problem in self.project.problems}
            if ready is None:
                return False
            if not ready:
                lone = unpaired_prose(self.steps)
                if lone is not None:
                    return self._withdraw(lone.plan, "only its prose would have been rewritten")
                return True
            if self._rewrite_prose(ready, snippets):
                self.project = self._load()
                continue
            before = {plan.op: definitions(self.project, plan.op) for plan in ready}
            if not self._apply(ready, snippets):
                return False
            self.plans += ready
            self.project = self._load()
            for step in self.steps[-len(ready) :]:
                step.new = contracts_after(self.project, step)
                fault = fault_after(self.project, step, before[step.plan.op])
                if fault:
                    return self._withdraw(step.plan, fault)

    def result(self) -> Migration:
        """What the run came to."""
        migration = Migration(self.project.root, ops=self.ops, plans=self.plans)
        migration.steps = self.steps
        unread = [unreadable(problem) for _, problem in sorted(self.problems.items())]
        migration.left = [*self.left, *self.withdrawn.values()]
        migration.findings = [*(left.finding for left in migration.left), *unread]
        migration.notes = [note for plan in self.plans for note in plan.notes]
        for path, new in sorted(self.overlay.items()):
            old = path.read_bytes()
            if old != new:
                migration.changes[path] = (old, new)
        return migration

    def stands(self, prove: Prove) -> bool:
        """Whether all repairs stand the test; False where an op was withdrawn."""
        failed = prove(self.result())
        for plan in self.plans:
            if plan.op in failed:
                self._withdraw(plan, failed[plan.op])
        return not any(plan.op in failed for plan in self.plans)

    def _found(self) -> list[Finding]:
        """What the rules find now, less what is held back.

        Of ops that no repair touched, what was found at first: a repair of one op, such as a
        fake kernel, may be why a rule speaks of another.
        """
        touched = {op for plan in self.plans for op in (plan.op, *plan.new_ops)}
        told = None if self.first is None else touched.union(op for op, _ in self.first)
        made = apply_rules(self.project, self.rules, among=told)
        found = Suppression(self.project, self.request.config).apply(made, frozenset())
        if self.first is None:
            self.first = frozenset((f.op, f.code) for f in found)
        found += keep_callable(self.plans)
        return [f for f in found if f.op in touched or (f.op, f.code) in self.first]

    def _plan(self) -> tuple[list[OpPlan] | None, dict[Path, Snippet]]:
        """Plans that can be applied together (None: an op was withdrawn), and the prose read."""
        self.left = []
        done = {(plan.op, code) for plan in self.plans for code in plan.codes}
        wanted: dict[str, list[Finding]] = {}
        for finding in self._found():
            if self.request.only and finding.op not in self.request.only:
                continue
            if finding.intent is None:
                self.left.append(reported(finding))
            elif (finding.op, finding.code) in done:
                self.withdrawn[finding.op] = withdrawal(
                    finding, "the breach was still there afterwards"
                )
                return None, {}
            elif finding.op not in self.withdrawn:
                wanted.setdefault(finding.op, []).append(finding)
        ops = {op.qualname: op for op in self.project.ops}
        snippets = self._read_prose([ops[name] for name in wanted])
        self.project.expect(wanted)
        self.context = context = Context(self.project, Syntaxes(), snippets, self.request.options)
        ready: list[OpPlan] = []
        taken: dict[Path, FileEdits] = {}
        for name, findings in wanted.items():
            if self.progress is not None:
                planned = len(self.plans)
                self.progress(planned + len(ready), planned + len(wanted))
            current = self._same_op(ops[name])
            if current is None:
                continue
            plan = self._first_plan(context, current, findings)
            if plan is None:
                continue
            if not any(taken[p].conflicts(e) for p, e in plan.edits.items() if p in taken):
                for path, edits in plan.edits.items():
                    taken.setdefault(path, FileEdits()).update(edits)
                ready.append(plan)
        return ready, snippets

    def _first_plan(self, context: Context, op: Op, findings: list[Finding]) -> OpPlan | None:
        """The first of an op's repairs that can be made; those that cannot are reported."""
        left = findings
        while left:
            chosen = first_repair(left)
            left = [finding for finding in left if finding not in chosen]
            plan = plan_repair(context, op, chosen)
            if isinstance(plan, Refused):
                self.left += refusals(op, chosen, plan)
                continue
            self.chosen[id(plan)] = (op, chosen)
            if self._is_wanted(plan, context):
                return plan
            self.left += [declined(finding) for finding in (*chosen, *left)]
            return None
        return None

    def _is_wanted(self, plan: OpPlan, context: Context) -> bool:
        if self.accept is None:
            return True
        key = (plan.op, plan.does)
        if key not in self.answers:
            no = any(op == plan.op and not yes for (op, _), yes in self.answers.items())
            self.answers[key] = not no and self.accept(self._preview(plan, context))
        return self.answers[key]

    def _preview(self, plan: OpPlan, context: Context) -> Step:
        """What one repair alone would change."""
        step, prose = self._step(plan, {}), {}
        for path, edits in plan.edits.items():
            module = self.project.module_for(path)
            if module is None:
                continue
            if path in context.snippets:
                prose[path] = edits
            new = rewrite(context.syntaxes.of(module), edits)
            step.sites += self._sites(plan, module, new, context.snippets, context.syntaxes)
            if path not in context.snippets:
                step.changes[path] = (self._bytes(path), module.source.encode(new))
        for host in {context.snippets[path].host for path in prose} - step.changes.keys():
            data = self._bytes(host)
            shown = self._prose(host, data, prose, context.snippets, context.syntaxes)
            step.changes[host] = (data, data if shown is None else shown)
        return step

    def _step(self, plan: OpPlan, changes: Changes, *, prose: bool = False) -> Step:
        """A step as far as it is known before it is made."""
        op, findings = self.chosen[id(plan)]
        intents = tuple(f.intent for f in findings if f.intent is not None)
        module = op.definition.module
        old = contract_of(self.project, op)
        return Step(plan, changes, intents, prose, old=old, defined=(module.path, module.name))

    def _sites(
        self,
        plan: OpPlan,
        module: Module,
        new: str,
        snippets: Mapping[Path, Snippet],
        syntaxes: Syntaxes,
    ) -> tuple[CallSite, ...]:
        """The call sites that a plan changes in one file, which as a whole becomes ``new``."""
        snippet = snippets.get(module.path)
        host = module.path if snippet is None else snippet.host
        disk = host.read_bytes() if host in self.overlay else None
        edits = plan.edits[module.path]
        syntax = syntaxes.of(module)
        return call_sites(syntax, module, edits, new, snippet, self._bytes(host), disk)

    def _bytes(self, path: Path) -> bytes:
        return self.overlay[path] if path in self.overlay else path.read_bytes()

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
        def place(op: Op) -> tuple[str, Path, int]:
            here = op.definition
            return op.qualname, here.module.path, here.statement.lineno

        return next((o for o in self.project.ops if place(o) == place(op)), None)

    def _rewrite_prose(self, ready: list[OpPlan], snippets: dict[Path, Snippet]) -> bool:
        """Rewrite what prose the plans change, and leave the rest to the next round."""
        syntaxes = self.context.syntaxes
        merged: dict[Path, FileEdits] = {}
        before = dict(self.overlay)
        for plan in ready:
            touched = [path for path in plan.edits if path in snippets]
            for path in touched:
                merged.setdefault(path, FileEdits()).update(plan.edits[path])
            hosts = {snippets[path].host for path in touched}
            changes: Changes = {}
            sites: tuple[CallSite, ...] = ()
            for path in touched:
                module = self.project.module_for(path)
                if module is not None:
                    text = rewrite(syntaxes.of(module), merged[path])
                    sites += self._sites(plan, module, text, snippets, syntaxes)
            for host in sorted(hosts):
                old = self._bytes(host)
                original = before.get(host) or host.read_bytes()
                new = self._prose(host, original, merged, snippets, syntaxes)
                if new is not None and new != old:
                    changes[host] = (old, new)
            if changes:
                step = self._step(plan, changes, prose=True)
                step.sites = sites
                self.overlay.update({path: new for path, (_, new) in changes.items()})
                self.steps.append(step)
        return self.overlay != before

    def _prose(
        self,
        host: Path,
        data: bytes,
        merged: dict[Path, FileEdits],
        snippets: Mapping[Path, Snippet],
        syntaxes: Syntaxes,
    ) -> bytes | None:
        replaced: list[tuple[Example, list[str]]] = []
        for path, edits in merged.items():
            module = self.project.module_for(path)
            if snippets[path].host == host and module is not None:
                replaced += snippets[path].replaced(rewrite(syntaxes.of(module), edits))
        source = read_document(host, data)
        return splice(source, replaced) if source is not None and replaced else None

    def _apply(self, ready: list[OpPlan], snippets: dict[Path, Snippet]) -> bool:
        """Apply plans to the overlay; False where a result does not parse."""
        syntaxes = self.context.syntaxes
        merged: dict[Path, FileEdits] = {}
        for plan in ready:
            step = self._step(plan, {})
            for path, edits in plan.edits.items():
                if path in snippets:
                    continue
                merged.setdefault(path, FileEdits()).update(edits)
                module = self.project.module_for(path)
                new = None if module is None else rewrite(syntaxes.of(module), merged[path])
                data = None if module is None or new is None else encoded(module, new)
                if module is None or new is None or data is None:
                    return self._withdraw(plan, "the changed file would not parse")
                step.changes[path] = (self._bytes(path), data)
                step.sites += self._sites(plan, module, new, snippets, syntaxes)
            # The project still holds what was read: each plan is applied to that, with those
            # before it.
            self.overlay.update({path: new for path, (_, new) in step.changes.items()})
            self.steps.append(step)
        return True

    def _withdraw(self, plan: OpPlan, reason: str) -> bool:
        """Leave an op out from now on; False, since all is to be planned anew."""
        _, findings = self.chosen[id(plan)]
        self.withdrawn[plan.op] = withdrawal(findings[0], reason)
        return False
