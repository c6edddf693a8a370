"""Writing the fake kernel that an op lacks, and mending or dropping one that it should not have."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import libcst as cst

from opscaffold.effects.buffers import Argument
from opscaffold.effects.derive_fake import UnderivableError
from opscaffold.findings.model import Finding
from opscaffold.migrate.attached import FakeEditor
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.fake_mending import mend_fakes
from opscaffold.migrate.fakes import derived
from opscaffold.migrate.plain_uses import other_use, registrations_of
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.refusal import RefusalError
from opscaffold.rules.base import OpFacts
from opscaffold.rules.fake_handles_out import RULE as HANDLES_OUT
from opscaffold.rules.fake_handles_out import left_over
from opscaffold.rules.fake_returns_input import RULE as RETURNS_INPUT
from opscaffold.rules.fakes import fake_arguments, fakes_of
from opscaffold.rules.redundant_fake import RULE as REDUNDANT
from opscaffold.source.model import Form, Module, Op, Registration, Role


def plan_write_fake(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan the fake kernel of an op that has none. Raises RefusalError."""
    del findings
    facts = OpFacts(context.project, op)
    plan = OpPlan(op.qualname, "given a fake kernel")
    try:
        place, fake = derived(context, facts, plan)
    except UnderivableError as error:
        raise RefusalError(
            None,
            f"none can be derived: {error}",
            "register one with register_fake; sizes that depend on data come from "
            "torch.library.get_ctx().new_dynamic_size()",
        ) from None
    key = context.syntaxes.of(place.module).key(place.statement)
    plan.edits_for(place.module).behind[key] = [fake]
    return plan


def plan_mend_fake(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan what becomes of fake kernels that do too much.

    One that PyTorch makes itself is dropped; one that returns an argument allocates; one that
    takes a buffer which the op takes no more loses it. Raises RefusalError or RefusedError.
    """
    facts = OpFacts(context.project, op)
    codes = {finding.code for finding in findings}
    if REDUNDANT.code in codes:
        plan = OpPlan(op.qualname, "left to the fake kernel that PyTorch makes")
        for registration in op.attached:
            if registration.role is Role.FAKE:
                _drop(context, op, registration, plan)
        return plan
    plan = OpPlan(op.qualname, "given a fake kernel that keeps to its contract")
    if HANDLES_OUT.code in codes:
        _without_buffers(context, facts, plan)
    if RETURNS_INPUT.code in codes and not plan.edits:
        reasons = mend_fakes(context, facts, plan, None)
        if reasons:
            raise RefusedError(reasons)
    if not plan.edits:
        raise RefusalError(None, "what it is to return cannot be told", "mend it by hand")
    return plan


def _without_buffers(context: Context, facts: OpFacts, plan: OpPlan) -> None:
    """Take buffers that the op does not have out of its fakes."""
    for fake in fakes_of(facts.op):
        names = left_over(facts, fake)
        if not names:
            continue
        if len(names) > 1:
            raise RefusalError(
                fake.function, "it takes several buffers more than the op", "drop them by hand",
                fake.module,
            )  # fmt: skip
        known = {a.name: a for a in fake_arguments(facts.project, facts.op, fake.function)}
        spec = fake.function.args
        order = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        arguments = [
            Argument(n, tensor=True, optional=True) if n in names else known[n] for n in order
        ]
        edits: dict[Module, FileEdits] = {}
        editor = FakeEditor(context.project, context.syntaxes, arguments, names[0])
        editor.edit(fake.registration, edits)
        plan.take({module.path: found for module, found in edits.items()})


def _drop(context: Context, op: Op, registration: Registration, plan: OpPlan) -> None:
    """Remove the registration of a fake, and the fake where nothing else needs it."""
    module, statement = registration.module, registration.statement
    syntax, edits = context.syntaxes.of(module), plan.edits_for(module)
    function = registration.function
    if registration.form is Form.HELPER:
        raise RefusalError(
            registration.call or statement,
            "a helper of the project registers it",
            "leave the fake kernel out of the call",
            module,
        )
    if isinstance(statement, ast.FunctionDef):
        _drop_decorated(context, op, registration, statement, plan)
        return
    if not isinstance(statement, ast.Expr):
        raise RefusalError(
            statement, "the statement that registers it does more", "delete it by hand", module
        )
    _check_alone(module, statement)
    edits.removed.add(syntax.key(statement))
    home = registration.function_module or module
    own = registrations_of(op, function) if function is not None else []
    if (
        isinstance(function, ast.FunctionDef)
        and home is module
        and not function.decorator_list
        and function.name.startswith("_")
        and other_use(context.project, function, own) is None
    ):
        _check_alone(module, function)
        edits.removed.add(syntax.key(function))


def _drop_decorated(
    context: Context,
    op: Op,
    registration: Registration,
    function: ast.FunctionDef,
    plan: OpPlan,
) -> None:
    module = registration.module
    syntax, edits = context.syntaxes.of(module), plan.edits_for(module)
    own = [r for r in registrations_of(op, function) if r.role is Role.FAKE]
    use = other_use(context.project, function, own)
    if use is None and len(function.decorator_list) == 1:
        _check_alone(module, function)
        edits.removed.add(syntax.key(function))
        return
    node = syntax.find(function, cst.FunctionDef)
    index = next(
        (
            i
            for i, d in enumerate(function.decorator_list)
            if d in (registration.call, registration.result)
            or (registration.call is None and len(function.decorator_list) == 1)
        ),
        None,
    )
    if index is None:
        raise RefusalError(
            function, "which decorator registers it cannot be told", "delete it by hand", module
        )
    left = [d for i, d in enumerate(node.decorators) if i != index]
    edits.statements[syntax.key(function)] = [node.with_changes(decorators=left)]


def _check_alone(module: Module, statement: ast.stmt) -> None:
    """Refuse to leave a block without a statement, or to touch a line of several."""
    parent = module.parents.get(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if not isinstance(block, list) or statement not in block:
            continue
        same = [s for s in block if s is not statement and s.lineno == statement.lineno]
        what = "shares its line with another statement" if same else "is all of its block"
        if same or (len(block) == 1 and not isinstance(parent, ast.Module)):
            raise RefusalError(statement, f"what registers it {what}", "delete it by hand", module)
