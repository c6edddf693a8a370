"""Splitting one maybe-out op: its definition, what is attached to it, and all that uses it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from opscaffold.contract.hazards import Hazard
from opscaffold.effects.buffers import BufferUse, use_of_buffer
from opscaffold.findings.intents import KeepCallable, SplitMaybeOut
from opscaffold.findings.model import Finding
from opscaffold.migrate.aliased import tensors_by_alias
from opscaffold.migrate.attached import FakeEditor
from opscaffold.migrate.attached_plan import Attachments
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.callers import Callers
from opscaffold.migrate.calls import Signature
from opscaffold.migrate.definition import (
    check_definition,
    half_of,
    others_of,
)
from opscaffold.migrate.delegates import Decorate, delegates
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.forms import DefinitionForm, KernelSite, Place, read_form, stand_ins_of
from opscaffold.migrate.out_names import out_suffix
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registering import Target, registering
from opscaffold.migrate.signature import place_of_buffer
from opscaffold.migrate.split import Cut, Half, Halves, split
from opscaffold.migrate.split_fakes import attaching, derived_fake
from opscaffold.migrate.split_names import Namer, SplitNames
from opscaffold.migrate.syntax import Syntax, code_of
from opscaffold.rules.base import OpFacts, position
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.kernels import Kernel, kernels_of
from opscaffold.rules.names import ProjectNames
from opscaffold.rules.notices import MENTION
from opscaffold.rules.outputs import obstacle_to_split
from opscaffold.source.model import Module, Op, Role, Use


def plan_split(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan the split of one op with all that belongs to it.

    What stands in a snippet (see ``documents``) is rewritten where it can be, and otherwise
    noted: prose never keeps an op from being split. Raises RefusedError with every reason.
    """
    intent = findings[0].intent
    if not isinstance(intent, SplitMaybeOut):
        raise TypeError("this finding intends another repair")
    every = [o for o in context.project.all_ops if o.qualname == op.qualname]
    # What is attached by the name of the op in a branch is attached to one of its definitions.
    planner = SplitPlanner(context, max(every, key=lambda o: len(o.attached)), intent.buffer)
    try:
        return planner.plan()
    except RefusalError as refusal:
        reasons = [*planner.reasons, refusal, *_computed_uses(context, op)]
        raise RefusedError(reasons) from None


def _computed_uses(context: Context, op: Op) -> list[RefusalError]:
    """The places that may call an op whose name is computed, by a name that is computed too."""
    if op.definition.qualname is not None:
        return []
    return [
        RefusalError(
            reference.node,
            "this reads an op by a name that is computed, which may be this one",
            "write the names out, here and where the op is registered",
            reference.module,
        )
        for reference in context.project.references(op)
        if reference.use is Use.UNCERTAIN and isinstance(reference.node, ast.expr)
    ]


class SplitPlanner:
    """Plans the split of one op by ``buffer``, a parameter that the functional half loses."""

    ending = "_out"
    """What stands behind a name for the half that is not functional."""

    def __init__(self, context: Context, op: Op, buffer: str) -> None:
        self.context = context
        self.project, self.syntaxes = context.project, context.syntaxes
        self.op = op
        self.buffer = buffer
        self.dropped: tuple[str, ...] = (buffer,)
        self.module = op.definition.module
        self.facts = OpFacts(context.project, op)
        self.namer = Namer(context, op)
        self.declared: frozenset[str] = frozenset()
        self.reasons: list[RefusalError] = []
        self.edits: dict[Module, FileEdits] = {}

    def plan(self) -> OpPlan:
        """Plan the whole. Raises RefusalError or RefusedError."""
        form = read_form(self.project, self.op)
        check_definition(self.project, self.op, form, self.buffer)
        others = others_of(self.facts, self.buffer)
        self.declared = frozenset(others)
        half = half_of(self.facts, self.buffer, others, self.context.options)
        suffix, hazards = out_suffix(self.facts, self.buffer, half, self.context.options)
        names = self.namer.choose(form, suffix)
        index = None if half is Half.OUT else self.index(form)
        old, new = names.old_qualname, names.new_qualname
        plan = OpPlan(old, f"split into {old} and {new}", (old, new))
        plan.keeps = self.kept(form, names, index)
        tag = names.tag if half is Half.OUT else ""
        fresh = Target(others, self.buffer)
        given = Target((*others, self.buffer), self.buffer, suffix, self.buffer, index, tag)
        plan.notes += [self.hazard(form, new, hazard) for hazard in hazards]
        fakes = stand_ins_of(self.op)
        editor = FakeEditor(self.project, self.syntaxes, self.facts.arguments, self.buffer)
        for registration in fakes:
            editor.edit(registration, self.edits)
        for kernel in form.kernels:
            self.split_kernel(form, kernel, fresh, given, plan, derive=not fakes)
        for twin in form.twins:
            self.split_twin(twin, given)
        for other in form.alternatives:
            self.split_alternative(form, other, fresh, given, plan)
        target = self.edits.setdefault(self.module, FileEdits())
        target.import_torch = half is Half.OUT and self.namer.needs_torch(form, names.tag)
        bindings = Bindings(self.project, self.op, names.variable, new, self.syntaxes)
        signature = self.signature(form, index)
        callers = Callers(self.context, self.op, signature, form.main, plan, form.same)
        self.reasons += callers.plan_all(bindings)
        attached = Attachments(self.context, self.facts, signature, bindings, plan, self.edits)
        self.reasons = attached.plan_all(self.reasons)
        if self.reasons:
            raise RefusedError(self.reasons)
        plan.take(bindings.edits)
        plan.take({module.path: found for module, found in self.edits.items()})
        return plan

    def kept(
        self, form: DefinitionForm, names: SplitNames, index: int | None
    ) -> KeepCallable | None:
        """The old way to call the op, where that is to be kept."""
        variable = form.variable
        if not self.context.options.compat or variable in (None, "_") or form.twins:
            return None
        node = self.syntaxes.of(self.module).find(form.main, cst.FunctionDef)
        arrow = "" if node.returns is None else f" -> {code_of(node.returns.annotation)}"
        head = f"({code_of(node.params)}){arrow}"
        old, new = self.op.qualname, names.new_qualname
        return KeepCallable(old, str(variable), head, self.buffer, new, names.variable, index)

    def hazard(self, form: DefinitionForm, new: str, hazard: Hazard) -> Finding:
        """What no signature can exclude of an overload."""
        return MENTION.finding(
            position(self.module, form.main),
            f"`{new}` is an overload, as was asked for, and torch.compile may call it in the place "
            f"of `{self.op.qualname}`; one thing cannot be excluded here: {hazard.reason}",
            op=new,
            remedy="where that matters, run again from the old code with --out-naming flat",
        )

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
        out_name = "_" if function.name == "_" else f"{function.name}{self.ending}"
        if not decorated and out_name != "_":
            out_name = self.namer.free(function, out_name)
        kernel_name = self.namer.free(function, f"_{plain.lstrip('_')}_kernel")
        words = tensors_by_alias(self.project, self.module, function)
        cut = Cut(use, given.index, out_name, kernel_name, words)
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

        halves = self.halve(syntax, function, cut, decorate)
        statements: list[cst.BaseStatement] = halves.statements()
        fake = None
        if derive and function is form.main:
            fake = derived_fake(
                self.context, self.facts, self.dropped, self.namer, form, halves.functional, plan
            )
        fresh_name = ""
        if self.namer.is_used_elsewhere(form, function):
            fresh_name = self.namer.free(function, f"{function.name}_fresh")
            statements = self.stand_ins(syntax, function, cut, fresh_name, decorate)
        places = [p for p in form.statements if _registers(p, form, function)]
        attach: cst.BaseStatement | None = None
        defining = self.op.definition.statement
        if fake is not None and defining.lineno > function.lineno:
            attach = attaching(fake)
            statements.append(fake.with_changes(decorators=()))
        elif fake is not None:
            statements.insert(len(statements) - 1, fake)
        self.file_edits().statements[syntax.key(function)] = statements
        names = {False: fresh_name, True: out_name}
        for place in places:
            more = [attach] if attach is not None and place.node is defining else []
            self.twice(place, fresh, given, names, form.variable, more)

    def split_twin(self, function: ast.FunctionDef, given: Target) -> None:
        """Split the plain function that stands for the op where it is not registered."""
        use = self.use_of_twin(function)
        if function.decorator_list:
            raise RefusalError(
                function.decorator_list[0],
                "a decorator stands on the function that has the op's name in this branch",
                "split both branches by hand",
            )
        kernel = self.namer.free(function, f"_{function.name.lstrip('_')}_kernel")
        words = tensors_by_alias(self.project, self.module, function)
        cut = Cut(use, given.index, f"{function.name}{self.ending}", kernel, words)
        syntax = self.syntaxes.of(self.module)
        halves = self.halve(syntax, function, cut, lambda _, half, __: half)
        self.file_edits().statements[syntax.key(function)] = halves.statements()

    def split_alternative(
        self, form: DefinitionForm, op: Op, fresh: Target, given: Target, plan: OpPlan
    ) -> None:
        """Split another definition of the op, of which a run takes one."""
        other = type(self)(self.context, op, self.buffer)
        other.edits, other.declared = self.edits, self.declared
        theirs = read_form(self.project, op)
        check_definition(self.project, op, theirs, self.buffer)
        options = self.context.options
        more = others_of(other.facts, self.buffer)
        same = (more, theirs.variable) == (given.mutates[:-1], form.variable)
        half = half_of(other.facts, self.buffer, more, options)
        same = same and (half is Half.OUT) == (given.index is None)
        if not same or {*op.attached} - {*self.op.attached}:
            raise RefusalError(
                op.definition.statement,
                f"`{op.qualname}` is defined otherwise in another branch",
                "define it alike in both, or split both by hand",
            )
        for kernel in theirs.kernels:
            use = other.use_of_twin(kernel.function)
            if given.index is not None and place_of_buffer(kernel.function, use.argument.name) != (
                given.index
            ):
                raise RefusalError(
                    kernel.function,
                    f"`{kernel.function.name}` has other parameters in this branch",
                    "give it the same parameters in every branch",
                )
            derive = not stand_ins_of(self.op)
            other.split_kernel(theirs, kernel, fresh, given, plan, derive=derive)

    def use_of_twin(self, function: ast.FunctionDef) -> BufferUse:
        """How such a function treats the buffer. Raises RefusalError as ``use_of`` does."""
        names = ProjectNames(self.project, self.module)
        use = use_of_buffer(function, self.facts.arguments, self.buffer, names)
        obstacle = obstacle_to_split(function, use, {self.buffer: use}, self.declared)
        if obstacle is not None:
            raise RefusalError(obstacle.node, obstacle.reason, obstacle.remedy)
        return use

    def halve(
        self, syntax: Syntax, function: ast.FunctionDef, cut: Cut, decorate: Decorate
    ) -> Halves:
        """The halves of one function."""
        return split(syntax, function, cut, decorate)

    def stand_ins(
        self, syntax: Syntax, function: ast.FunctionDef, cut: Cut, fresh: str, decorate: Decorate
    ) -> list[cst.BaseStatement]:
        """A kernel that other code calls, and the halves that call it."""
        return delegates(syntax, function, cut, fresh, decorate)

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
            name = cst.AssignTarget(cst.Name(f"{variable}{self.ending}"))
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


def _registers(place: Place, form: DefinitionForm, function: ast.FunctionDef) -> bool:
    """Whether a statement belongs to a kernel; one that names none belongs to the first."""
    kernel = place.parts.kernel
    if kernel is None:
        return function is form.main
    return isinstance(kernel, ast.Name) and kernel.id == function.name
