"""Splitting one op with several buffers that are given together or not at all."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from opscaffold.contract.derive import out_of, with_buffers_at
from opscaffold.contract.model import OpContract
from opscaffold.contract.naming import OutNaming
from opscaffold.contract.pytypes import strip_alias
from opscaffold.contract.releases import supports_tags
from opscaffold.effects.buffers import BufferUse
from opscaffold.effects.paired import PairedUse, use_of_pair
from opscaffold.findings.intents import SplitMaybeOut
from opscaffold.findings.model import Finding
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.definition import check_definition, others_of
from opscaffold.migrate.delegates import Decorate
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.forms import DefinitionForm, read_form, stand_ins_of
from opscaffold.migrate.out_names import FLAT
from opscaffold.migrate.paired_halves import PairedFakeEditor, paired_delegates, split_paired
from opscaffold.migrate.paired_sites import PairedCallers
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.plan_split import SplitPlanner, plan_split
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registering import Target
from opscaffold.migrate.signature import place_of_buffer
from opscaffold.migrate.split import Cut, Half, Halves
from opscaffold.migrate.syntax import Syntax
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.kernels import kernels_of
from opscaffold.rules.names import ProjectNames
from opscaffold.rules.paired import listed, obstacle_to_paired_split
from opscaffold.source.model import Form, Op, Role


def plan_maybe_out(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan the split of one op, by one buffer or by several. Raises RefusedError."""
    intent = findings[0].intent
    if not isinstance(intent, SplitMaybeOut) or not intent.more:
        return plan_split(context, op, findings)
    planner = _PairedPlanner(context, op, intent.buffers)
    try:
        return planner.plan()
    except RefusalError as refusal:
        raise RefusedError([*planner.reasons, refusal]) from None


class _PairedPlanner(SplitPlanner):
    """``buffers`` are in the order in which the op returns them."""

    def __init__(self, context: Context, op: Op, buffers: tuple[str, ...]) -> None:
        super().__init__(context, op, buffers[0])
        self.buffers = self.dropped = buffers
        self.pairs: dict[ast.FunctionDef, tuple[PairedUse, list[str]]] = {}

    def plan(self) -> OpPlan:
        """Plan the whole. Raises RefusalError or RefusedError."""
        form = read_form(self.project, self.op)
        self._check(form)
        others = tuple(n for n in others_of(self.facts, self.buffer) if n not in self.buffers)
        self.declared = frozenset(others)
        half = self._half(others)
        names = self.namer.choose(form, FLAT)
        index = None if half is Half.OUT else self.index(form)
        old, new = names.old_qualname, names.new_qualname
        plan = OpPlan(old, f"split into {old} and {new}", (old, new))
        tag = names.tag if half is Half.OUT else ""
        fresh = Target(others, self.buffer, schema=self._functional_contract)
        mutates = (*others, *self.buffers)
        given = Target(
            mutates, self.buffer, FLAT, self.buffer, index, tag,
            schema=lambda contract: self._given_contract(contract, index),
        )  # fmt: skip
        fakes = stand_ins_of(self.op)
        editor = PairedFakeEditor(
            self.project, self.syntaxes, self.facts.arguments, self.buffer, self.buffers
        )
        for registration in fakes:
            editor.edit(registration, self.edits)
        for kernel in form.kernels:
            self.split_kernel(form, kernel, fresh, given, plan, derive=not fakes)
        for twin in form.twins:
            self.split_twin(twin, given)
        target = self.edits.setdefault(self.module, FileEdits())
        target.import_torch = half is Half.OUT and self.namer.needs_torch(form, names.tag)
        bindings = Bindings(self.project, self.op, names.variable, new, self.syntaxes)
        signature = self.signature(form, index)
        callers = PairedCallers(
            self.context, self.op, signature, form.main, plan, self.buffers, form.same
        )
        self.reasons += callers.plan_all(bindings)
        if self.reasons:
            raise RefusedError(self.reasons)
        plan.take(bindings.edits)
        plan.take({module.path: found for module, found in self.edits.items()})
        return plan

    def _check(self, form: DefinitionForm) -> None:
        """Raise RefusalError for what is split only where there is one buffer."""
        definition, options = self.op.definition, self.context.options
        where = definition.call or definition.statement
        said = listed(self.buffers)
        if form.alternatives:
            raise RefusalError(
                definition.statement,
                f"`{self.op.qualname}` is defined in several branches",
                "split it by hand in each",
            )
        for buffer in self.buffers:
            check_definition(self.project, self.op, form, buffer)
        contract = signature_of(self.project, self.op)
        if contract is None or not {p.name for p in contract.parameters} >= set(self.buffers):
            raise RefusalError(
                where,
                f"its signature does not name {said} as the kernel does",
                "call the parameters of the kernel as those of the op",
            )
        kernels = {Role.IMPL} if definition.role is Role.DEFINE else set()
        for registration in self.op.attached:
            if registration.role is Role.FAKE or registration.role in kernels:
                continue
            raise RefusalError(
                registration.statement,
                f"`{registration.role.value}` is attached to the op, and what it becomes without "
                f"{said} is not known here",
                f"take {said} out of it and of the op by hand",
                registration.module,
            )
        if options.compat:
            raise RefusalError(
                where,
                f"a function that chooses by {said} is not written for --compat",
                "run without --compat, or write that function by hand",
            )
        if options.out_naming != OutNaming.FLAT.value:
            raise RefusalError(
                where,
                f"an overload that takes {said} breaks under torch.compile where a result is not "
                "used",
                "name the out= op flat: --out-naming flat",
            )

    def _half(self, others: tuple[str, ...]) -> Half:
        """An out= op where giving the buffers always raised, and nothing else is mutated."""
        definition = self.op.definition
        raised = definition.role is Role.CUSTOM_OP and definition.form is not Form.HELPER
        raised = raised and not definition.fallback and not others
        return Half.OUT if raised and supports_tags(self.context.options.target) else Half.INTO

    def index(self, form: DefinitionForm) -> int:
        """The place of the first buffer in the mutable half; the others follow it."""
        contract = signature_of(self.project, self.op)
        places = [place_of_buffer(form.main, buffer) for buffer in self.buffers]
        if self.op.definition.role is not Role.DEFINE or contract is None:
            return min(places)
        positional = [p for p in contract.parameters if not p.kw_only]
        first = next(
            (i for i, p in enumerate(positional) if p.default is not None), len(positional)
        )
        own = [i for i, p in enumerate(positional) if p.name in self.buffers]
        index = min([first, *own])
        for kernel in form.kernels:
            self.use_of(kernel.function)
            names = self.pairs[kernel.function][1]
            if min(place_of_buffer(kernel.function, name) for name in names) < index:
                raise RefusalError(
                    kernel.function,
                    "this kernel has defaults where the schema has none",
                    "give the kernel the defaults of the schema",
                )
        return index

    def use_of(self, function: ast.FunctionDef) -> BufferUse:
        """How a kernel treats the buffers. Raises RefusalError where that forbids a split."""
        kernel = next((k for k in kernels_of(self.facts) if k.function is function), None)
        if function is self.facts.kernel:
            return self._pair(function, list(self.buffers), ProjectNames(self.project, self.module))
        names = [] if kernel is None else [kernel.own_name(b) for b in self.buffers]
        own = [name for name in names if name is not None]
        if kernel is None or len(own) != len(self.buffers):
            raise RefusalError(
                function,
                f"this kernel does not take {listed(self.buffers)}",
                "give every kernel the op's parameters",
            )
        return self._pair(function, own, ProjectNames(self.project, kernel.module))

    def use_of_twin(self, function: ast.FunctionDef) -> BufferUse:
        """How a plain function that stands for the op treats the buffers."""
        return self._pair(function, list(self.buffers), ProjectNames(self.project, self.module))

    def _pair(self, function: ast.FunctionDef, own: list[str], names: ProjectNames) -> BufferUse:
        arguments = self.facts.arguments
        if function is not self.facts.kernel:
            kernel = next((k for k in kernels_of(self.facts) if k.function is function), None)
            arguments = arguments if kernel is None else list(kernel.arguments)
        pair = None
        if {a.name for a in arguments} >= set(own):
            pair = use_of_pair(function, arguments, own, names)
        if pair is None or pair.mixed:
            raise RefusalError(
                function,
                f"a call of this kernel with only some of {listed(tuple(own))} does not raise",
                "raise for that, as the other kernels do",
            )
        obstacle = obstacle_to_paired_split(function, pair, self.declared)
        if obstacle is not None:
            raise RefusalError(obstacle.node, obstacle.reason, obstacle.remedy)
        if pair.order != tuple(own):
            raise RefusalError(
                function,
                f"this kernel returns {listed(tuple(own))} in another order",
                "return them in one order in every kernel",
            )
        self.pairs[function] = (pair, own)
        return pair.uses[0]

    def halve(
        self, syntax: Syntax, function: ast.FunctionDef, cut: Cut, decorate: Decorate
    ) -> Halves:
        """The halves of one function."""
        pair, own = self.pairs[function]
        return split_paired(syntax, function, cut, pair, own, decorate)

    def stand_ins(
        self, syntax: Syntax, function: ast.FunctionDef, cut: Cut, fresh: str, decorate: Decorate
    ) -> list[cst.BaseStatement]:
        """A kernel that other code calls, and the halves that call it."""
        own = self.pairs[function][1]
        return paired_delegates(syntax, function, cut, own, fresh, decorate)

    def _functional_contract(self, old: OpContract) -> OpContract:
        """The contract of the functional op, of that of the old one."""
        parameters = tuple(p for p in old.parameters if p.name not in self.buffers)
        kept = tuple(
            p if p.name in self.declared else replace(p, type=strip_alias(p.type))
            for p in parameters
        )
        returns = tuple(replace(r, type=strip_alias(r.type)) for r in old.returns)
        return replace(old, parameters=kept, returns=returns, tags=frozenset())

    def _given_contract(self, old: OpContract, index: int | None) -> OpContract:
        """The contract of the op that is given the buffers, of that of the old one."""
        fresh = self._functional_contract(old)
        if index is None:
            return out_of(fresh, self.buffers)
        return with_buffers_at(fresh, self.buffers, index)
