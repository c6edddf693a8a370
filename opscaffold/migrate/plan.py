"""The plan for one op: its definition, what is attached to it, and every place that uses it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst

from opscaffold.effects.buffers import Argument
from opscaffold.findings.intents import SplitMaybeOut
from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.migrate.attached import FakeEditor, new_fake
from opscaffold.migrate.bindings import Bindings, Syntaxes
from opscaffold.migrate.calls import Signature, buffer_argument
from opscaffold.migrate.definition import check_definition, torch_import, torch_tag
from opscaffold.migrate.derive_fake import UnderivableError
from opscaffold.migrate.documents import Snippet
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.sites import Sites
from opscaffold.migrate.split import SplitNames, split
from opscaffold.migrate.syntax import SyntaxMismatchError
from opscaffold.rules import missing_fake
from opscaffold.rules.base import OpFacts, position
from opscaffold.source.files import read_bytes
from opscaffold.source.model import Module, Op, Role, Use
from opscaffold.source.project import Project

MENTION_CODE = "OPS190"
MENTION_NAME = "mention"


@dataclass(slots=True)
class OpPlan:
    """All that changes for one op, and what is left to say."""

    op: str
    new_op: str
    edits: dict[Path, FileEdits] = field(default_factory=dict)
    notes: list[Finding] = field(default_factory=list)
    calls: int = 0


@dataclass(slots=True)
class Refused:
    """An op that stays as it is, and every reason for it."""

    op: str
    reasons: list[RefusalError]
    module: Module
    node: ast.AST


def plan_split(
    project: Project,
    op: Op,
    intent: SplitMaybeOut,
    syntaxes: Syntaxes,
    snippets: Mapping[Path, Snippet],
    reserved: dict[Path, set[str]],
) -> OpPlan | Refused:
    """Plan the split of one op with all that belongs to it, or say why not.

    What stands in a snippet (see ``documents``) is rewritten where it can be, and otherwise
    noted: prose never keeps an op from being split. ``reserved`` are the names that plans made
    together bind, by file; this plan's are added.
    """
    names = reserved.setdefault(op.definition.module.path, set())
    planner = _SplitPlanner(project, op, intent, syntaxes, snippets, names)
    try:
        return planner.plan()
    except RefusalError as refusal:
        planner.reasons.append(refusal)
    except SyntaxMismatchError as error:
        reason = RefusalError(None, str(error), "migrate this op by hand")
        planner.reasons.append(reason)
    node = op.definition.function or op.definition.statement
    return Refused(op.qualname, planner.reasons, op.definition.module, node)


class _SplitPlanner:
    def __init__(
        self,
        project: Project,
        op: Op,
        intent: SplitMaybeOut,
        syntaxes: Syntaxes,
        snippets: Mapping[Path, Snippet],
        reserved: set[str],
    ) -> None:
        self.snippets = snippets
        self.reserved = reserved
        self.project = project
        self.op = op
        self.buffer = intent.buffer
        self.syntaxes = syntaxes
        self.reasons: list[RefusalError] = []
        self.module = op.definition.module

    def plan(self) -> OpPlan:
        function, call = check_definition(self.project, self.op, self.buffer)
        facts = OpFacts(self.project, self.op)
        arguments, use = facts.arguments, facts.buffers[self.buffer]
        names = self.names(function)
        edits: dict[Module, FileEdits] = {}
        for registration in self.op.attached:
            if registration.role is not Role.FAKE:
                self.reasons.append(
                    RefusalError(
                        registration.statement,
                        f"`{registration.role.value}` is attached to the op, and would have to be "
                        "split with it",
                        "split this op by hand",
                        registration.module,
                    )
                )
        halves = split(self.syntaxes.of(self.module), function, call, use, names)
        plan = OpPlan(self.op.qualname, names.out_qualname)
        statements: list[cst.BaseStatement] = list(halves.statements())
        editor = FakeEditor(self.project, self.syntaxes, arguments, self.buffer)
        fakes = [r for r in self.op.attached if r.role is Role.FAKE]
        for registration in fakes:
            editor.edit(registration, edits)
        if not fakes:
            fake = self.derived_fake(function, halves.functional, arguments, plan)
            if fake is not None:
                statements.insert(statements.index(halves.out), fake)
        syntax = self.syntaxes.of(self.module)
        target = edits.setdefault(self.module, FileEdits())
        target.statements[syntax.key(function)] = statements
        target.import_torch = self.needs_torch(function, names.tag)
        bindings = Bindings(
            self.project, self.op, names.out_function, names.out_qualname, self.syntaxes
        )
        self.plan_sites(bindings, Signature.of(function, self.buffer), function, plan)
        if self.reasons:
            raise self.reasons.pop()
        for path, found in bindings.edits.items():
            plan.edits.setdefault(path, FileEdits()).update(found)
        for module, found in edits.items():
            plan.edits.setdefault(module.path, FileEdits()).update(found)
        return plan

    def needs_torch(self, function: ast.FunctionDef, tag: str) -> bool:
        """Whether ``import torch`` must be added for the tag."""
        decorators = " ".join(ast.unparse(d) for d in function.decorator_list)
        if tag.removesuffix(".Tag.out") + "." in decorators:
            return False
        if torch_import(self.module, function) is not None:
            return False
        for node in ast.walk(self.module.tree):
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Store)
                and node.id == "torch"
            ):
                raise RefusalError(
                    node, "the name `torch` is something else here", "import torch by its name"
                )
        return True

    def names(self, function: ast.FunctionDef) -> SplitNames:
        """Choose the new names, and refuse ones that are taken."""
        old = self.op.qualname
        new = f"{old}_out"
        plain = function.name if function.name != "_" else self.op.name
        names = SplitNames(
            old,
            new,
            "_" if function.name == "_" else f"{function.name}_out",
            self.free_name(function, f"_{plain.lstrip('_')}_kernel"),
            torch_tag(self.project, self.module, function),
        )
        taken = self.project.bindings_in_scope(self.module, function) | self.reserved
        if names.out_function in taken and names.out_function != "_":
            raise RefusalError(
                function,
                f"the name `{names.out_function}`, which the split needs, is already in use here",
                f"rename what is called `{names.out_function}`",
            )
        self.reserved.add(names.out_function)
        every = [o.qualname for o in self.project.all_ops]
        every += [r.qualname for r in self.project.stray if r.qualname]
        if new in every or f"{old}.out" in every:
            other = new if new in every else f"{old}.out"
            raise RefusalError(
                function,
                f"there is an op `{other}` already",
                f"take the buffer out of `{old}`, and let its callers use `{other}`",
            )
        return names

    def free_name(self, function: ast.FunctionDef, wanted: str) -> str:
        """A private name that nothing has here, now or by another plan: ``wanted`` if possible."""
        taken = self.project.bindings_in_scope(self.module, function) | self.reserved
        taken |= {n.id for n in ast.walk(self.module.tree) if isinstance(n, ast.Name)}
        names = (wanted, *(f"{wanted}_{number}" for number in range(2, len(taken) + 3)))
        name = next(n for n in names if n not in taken)
        self.reserved.add(name)
        return name

    def derived_fake(
        self,
        function: ast.FunctionDef,
        functional: cst.FunctionDef,
        arguments: list[Argument],
        plan: OpPlan,
    ) -> cst.FunctionDef | None:
        """A fake kernel for the functional half, or a note that it is missing."""
        name = self.free_name(function, f"_{function.name.strip('_') or self.op.name}_fake")
        decorator = f"{function.name}.register_fake"
        if function.name == "_":
            root = torch_tag(self.project, self.module, function).removesuffix(".Tag.out")
            decorator = f'{root}.library.register_fake("{self.op.qualname}")'
        tensors = [a.name for a in arguments if a.tensor and a.name != self.buffer]
        try:
            return new_fake(self.project, self.op, functional, tensors, name, decorator)
        except UnderivableError as error:
            reason = str(error)
        plan.notes.append(
            missing_fake.RULE.finding(
                self.module,
                function,
                f"the functional op has no fake kernel, so it cannot be compiled or exported, and "
                f"none can be derived: {reason}",
                op=self.op.qualname,
                remedy=f"register one with `@{decorator}`; sizes that depend on data come from "
                "torch.library.get_ctx().new_dynamic_size()",
            )
        )
        return None

    def plan_sites(
        self,
        bindings: Bindings,
        signature: Signature,
        function: ast.FunctionDef,
        plan: OpPlan,
    ) -> None:
        """Plan every reference; collect every reason against."""
        sites = Sites(self.project, bindings, signature)
        own = {id(n) for n in ast.walk(function)}
        for reference in self.project.references(self.op):
            edited = len(sites.edited)
            try:
                sites.plan(reference)
                if len(sites.edited) > edited and id(reference.node) in own:
                    raise RefusalError(
                        reference.node, "the op calls itself with the buffer", "split it by hand"
                    )
            except RefusalError as refusal:
                snippet = self.snippets.get(reference.module.path)
                if snippet is None:
                    self.reasons.append(refusal)
                else:
                    line = getattr(refusal.node, "lineno", 1)
                    plan.notes.append(self.mention(snippet, line, refusal.reason))
            if reference.use is Use.STRING and reference.module.path not in self.snippets:
                plan.notes.append(self.string_note(reference.module, reference.node))
        plan.calls = len(sites.edited)
        for module, call in sites.unseen:
            plan.notes.append(self.unseen_note(module, call))
        self.check_untraced(signature, function, plan)
        self.note_unbound_mentions(signature, function, plan)

    def unseen_note(self, module: Module, call: ast.Call) -> Finding:
        """A test of the op with arguments out of sight."""
        return Finding(
            MENTION_CODE,
            MENTION_NAME,
            Severity.INFO,
            position(module, call),
            f"`{ast.unparse(call.func)}` tests `{self.op.qualname}` with arguments that are not in "
            f"sight here: they must leave out `{self.buffer}` now",
            self.op.qualname,
            f"test `{self.op.qualname}_out` by itself",
        )

    def check_untraced(self, signature: Signature, function: ast.FunctionDef, plan: OpPlan) -> None:
        """Look for calls that pass the buffer to something of the op's name, out of sight."""
        self.check_unreadable(function)
        known = {id(r.call) for r in self.project.references(self.op) if r.call is not None}
        for module in self.project.modules:
            if module.path in self.snippets:
                continue
            for call in (n for n in module.parents if isinstance(n, ast.Call)):
                func = call.func
                if not isinstance(func, ast.Attribute) or id(call) in known:
                    continue
                if func.attr != function.name or not _passes(call, signature):
                    continue
                owner = self.project.resolve(module, func.value)
                sure = owner.certain
                if sure is not None and sure.is_module:
                    self.reasons.append(
                        RefusalError(
                            call,
                            f"`{ast.unparse(func)}` is not in sight, may be the op, and is given "
                            f"`{self.buffer}`",
                            "import the op from the module that defines it",
                            module,
                        )
                    )
                elif not owner.complete:
                    plan.notes.append(
                        Finding(
                            MENTION_CODE,
                            MENTION_NAME,
                            Severity.WARNING,
                            position(module, call),
                            f"this may call `{self.op.qualname}` with its old buffer, and was left "
                            f"as it is: what `{ast.unparse(func.value)}` is cannot be told",
                            self.op.qualname,
                            f"call the out= op here, if `{self.op.qualname}` is meant",
                        )
                    )

    def check_unreadable(self, function: ast.FunctionDef) -> None:
        """An op that a file out of sight seems to call stays as it is."""
        names = "|".join(re.escape(n) for n in {function.name, self.op.name} - {"_"})
        call = re.compile(rf"\b({names})\s*\(".encode())
        for problem in self.project.problems:
            if call.search(read_bytes(problem.path) or b""):
                where = Position(problem.path, problem.line, problem.column)
                reason = "this file cannot be read, and seems to call the op"
                self.reasons.append(RefusalError(None, reason, "mend or exclude the file", where))

    def note_unbound_mentions(
        self, signature: Signature, function: ast.FunctionDef, plan: OpPlan
    ) -> None:
        """Note calls in prose that name the op without saying where the name comes from."""
        for path, snippet in sorted(self.snippets.items()):
            module = self.project.module_for(path)
            if module is None:
                continue
            for node in ast.walk(module.tree):
                match node:
                    case ast.Call(func=ast.Name(id=name) as func) if name == function.name:
                        if name in self.project.bindings_in_scope(module, func):
                            continue
                    case ast.Call(func=ast.Attribute(attr=name, value=owner)):
                        if name != function.name or self.project.op_of(module, node.func):
                            continue
                        if self.project.resolve(module, owner).complete:
                            continue
                    case _:
                        continue
                try:
                    passed = buffer_argument(node, signature) is not None
                except RefusalError:
                    passed = True
                if passed:
                    reason = f"`{name}` is not imported in the example"
                    plan.notes.append(self.mention(snippet, node.lineno, reason))

    def mention(self, snippet: Snippet, line: int, reason: str) -> Finding:
        """A place in prose that a person should look at."""
        return Finding(
            MENTION_CODE,
            MENTION_NAME,
            Severity.INFO,
            Position(snippet.host, snippet.line_in_host(line)),
            f"this example may call `{self.op.qualname}` with its old buffer, and was left as it "
            f"is: {reason}",
            self.op.qualname,
            f"call the out= op there, if `{self.op.qualname}` is meant",
        )

    def string_note(self, module: Module, node: ast.AST) -> Finding:
        """A mention of the op in a string may concern the new op too."""
        return Finding(
            MENTION_CODE,
            MENTION_NAME,
            Severity.INFO,
            position(module, node),
            f"this string names `{self.op.qualname}`, which no longer takes `{self.buffer}`",
            self.op.qualname,
            f"see whether `{self.op.qualname}_out` is meant as well",
        )


def _passes(call: ast.Call, signature: Signature) -> bool:
    """Whether a call may pass the buffer, as far as its arguments show."""
    try:
        return buffer_argument(call, signature) is not None
    except RefusalError:
        return any(k.arg == signature.buffer for k in call.keywords)
