"""How the out= half of an op is named: flat, or as an overload where that is safe."""

from __future__ import annotations

from dataclasses import replace

from opscaffold.contract.derive import DerivationError, out_of
from opscaffold.contract.hazards import Hazard
from opscaffold.contract.naming import OutNaming, overload_refusal
from opscaffold.contract.pytypes import strip_alias
from opscaffold.contract.releases import release_for
from opscaffold.migrate.plan import Options
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.split import Half
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of

FLAT = "_out"
OVERLOAD = ".out"
_FLAT_HINT = "run again with --only {op} --out-naming flat, which makes it `{name}`"


def out_suffix(
    facts: OpFacts, buffer: str, half: Half, options: Options
) -> tuple[str, list[Hazard]]:
    """What stands behind the op's name in that of its mutable half, and what to say of it.

    Only an out= op can be an overload that PyTorch pairs with the functional op. Raises
    RefusalError where ``ns::foo.out`` was asked for and torch.compile would break with it.
    """
    if options.out_naming == OutNaming.FLAT.value or half is Half.INTO:
        return FLAT, []
    definition = facts.op.definition
    where = definition.call or definition.statement
    old = signature_of(facts.project, facts.op)
    if old is None:
        raise RefusalError(
            where,
            "its signature cannot be told, so whether an overload is safe cannot either",
            _FLAT_HINT.format(op=facts.op.qualname, name=f"{facts.op.qualname}{FLAT}"),
        )
    functional = replace(
        old,
        parameters=tuple(
            replace(p, type=strip_alias(p.type)) for p in old.parameters if p.name != buffer
        ),
        returns=tuple(replace(r, type=strip_alias(r.type)) for r in old.returns),
        tags=frozenset(),
    )
    try:
        out = out_of(functional, [buffer], style=OutNaming.OVERLOAD)
    except DerivationError as error:
        raise RefusalError(where, str(error), "split the op by hand") from None
    refused, warned = overload_refusal(functional, out, release_for(options.target))
    if refused:
        reasons = "; ".join(dict.fromkeys(hazard.reason for hazard in refused))
        raise RefusalError(
            where,
            f"`{facts.op.qualname}.out` would break under torch.compile: {reasons}",
            _FLAT_HINT.format(op=facts.op.qualname, name=f"{facts.op.qualname}{FLAT}"),
        )
    return OVERLOAD, warned
