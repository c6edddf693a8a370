"""Writing the fake kernel that an op lacks, and mending or dropping one that it should not have."""

from __future__ import annotations

from collections.abc import Sequence

from opscaffold.findings.model import Finding
from opscaffold.migrate.derive_fake import UnderivableError
from opscaffold.migrate.fakes import derived
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.rules.base import OpFacts
from opscaffold.source.model import Op


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
