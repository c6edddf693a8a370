"""Splitting one maybe-out op: its definition, what is attached to it, and all that uses it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from opscaffold.effects.buffers import BufferUse, use_of_buffer
from opscaffold.findings.intents import SplitMaybeOut
from opscaffold.findings.model import Finding
from opscaffold.migrate.attached import FakeEditor, new_fake
from opscaffold.migrate.attached_plan import Attachments
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.callers import Callers
from opscaffold.migrate.calls import Signature
from opscaffold.migrate.definition import (
    check_definition,
    half_of,
    others_of,
    torch_import,
    torch_tag,
)
from opscaffold.migrate.delegates import delegates
from opscaffold.migrate.derive_fake import UnderivableError
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.forms import DefinitionForm, KernelSite, Place, read_form
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registering import Target, registering
from opscaffold.migrate.sequences import append
from opscaffold.migrate.signature import place_of_buffer
from opscaffold.migrate.split import Cut, Half, split
from opscaffold.rules import missing_fake
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.kernels import Kernel, kernels_of
from opscaffold.rules.names import ProjectNames
from opscaffold.rules.outputs import obstacle_to_split
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


@dataclass(frozen=True, slots=True)
class SplitNames:
    """The names that a split gives.

    ``variable`` is what the mutable op is called in its module, ``tag`` the text of Tag.out.
    """

    old_qualname: str
    new_qualname: str
    variable: str
    tag: str


class _SplitPlanner:
    def __init__(self, context: Context, op: Op, intent: SplitMaybeOut) -> None:
        self.context = context
        self.project, self.syntaxes = context.project, context.syntaxes
        self.op = op
        self.buffer = intent.buffer
        self.module = op.definition.module
        self.facts = OpFacts(context.project, op)
        self.reserved = context.names_in(self.module)
        self.declared: frozenset[str] = frozenset()
        self.reasons: list[RefusalError] = []
        self.edits: dict[Module, FileEdits] = {}

    def plan(self) -> OpPlan:
        form = read_form(self.project, self.op)
        check_definition(self.project, self.op, form, self.buffer)
        others = others_of(self.facts, self.buffer)
        self.declared = frozenset(others)
        half = half_of(self.facts, self.buffer, others, self.context.options)
        names = self.names(form)
        index = None if half is Half.OUT else self.index(form)
        old, new = names.old_qualname, names.new_qualname
        plan = OpPlan(old, f"split into {old} and {new}", (old, new))
        tag = names.tag if half is Half.OUT else ""
        fresh = Target(others, self.buffer)
        given = Target((*others, self.buffer), self.buffer, "_out", self.buffer, index, tag)
        fakes = [r for r in self.op.attached if r.role is Role.FAKE]
        editor = FakeEditor(self.project, self.syntaxes, self.facts.arguments, self.buffer)
        for registration in fakes:
            editor.edit(registration, self.edits)
        for kernel in form.kernels:
            self.split_kernel(form, kernel, fresh, given, plan, derive=not fakes)
        target = self.edits.setdefault(self.module, FileEdits())
        target.import_torch = half is Half.OUT and self.needs_torch(form, names.tag)
        bindings = Bindings(self.project, self.op, names.variable, new, self.syntaxes)
        signature = self.signature(form, index)
        callers = Callers(self.context, self.op, signature, form.main, plan)
        self.reasons += callers.plan_all(bindings)
        attached = Attachments(self.context, self.facts, signature, bindings, plan, self.edits)
        self.reasons = attached.plan_all(self.reasons)
        if self.reasons:
            raise RefusedError(self.reasons)
        plan.take(bindings.edits)
        plan.take({module.path: found for module, found in self.edits.items()})
        return plan

    def split_kernel(
        self,
        form: DefinitionForm,
        kernel: KernelSite,
        fresh: Target,
        given: Target,
        plan: OpPlan,
        *,
        derive: bool,
    ) -> None:
        """Split one kernel and the statements that register it."""
        function = kernel.function
        use = self.use_of(function)
        variable = form.variable == function.name
        decorated = variable and bool(kernel.decorators)
        plain = function.name if function.name != "_" else self.op.name
        out_name = "_" if function.name == "_" else f"{function.name}_out"
        if not decorated and out_name != "_":
            out_name = self.free_name(function, out_name)
        cut = Cut(
            use, given.index, out_name, self.free_name(function, f"_{plain.lstrip('_')}_kernel")
        )
        syntax = self.syntaxes.of(self.module)

        def decorate(
            node: cst.FunctionDef, half: cst.FunctionDef, which: Half | None
        ) -> cst.FunctionDef:
            target = fresh if which is None else given
            for place in kernel.decorators:
                key = syntax.key(place.call)
                half = half.with_changes(
                    decorators=[
                        registering(syntax, d, place.call, place.parts, target)
                        if syntax.spans.get(d.decorator) == key
                        else d
                        for d in half.decorators
                    ]
                )
            del node
            return half

        halves = split(syntax, function, cut, decorate)
        statements: list[cst.BaseStatement] = halves.statements()
        fake = None
        if derive and function is form.main:
            fake = self.derived_fake(form, halves.functional, plan)
        fresh_name = ""
        if self.is_used_elsewhere(form, function):
            fresh_name = self.free_name(function, f"{function.name}_fresh")
            statements = delegates(syntax, function, cut, fresh_name, decorate)
        places = [p for p in form.statements if _registers(p, form, function)]
        attach: cst.BaseStatement | None = None
        if fake is not None and places:
            attach = _attaching(fake)
            statements.append(fake.with_changes(decorators=()))
        elif fake is not None:
            statements.insert(statements.index(halves.out), fake)
        self.file_edits().statements[syntax.key(function)] = statements
        names = {False: fresh_name, True: out_name}
        for place in places:
            more = [attach] if attach is not None and place is places[-1] else []
            self.twice(place, fresh, given, names, form.variable, more)

    def file_edits(self) -> FileEdits:
        """The edits of the module that defines the op."""
        return self.edits.setdefault(self.module, FileEdits())

    def twice(
        self,
        place: Place,
        fresh: Target,
        given: Target,
        kernels: dict[bool, str],
        variable: str | None,
        more: list[cst.BaseStatement],
    ) -> None:
        """Write a registering statement for each half."""
        syntax = self.syntaxes.of(self.module)
        node = syntax.find(place.node, cst.SimpleStatementLine)
        if len(node.body) != 1:
            raise RefusalError(
                place.node, "another statement stands on its line", "give it a line of its own"
            )
        first, second = (
            cst.ensure_type(
                registering(syntax, node, place.call, place.parts, replace(target, kernel=name)),
                cst.SimpleStatementLine,
            )
            for target, name in ((fresh, kernels[False]), (given, kernels[True]))
        )
        second = second.with_changes(leading_lines=(), trailing_whitespace=cst.TrailingWhitespace())
        if variable is not None and isinstance(second.body[0], cst.Assign):
            name = cst.AssignTarget(cst.Name(f"{variable}_out"))
            second = second.with_changes(body=[second.body[0].with_changes(targets=[name])])
        self.file_edits().statements[syntax.key(place.node)] = [first, second, *more]

    def use_of(self, function: ast.FunctionDef) -> BufferUse:
        """How a kernel treats the buffer. Raises RefusalError where that forbids a split."""
        if function is self.facts.kernel:
            return self.facts.buffers[self.buffer]
        kernel: Kernel | None = next(
            (k for k in kernels_of(self.facts) if k.function is function), None
        )
        own = None if kernel is None else kernel.own_name(self.buffer)
        if kernel is None or own is None:
            raise RefusalError(
                function,
                f"this kernel takes no `{self.buffer}`",
                "give every kernel the op's parameters",
            )
        names = ProjectNames(self.project, kernel.module)
        use = use_of_buffer(function, kernel.arguments, own, names)
        obstacle = obstacle_to_split(function, use, {own: use}, self.declared)
        if obstacle is not None:
            raise RefusalError(obstacle.node, obstacle.reason, obstacle.remedy)
        return use

    def index(self, form: DefinitionForm) -> int:
        """The place of the buffer in the mutable half."""
        contract = signature_of(self.project, self.op)
        if self.op.definition.role is not Role.DEFINE or contract is None:
            return place_of_buffer(form.main, self.buffer)
        positional = [p for p in contract.parameters if not p.kw_only]
        first = next(
            (i for i, p in enumerate(positional) if p.default is not None), len(positional)
        )
        own = next((i for i, p in enumerate(positional) if p.name == self.buffer), first)
        index = min(first, own)
        for kernel in form.kernels:
            name = self.use_of(kernel.function).argument.name
            if place_of_buffer(kernel.function, name) < index:
                raise RefusalError(
                    kernel.function,
                    "this kernel has defaults where the schema has none",
                    "give the kernel the defaults of the schema",
                )
        return index

    def signature(self, form: DefinitionForm, index: int | None) -> Signature:
        """The parameters as callers see them."""
        own = replace(Signature.of(form.main, self.buffer), into=index)
        contract = signature_of(self.project, self.op)
        if self.op.definition.schema is None or contract is None:
            return own
        return replace(
            own,
            positional=tuple(p.name for p in contract.parameters if not p.kw_only),
            keyword_only=tuple(p.name for p in contract.parameters if p.kw_only),
        )

    def is_used_elsewhere(self, form: DefinitionForm, function: ast.FunctionDef) -> bool:
        """Whether other code calls a kernel by its name, so that it must stay what it is."""
        if form.variable == function.name:
            return False
        registering_ = {p.parts.kernel for p in form.statements}
        for node in ast.walk(self.module.tree):
            if isinstance(node, ast.Name) and node.id == function.name:
                if isinstance(node.ctx, ast.Load) and node not in registering_:
                    return True
            elif isinstance(node, ast.Constant) and node.value == function.name:
                return True
        word = function.name.encode()
        if function.name == "_":
            return False
        return any(
            word in (self.project.read(path) or b"")
            for path in self.project.files
            if path != self.module.path
        )

    def needs_torch(self, form: DefinitionForm, tag: str) -> bool:
        """Whether ``import torch`` must be added for the tag."""
        calls = [p.call for p in form.statements]
        calls += [p.call for k in form.kernels for p in k.decorators]
        if any(tag.removesuffix(".Tag.out") + "." in ast.unparse(call) for call in calls):
            return False
        if torch_import(self.module, form.main) is not None:
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

    def names(self, form: DefinitionForm) -> SplitNames:
        """Choose the new names, and refuse ones that are taken."""
        old, function = self.op.qualname, form.main
        new = f"{old}_out"
        variable = form.variable or function.name
        variable = "_" if variable == "_" else f"{variable}_out"
        names = SplitNames(old, new, variable, torch_tag(self.project, self.module, form))
        taken = self.project.bindings_in_scope(self.module, function) | self.reserved
        if form.variable is not None and variable != "_":
            if variable in taken:
                raise RefusalError(
                    function,
                    f"the name `{variable}`, which the split needs, is already in use here",
                    f"rename what is called `{variable}`",
                )
            self.reserved.add(variable)
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
        self, form: DefinitionForm, functional: cst.FunctionDef, plan: OpPlan
    ) -> cst.FunctionDef | None:
        """A fake kernel for the functional half, or a note that it is missing."""
        function = form.main
        plain = form.variable or function.name
        name = self.free_name(function, f"_{plain.strip('_') or self.op.name}_fake")
        decorator = f"{form.variable}.register_fake"
        plain_op = self.op.definition.role in (Role.CUSTOM_OP, Role.TRITON_OP)
        if form.variable in (None, "_") or not plain_op:
            root = torch_tag(self.project, self.module, form).removesuffix(".Tag.out")
            decorator = f'{root}.library.register_fake("{self.op.qualname}")'
        tensors = [a.name for a in self.facts.arguments if a.tensor and a.name != self.buffer]
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


def _attaching(fake: cst.FunctionDef) -> cst.BaseStatement:
    """The decorator of a fake kernel as a statement of its own."""
    decorator = fake.decorators[0].decorator
    arg = cst.Arg(cst.Name(fake.name.value))
    if isinstance(decorator, cst.Call):
        call = decorator.with_changes(args=append(decorator.args, arg))
    else:
        call = cst.Call(decorator, [arg])
    return cst.SimpleStatementLine([cst.Expr(call)])


def _registers(place: Place, form: DefinitionForm, function: ast.FunctionDef) -> bool:
    """Whether a statement belongs to a kernel; one that names none belongs to the first."""
    kernel = place.parts.kernel
    if kernel is None:
        return function is form.main
    return isinstance(kernel, ast.Name) and kernel.id == function.name
