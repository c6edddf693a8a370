"""The fake kernel of a functional half that had none."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from opscaffold.effects.derive_fake import UnderivableError
from opscaffold.migrate.attached import new_fake
from opscaffold.migrate.definition import torch_tag
from opscaffold.migrate.forms import DefinitionForm
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.sequences import append
from opscaffold.migrate.split_names import Namer
from opscaffold.rules import missing_fake
from opscaffold.rules.base import OpFacts
from opscaffold.source.model import Role


def derived_fake(
    context: Context,
    facts: OpFacts,
    dropped: Collection[str],
    namer: Namer,
    form: DefinitionForm,
    functional: cst.FunctionDef,
    plan: OpPlan,
) -> cst.FunctionDef | None:
    """A fake kernel for the functional half, or a note that it is missing.

    ``dropped`` are the parameters that it does not take.
    """
    function, op, project = form.main, facts.op, context.project
    module = op.definition.module
    plain = form.variable or function.name
    name = namer.free(function, f"_{plain.strip('_') or op.name}_fake")
    decorator = f"{form.variable}.register_fake"
    plain_op = op.definition.role in (Role.CUSTOM_OP, Role.TRITON_OP)
    if form.variable in (None, "_") or not plain_op:
        root = torch_tag(project, module, form).removesuffix(".Tag.out")
        decorator = f'{root}.library.register_fake("{op.qualname}")'
    tensors = [a.name for a in facts.arguments if a.tensor and a.name not in dropped]
    try:
        return new_fake(project, op, functional, tensors, name, decorator, kernel=function)
    except UnderivableError as error:
        reason = str(error)
    plan.notes.append(
        missing_fake.RULE.finding(
            module,
            function,
            f"the functional op has no fake kernel, so it cannot be compiled or exported, and "
            f"none can be derived: {reason}",
            op=op.qualname,
            remedy=f"register one with `@{decorator}`; sizes that depend on data come from "
            "torch.library.get_ctx().new_dynamic_size()",
        )
    )
    return None


def attaching(fake: cst.FunctionDef) -> cst.BaseStatement:
    """The decorator of a fake kernel as a statement of its own."""
    decorator = fake.decorators[0].decorator
    arg = cst.Arg(cst.Name(fake.name.value))
    if isinstance(decorator, cst.Call):
        call = decorator.with_changes(args=append(decorator.args, arg))
    else:
        call = cst.Call(decorator, [arg])
    return cst.SimpleStatementLine([cst.Expr(call)])
