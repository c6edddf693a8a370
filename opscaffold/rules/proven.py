"""What an op should declare to mutate, as far as its kernels in sight prove it."""

from __future__ import annotations

from collections.abc import Iterable

from opscaffold.effects.trace import MUTATIONS, Effect
from opscaffold.findings.intents import SetMutates
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.declared import maybe_outs, mutated_by
from opscaffold.rules.kernels import Kernel, all_in_sight, kernels_of
from opscaffold.rules.outputs import outputs_of

_MAY_WRITE = MUTATIONS | {Effect.OPAQUE, Effect.KEEP}


def written(facts: OpFacts) -> frozenset[str]:
    """The arguments that some kernel writes to; each buffer of a maybe-out is left out."""
    found = {k.declared.get(n, n) for k in kernels_of(facts) for n in k.effects.mutations}
    return frozenset(found - maybe_outs(facts))


def only_read(facts: OpFacts) -> frozenset[str]:
    """The arguments declared as mutated that surely no kernel writes to, nor hands on."""
    declared = mutated_by(facts)
    if not declared or not all_in_sight(facts):
        return frozenset()
    kernels = kernels_of(facts)
    names = declared - outputs_of(facts).keys()
    return frozenset(n for n in names if all(_only_reads(k, n) for k in kernels))


def proven(facts: OpFacts) -> frozenset[str] | None:
    """All that the kernels write to; None where code out of sight may write to more."""
    kernels = kernels_of(facts)
    if not kernels or not all_in_sight(facts) or maybe_outs(facts):
        return None
    for kernel in kernels:
        roots = {f"param:{a.name}" for a in kernel.arguments if a.tensor}
        mutated = {f"param:{name}" for name in kernel.effects.mutations}
        for event in kernel.effects.trace.events:
            hidden = event.effect in {Effect.OPAQUE, Effect.KEEP}
            if hidden and event.root in roots - mutated:
                return None
    return written(facts)


def in_order(facts: OpFacts, names: Iterable[str]) -> tuple[str, ...]:
    """Names of parameters in the order of the op."""
    contract = signature_of(facts.project, facts.op)
    order = [a.name for a in facts.arguments]
    if contract is not None:
        order = [p.name for p in contract.parameters]
    return tuple(sorted(names, key=lambda n: (order.index(n) if n in order else len(order), n)))


def mutates_intent(facts: OpFacts, names: Iterable[str]) -> SetMutates:
    """The repair that lets an op declare these names, and no others."""
    return SetMutates(facts.op.qualname, in_order(facts, names))


def _only_reads(kernel: Kernel, name: str) -> bool:
    own = kernel.own_name(name)
    if own is None or all(a.name != own or not a.tensor for a in kernel.arguments):
        return False
    return not any(e.effect in _MAY_WRITE for e in kernel.effects.trace.on(f"param:{own}"))
