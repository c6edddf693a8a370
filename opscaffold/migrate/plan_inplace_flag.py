"""Splitting one op by the flag that makes it work in place, with all that uses it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from opscaffold.contract.model import Alias, BaseType, OpContract, Parameter, Return, alias_of
from opscaffold.contract.pytypes import strip_alias
from opscaffold.contract.releases import supports_tags
from opscaffold.effects.buffers import BufferUse
from opscaffold.effects.flags import use_of_flag
from opscaffold.findings.intents import KeepCallable, SplitInplaceFlag
from opscaffold.findings.model import Finding
from opscaffold.migrate.attached_flags import FlagAttachments, flag_use_in
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.definition import check_definition, others_of
from opscaffold.migrate.delegates import Decorate
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.flag_halves import FlagFakeEditor, flag_delegates, split_by_flag
from opscaffold.migrate.flag_sites import Flag, FlagCallers
from opscaffold.migrate.forms import DefinitionForm, read_form
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.plan_split import SplitPlanner
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registering import Target
from opscaffold.migrate.split import Cut, Halves
from opscaffold.migrate.split_names import SplitNames
from opscaffold.migrate.syntax import Syntax
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import default_of, signature_of
from opscaffold.rules.declared import UNKNOWN
from opscaffold.rules.fakes import is_fake
from opscaffold.rules.flags import flag_of, own_names
from opscaffold.rules.names import ProjectNames
from opscaffold.rules.proven import in_order, proven
from opscaffold.source.model import Form, Op, Role

_SUFFIX = "_"


def plan_inplace_flag(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan an op without a flag, and one that works in place.

    The second is tagged and returns what it writes to, where the op always raised for that, and
    the tag fits; else it returns nothing. Raises RefusedError with every reason.
    """
    intent = findings[0].intent
    if not isinstance(intent, SplitInplaceFlag):
        raise TypeError("this finding intends another repair")
    planner = _FlagPlanner(context, op, intent)
    try:
        return planner.plan()
    except RefusalError as refusal:
        raise RefusedError([*planner.reasons, refusal]) from None


class _FlagPlanner(SplitPlanner):
    ending = _SUFFIX

    def __init__(self, context: Context, op: Op, intent: SplitInplaceFlag) -> None:
        names = {declared: own for own, declared in own_names(_facts(context, op)).items()}
        super().__init__(context, op, names.get(intent.flag, intent.flag))
        self.intent = intent
        self.argument = names.get(intent.argument, intent.argument)
        self.flag = Flag(intent.flag, intent.argument, intent.when, None, void=True)

    def plan(self) -> OpPlan:
        """Plan the whole. Raises RefusalError or RefusedError."""
        form = read_form(self.project, self.op)
        if form.alternatives:
            raise RefusalError(
                self.op.definition.statement,
                f"`{self.op.qualname}` is defined in several branches",
                "split it by hand in each",
            )
        check_definition(self.project, self.op, form, self.argument)
        others = self.others()
        self.declared = frozenset(others)
        self.flag = self.as_callers_see(form, others)
        names = self.names(form)
        old, new = names.old_qualname, names.new_qualname
        plan = OpPlan(old, f"split into {old} and {new}", (old, new))
        plan.keeps = self.kept(form, names, 0)
        mutated = in_order(self.facts, {*others, self.intent.argument})
        fresh = Target(others, self.buffer, schema=self.functional_contract)
        index = 0 if self.flag.void else None
        tag = "" if self.flag.void else names.tag
        given = Target(
            mutated, self.buffer, _SUFFIX, self.intent.argument, index, tag,
            schema=self.inplace_contract,
        )  # fmt: skip
        fakes = [r for r in self.op.attached if r.role is Role.FAKE]
        editor = FlagFakeEditor(
            self.project, self.syntaxes, self.facts.arguments, self.buffer, when=self.flag.when
        )
        for registration in fakes:
            editor.edit(registration, self.edits)
        derive = not any(is_fake(r) for r in self.op.attached)
        for kernel in form.kernels:
            self.split_kernel(form, kernel, fresh, given, plan, derive=derive)
        for twin in form.twins:
            self.split_twin(twin, given)
        target = self.edits.setdefault(self.module, FileEdits())
        target.import_torch = bool(tag) and self.namer.needs_torch(form, _out_tag(tag))
        bindings = Bindings(
            self.project, self.op, names.variable, new, self.syntaxes, ending=_SUFFIX
        )
        signature = replace(self.signature(form, index), buffer=self.intent.flag)
        callers = FlagCallers(
            self.context, self.op, signature, form.main, plan, self.flag, form.twins
        )
        self.reasons += callers.plan_all(bindings)
        attached = FlagAttachments(self.context, self.facts, signature, bindings, plan, self.edits)
        attached.flag = self.flag
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
        kept = super().kept(form, names, index)
        written = self.argument if self.flag.void else ""
        return None if kept is None else replace(kept, flag=self.flag.when, written=written)

    def others(self) -> tuple[str, ...]:
        """What the op mutates beside the argument. Raises RefusalError where that is not known."""
        if self.op.definition.mutates == UNKNOWN:
            known = proven(self.facts)
            if known is not None:
                return in_order(self.facts, known - {self.intent.argument})
        return others_of(self.facts, self.intent.argument)

    def as_callers_see(self, form: DefinitionForm, others: tuple[str, ...]) -> Flag:
        """The flag, its default, and whether the new op is tagged."""
        contract = signature_of(self.project, self.op)
        intent, definition = self.intent, self.op.definition
        if contract is None:
            raise RefusalError(
                definition.statement, "its parameters are not all known", "annotate them"
            )
        parameters = {p.name: p for p in contract.parameters}
        given = parameters[intent.flag].default
        default = given.value if given is not None else None
        own = default_of(form.main, self.buffer)
        if default is not None and not isinstance(default, bool):
            raise RefusalError(own or form.main, "the flag's default is no bool", "make it one")
        written = parameters[intent.argument]
        if strip_alias(written.type) != BaseType("Tensor") or written.kw_only:
            raise RefusalError(
                self.facts.parameter(self.argument),
                f"`{intent.argument}` is keyword-only, and PyTorch takes no mutated one",
                "let it be passed by position",
            )
        raised = definition.role is Role.CUSTOM_OP and definition.form is not Form.HELPER
        first = contract.parameters[0] is written and not others
        tags = supports_tags(self.context.options.target)
        tagged = raised and not definition.fallback and first and tags
        return Flag(intent.flag, intent.argument, intent.when, default, void=not tagged)

    def names(self, form: DefinitionForm) -> SplitNames:
        """The new names. Raises RefusalError where one is taken."""
        if self.op.name.endswith("_"):
            raise RefusalError(
                self.op.definition.statement,
                f"`{self.op.qualname}` ends in an underscore, which says that it works in place",
                "rename the op first",
            )
        names = self.namer.choose(form, _SUFFIX, self.ending)
        return replace(names, tag=f"{names.tag.removesuffix('.out')}.inplace")

    def use_of(self, function: ast.FunctionDef) -> BufferUse:
        """How a kernel treats the flag. Raises RefusalError where that forbids a split."""
        if function is self.facts.kernel:
            use = flag_of(self.facts)
            if use is None or use.flag.name != self.buffer:
                raise RefusalError(function, "what the flag decides is not known", "split it")
            return use.as_buffer()
        stand_in = any(r.function is function and is_fake(r) for r in self.op.attached)
        return flag_use_in(
            self.facts, self._own(), self.module, function, stand_in=stand_in
        ).as_buffer()

    def use_of_twin(self, function: ast.FunctionDef) -> BufferUse:
        """How a plain function that stands for the op treats the flag."""
        names = ProjectNames(self.project, self.module)
        use = use_of_flag(
            function, self.facts.arguments, self.buffer, names, declared=self.declared
        )
        if use is None or (use.argument, use.when) != (self.argument, self.flag.when):
            raise RefusalError(
                function,
                f"`{self.buffer}` decides something else in this branch",
                "split both branches by hand",
            )
        return use.as_buffer()

    def _own(self) -> Flag:
        """The flag and the argument by the names of the main kernel."""
        return replace(self.flag, name=self.buffer, argument=self.argument)

    def halve(
        self, syntax: Syntax, function: ast.FunctionDef, cut: Cut, decorate: Decorate
    ) -> Halves:
        """The halves of one function."""
        return split_by_flag(
            syntax, function, cut, decorate, when=self.flag.when, written=self.argument
        )

    def stand_ins(
        self, syntax: Syntax, function: ast.FunctionDef, cut: Cut, fresh: str, decorate: Decorate
    ) -> list[cst.BaseStatement]:
        """A kernel that other code calls, and the halves that call it."""
        return flag_delegates(syntax, function, cut, fresh, decorate, when=self.flag.when)

    def functional_contract(self, old: OpContract) -> OpContract:
        """The contract of the functional op, of that of the old one."""
        return replace(
            old,
            parameters=tuple(self._parameters(old, self.declared)),
            returns=tuple(replace(r, type=strip_alias(r.type)) for r in old.returns),
        )

    def inplace_contract(self, old: OpContract) -> OpContract:
        """The contract of the op that works in place, of that of the old one."""
        name = self.intent.argument
        parameters = self._parameters(old, self.declared | {name})
        written = next(p for p in parameters if p.name == name)
        returns = () if self.flag.void else (Return(written.type),)
        return replace(old, parameters=tuple(parameters), returns=returns)

    def _parameters(self, old: OpContract, mutated: frozenset[str]) -> list[Parameter]:
        kept = [p for p in old.parameters if p.name != self.intent.flag]
        return [
            _mutated(p, f"a{i}") if p.name in mutated else replace(p, type=strip_alias(p.type))
            for i, p in enumerate(kept)
        ]


def _mutated(parameter: Parameter, alias: str) -> Parameter:
    """A parameter that is declared as mutated; one that is already stays what it is."""
    known = alias_of(parameter.type)
    if known is not None or not isinstance(parameter.type, BaseType):
        return parameter
    return replace(parameter, type=BaseType("Tensor", Alias((alias,), write=True)))


def _out_tag(tag: str) -> str:
    return f"{tag.removesuffix('.inplace')}.out"


def _facts(context: Context, op: Op) -> OpFacts:
    return OpFacts(context.project, op)
