"""The plan for one op: its definition, what is attached to it, and every place that uses it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import libcst as cst

from opscaffold.effects.buffers import Argument
from opscaffold.findings.intents import SplitMaybeOut
from opscaffold.findings.model import Finding
from opscaffold.migrate.attached import FakeEditor, new_fake
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.callers import Callers
from opscaffold.migrate.calls import Signature
from opscaffold.migrate.definition import check_definition, torch_import, torch_tag
from opscaffold.migrate.derive_fake import UnderivableError
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.split import SplitNames, split
from opscaffold.rules import missing_fake
from opscaffold.rules.base import OpFacts
from opscaffold.source.model import Module, Op, Role


def plan_split(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan the split of one op with all that belongs to it.

    What stands in a snippet (see ``documents``) is rewritten where it can be, and otherwise
    noted: prose never keeps an op from being split. Raises RefusedError with every reason.
    """
    intent = findings[0].intent
    if not isinstance(intent, SplitMaybeOut):
        raise TypeError("this finding intends another repair")
    planner = _SplitPlanner(context, op, intent)
    try:
        return planner.plan()
    except RefusalError as refusal:
        raise RefusedError([*planner.reasons, refusal]) from None


class _SplitPlanner:
    def __init__(self, context: Context, op: Op, intent: SplitMaybeOut) -> None:
        self.context = context
        self.project, self.syntaxes = context.project, context.syntaxes
        self.op = op
        self.buffer = intent.buffer
        self.module = op.definition.module
        self.reserved = context.names_in(self.module)
        self.reasons: list[RefusalError] = []

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
        old, new = self.op.qualname, names.out_qualname
        plan = OpPlan(old, f"split into {old} and {new}", (old, new))
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
        signature = Signature.of(function, self.buffer)
        self.reasons += Callers(self.context, self.op, signature, function, plan).plan_all(bindings)
        if self.reasons:
            raise RefusedError(self.reasons)
        plan.take(bindings.edits)
        plan.take({module.path: found for module, found in edits.items()})
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
