"""What is attached to a split op: each registration, and the half that it belongs to."""

from __future__ import annotations

import ast
from dataclasses import replace

import libcst as cst

from opscaffold.findings.model import Finding, Severity
from opscaffold.migrate.attached import FakeEditor, code_words
from opscaffold.migrate.attached_autograd import AutogradEditor
from opscaffold.migrate.attached_change import AnyFunction, FunctionChange
from opscaffold.migrate.attached_functions import Functions
from opscaffold.migrate.attached_grad_calls import calls_under_grad
from opscaffold.migrate.attached_kernels import KernelSplitter
from opscaffold.migrate.attached_slots import uses_of
from opscaffold.migrate.attached_vmap import RuleEditor
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.callers import MENTION_CODE, MENTION_NAME
from opscaffold.migrate.calls import Signature, buffer_argument
from opscaffold.migrate.edits import CallEdit, CallForm, FileEdits
from opscaffold.migrate.evaluation import written_order
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.split import refuse_early_use
from opscaffold.migrate.syntax import code_of
from opscaffold.rules.base import OpFacts, position
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.fakes import is_fake
from opscaffold.source.model import Module, Op, Registration, Role

_KERNELS = (Role.KERNEL, Role.IMPL)


class Attachments:
    """Plans what is attached to one op, after its callers are planned into ``bindings``."""

    def __init__(
        self,
        context: Context,
        facts: OpFacts,
        signature: Signature,
        bindings: Bindings,
        plan: OpPlan,
        edits: dict[Module, FileEdits],
    ) -> None:
        self.context, self.facts, self.signature = context, facts, signature
        self.bindings, self.plan, self.edits = bindings, plan, edits
        self.op: Op = facts.op
        self.reasons: list[RefusalError] = []
        self._omitting: set[int] = set()

    def plan_all(self, reasons: list[RefusalError]) -> list[RefusalError]:
        """Plan every registration but the fake kernels and those of a low-level definition.

        ``reasons`` are what its callers have against the split. Returns all that stands against
        it: a vmap rule that hands on the buffer that it no longer takes is not counted.
        """
        low_level = self.op.definition.role is Role.DEFINE
        kernels = []
        for registration in self.op.attached:
            if registration.role is Role.FAKE or (low_level and registration.role is Role.IMPL):
                continue
            if registration.role in _KERNELS and not is_fake(registration):
                kernels.append(registration)
                continue
            try:
                self.plan_one(registration)
            except RefusalError as refusal:
                refusal.where = refusal.where or registration.module
                refusal.node = refusal.node or registration.statement
                self.reasons.append(refusal)
        self.reasons += self.splitter().split_all(kernels)
        return [*(r for r in reasons if id(r.node) not in self._omitting), *self.reasons]

    def splitter(self) -> KernelSplitter:
        """What splits the kernels."""
        return KernelSplitter(
            self.context,
            self.facts,
            self.bindings,
            self.signature.buffer,
            self.signature.into,
            self.bindings.qualname.removeprefix(self.op.qualname),
            self.edits_of,
        )

    def plan_one(self, registration: Registration) -> None:
        """Plan one registration that is no kernel. Raises RefusalError."""
        project, syntaxes = self.context.project, self.context.syntaxes
        functions = Functions(project, [registration])
        calls = [r.call for r in project.references(self.op) if r.call is not None]
        own = frozenset(id(n) for call in calls for n in ast.walk(call))
        rules = RuleEditor(
            project,
            syntaxes,
            functions,
            self.signature,
            self.facts.arguments,
            self._is_trailing(),
            own,
        )
        match registration.role:
            case Role.IMPL:
                FakeEditor(project, syntaxes, self.facts.arguments, self.signature.buffer).edit(
                    registration, self.edits
                )
            case Role.AUTOGRAD:
                editor = AutogradEditor(
                    project, syntaxes, functions, self.signature, self._is_trailing()
                )
                for module, change in editor.edit(registration):
                    self._take(module, change)
                self.note_calls_under_grad()
            case Role.VMAP:
                module, change, buffer = rules.edit_vmap(registration)
                self._take(module, change, buffer)
                self.note(
                    registration, "vmap rule", "vmap cannot batch what is written to a buffer"
                )
            case Role.TORCH_DISPATCH:
                self._take(*rules.edit_dispatch(registration))
                self.note(registration, "torch_dispatch rule", "it was written for one op")
            case Role.AUTOCAST:
                why = "a cast copy of the buffer would be written instead"
                self.note(registration, "autocast rule", why)
            case _:
                raise RefusalError(
                    registration.statement,
                    f"`{registration.role.value}` is attached to the op, and would have to be "
                    "split with it",
                    "split this op by hand",
                    registration.module,
                )

    def _is_trailing(self) -> bool:
        """Whether the buffer is the last positional argument, and may be left out."""
        positional, buffer = self.signature.positional, self.signature.buffer
        contract = signature_of(self.context.project, self.op)
        if contract is None or not positional or positional[-1] != buffer:
            return False
        return any(p.name == buffer and p.default is not None for p in contract.parameters)

    def edits_of(self, module: Module) -> FileEdits:
        """The edits of a module, to add to."""
        return self.edits.setdefault(module, FileEdits())

    def _take(self, module: Module, change: FunctionChange, buffer: str | None = None) -> None:
        """Put a changed function in the place of the old one, with the calls inside it."""
        if change.idle:
            return
        inside = self.bindings.edits.get(module.path, FileEdits())
        if buffer is not None:
            inside = self._without_buffer(inside, module, change, buffer)
        built = change.build(inside)
        if buffer is not None:
            _refuse_left_over(built, buffer, change.function)
        key = change.syntax.key(change.function)
        target = self.edits_of(module)
        if isinstance(built, cst.Lambda):
            target.lambdas[key] = built
        else:
            target.statements[key] = [built]

    def _without_buffer(
        self, edits: FileEdits, module: Module, change: FunctionChange, buffer: str
    ) -> FileEdits:
        """The edits with every call that hands on the omitted buffer as one that allocates."""
        calls, voids = dict(edits.calls), dict(edits.voids)
        inside = {id(n) for n in ast.walk(change.function)}
        for reference in self.context.project.references(self.op):
            call = reference.call
            if call is None or id(call) not in inside:
                continue
            if not _is_plain_call(call):
                continue
            argument = buffer_argument(call, self.signature)
            if not isinstance(argument, ast.Name) or argument.id != buffer:
                continue
            if any(not isinstance(n.ctx, ast.Load) for n in uses_of(change.function, buffer)):
                raise RefusalError(
                    call,
                    f"`{buffer}` is bound again in the vmap rule, so whether this call is given a "
                    "buffer is not known",
                    "use another name there",
                    module,
                )
            index = written_order(call).index(argument)
            fresh = CallEdit(CallForm.FRESH, index, self.signature.buffer)
            calls[change.syntax.key(call)] = fresh
            voids.pop(change.syntax.key(call), None)
            self._omitting.add(id(call))
        return replace(edits, calls=calls, voids=voids)

    def note_calls_under_grad(self) -> None:
        """Say which calls cannot be under grad, as before."""
        for module, call in calls_under_grad(self.context.project, self.op, self.bindings):
            raises = "PyTorch raises for that, as it did before"
            if self.signature.into is not None:
                raises = "no gradient comes back from it, and PyTorch does not say so"
            note = Finding(
                MENTION_CODE,
                MENTION_NAME,
                Severity.INFO if self.signature.into is None else Severity.WARNING,
                position(module, call),
                f"an argument of this call of `{self.bindings.qualname}` requires grad: {raises}, "
                "since nothing flows back through a buffer",
                self.op.qualname,
                f"call `{self.op.qualname}` without a buffer there, or under torch.no_grad()",
            )
            if note not in self.plan.notes:
                self.plan.notes.append(note)

    def note(self, registration: Registration, what: str, why: str) -> None:
        """Say that something stays with the functional half."""
        self.plan.notes.append(
            Finding(
                MENTION_CODE,
                MENTION_NAME,
                Severity.INFO,
                position(registration.module, registration.statement),
                f"the {what} stays with `{self.op.qualname}`; `{self.bindings.qualname}` gets "
                f"none: {why}",
                self.op.qualname,
                f"see whether callers of `{self.bindings.qualname}` rely on it",
            )
        )


def _refuse_left_over(
    built: cst.FunctionDef | cst.Lambda, buffer: str, function: AnyFunction
) -> None:
    """Raise RefusalError where a changed function still reads the parameter that went."""
    if isinstance(built, cst.FunctionDef):
        if isinstance(function, ast.FunctionDef):
            refuse_early_use(built, buffer, function)
    elif buffer in code_words(code_of(built.body)):
        raise RefusalError(
            function,
            f"the vmap rule uses `{buffer}`, which the functional op does not take",
            f"leave `{buffer}` out of the rule",
        )


def _is_plain_call(call: ast.Call) -> bool:
    """Whether a call has no star arguments, which would hide what it is given."""
    return not any(isinstance(a, ast.Starred) for a in call.args) and all(
        k.arg is not None for k in call.keywords
    )
