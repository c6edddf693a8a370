"""Which planner carries out which intent, and in which order they are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from opscaffold.findings.intents import (
    AddTag,
    CloneReturn,
    Intent,
    KeepCallable,
    MendFake,
    RenameOverload,
    ReturnNothing,
    SetMutates,
    SplitInplaceFlag,
    SplitMaybeOut,
    TagSchema,
    WriteFake,
)
from opscaffold.findings.model import Finding
from opscaffold.migrate.plan import Context, OpPlan, Refused, RefusedError
from opscaffold.migrate.plan_clone import plan_clone
from opscaffold.migrate.plan_compat import plan_compat
from opscaffold.migrate.plan_fakes import plan_mend_fake, plan_write_fake
from opscaffold.migrate.plan_inplace_flag import plan_inplace_flag
from opscaffold.migrate.plan_mutates import plan_mutates
from opscaffold.migrate.plan_overload import plan_rename
from opscaffold.migrate.plan_paired import plan_maybe_out
from opscaffold.migrate.plan_returned import plan_return_nothing
from opscaffold.migrate.plan_schema import plan_tag_schema
from opscaffold.migrate.plan_tag import plan_add_tag
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.rewrite_file import refuse_unreadable
from opscaffold.migrate.syntax import SyntaxMismatchError
from opscaffold.source.model import Op

Planner = Callable[[Context, Op, Sequence[Finding]], OpPlan]
"""Plans all findings of one kind of intent about one op.

Raises RefusalError or RefusedError where that cannot be done for sure, for the op as a whole.
"""

# In this order: what changes the op's signature comes first, what only changes bodies last.
PLANNERS: dict[type[Intent], Planner] = {
    SplitMaybeOut: plan_maybe_out,
    SplitInplaceFlag: plan_inplace_flag,
    ReturnNothing: plan_return_nothing,
    AddTag: plan_add_tag,
    TagSchema: plan_tag_schema,
    RenameOverload: plan_rename,
    SetMutates: plan_mutates,
    CloneReturn: plan_clone,
    MendFake: plan_mend_fake,
    WriteFake: plan_write_fake,
    KeepCallable: plan_compat,
}


def first_repair(findings: Sequence[Finding]) -> list[Finding]:
    """Of the findings about one op, those that are to be repaired together next.

    What is safe to repair does not wait for what is not.
    """
    for kind in PLANNERS:
        chosen = [f for f in findings if isinstance(f.intent, kind)]
        if kind is SetMutates:
            # What is added and what is dropped are two steps, each of which may be held back.
            chosen = [f for f in chosen if f.intent == chosen[0].intent]
        if chosen:
            return [f for f in chosen if f.intent is not None and f.intent.safe] or chosen
    return []


def plan_repair(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan | Refused:
    """Plan the repair of findings whose intents are of one kind, all about ``op``."""
    unsafe = [f.intent for f in findings if f.intent is not None and not f.intent.safe]
    if unsafe and not context.options.unsafe:
        # Nobody is told to ask for what would be refused all the same.
        asked = replace(
            context,
            options=replace(context.options, unsafe=True),
            reserved={path: set(names) for path, names in context.reserved.items()},
        )
        plan = plan_repair(asked, op, findings)
        if isinstance(plan, Refused):
            return plan
        reason = RefusalError(None, unsafe[0].why, "pass --unsafe if that is what you want")
        return Refused(op, [reason], held=True)
    planner = PLANNERS[type(findings[0].intent)]  # type: ignore[index]
    try:
        plan = planner(context, op, findings)
        for path, edits in plan.edits.items():
            module = context.project.module_for(path)
            if module is not None:
                refuse_unreadable(context.syntaxes.of(module), edits)
    except RefusedError as refused:
        return Refused(op, refused.reasons)
    except RefusalError as refusal:
        return Refused(op, [refusal])
    except SyntaxMismatchError as error:
        return Refused(op, [RefusalError(None, str(error), "migrate this op by hand")])
    plan.codes = frozenset(f.code for f in findings)
    return plan
