"""Memory of an op's arguments that its kernels hand back, sorted by how surely they do."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator

from opscaffold.effects.values import UNSEEN, Ref
from opscaffold.findings.intents import CloneReturn
from opscaffold.findings.model import Finding, Position
from opscaffold.records import dataclass, field
from opscaffold.rules.base import OpFacts, Rule, position
from opscaffold.rules.declared import aliased_by_schema, maybe_outs, mutated_by, tags
from opscaffold.rules.flags import flagged
from opscaffold.rules.kernels import Kernel, is_checked, kernels_of
from opscaffold.source.model import Form

LOW_LEVEL = (
    "eager mode works, but torch.compile takes the result for new memory: a later write to one "
    "of the two is silently missing in the other"
)


class Sharing(enum.Enum):
    """How a return shares memory with an argument."""

    INPUT = "the argument itself"
    MUTATED = "an argument that the op mutates"
    VIEW = "a view of the argument"
    MAYBE = "the argument or a copy, depending on the input"
    HIDDEN = "the argument's memory under another storage"


@dataclass(slots=True)
class Shared:
    """One argument that a kernel returns in one way; ``always`` on every path and input."""

    kernel: Kernel
    argument: str
    sharing: Sharing
    always: bool = True
    places: list[ast.AST] = field(default_factory=list)

    @property
    def where(self) -> str:
        """When this happens, in words that follow a verb."""
        return "" if self.always else " on this path"


def shared_arguments(facts: OpFacts) -> list[Shared]:
    """What untagged kernels return of their arguments, but where a buffer or flag decides it."""
    known = tags(facts)
    if known is None or known or aliased_by_schema(facts):
        return []
    apart = maybe_outs(facts) | flagged(facts)
    declared = mutated_by(facts) or frozenset()
    found: list[Shared] = []
    for kernel in kernels_of(facts):
        met: dict[tuple[str, Sharing], Shared] = {}
        total = len(kernel.effects.trace.returns)
        count: dict[tuple[str, Sharing], int] = {}
        for returned in kernel.effects.trace.returns:
            kinds: dict[tuple[str, Sharing], bool] = {}
            for _, part in returned.value.parts():
                refs = part.all_refs()
                alone = len({r.root for r in refs}) == 1 and UNSEEN not in refs
                for ref in refs:
                    name = ref.root.removeprefix("param:")
                    if name == ref.root or ref.guess or kernel.declared.get(name, name) in apart:
                        continue
                    key = (name, sharing_of(kernel, ref, name, declared))
                    kinds[key] = kinds.get(key, False) or alone
            for key, alone in kinds.items():
                shared = met.setdefault(key, Shared(kernel, *key))
                shared.always = shared.always and alone
                shared.places.append(returned.node or kernel.function)
                count[key] = count.get(key, 0) + 1
        for key, shared in met.items():
            shared.always = shared.always and count[key] == total
            found.append(shared)
    return found


def report(facts: OpFacts, rule: Rule, sharing: Sharing, what: str) -> Iterator[Finding]:
    """The findings of a rule about one way of sharing; ``what`` is said of ``{name}``."""
    for shared in shared_arguments(facts):
        if shared.sharing is not sharing:
            continue
        said = what.format(name=f"`{shared.argument}`")
        if is_checked(facts):
            when = "every call raises" if shared.always else "a call that takes it raises"
            effect = f"{when} RuntimeError once the kernel is done"
        else:
            effect = LOW_LEVEL
        yield rule.finding(
            shared.kernel.module,
            shared.places[0],
            f"{said}{shared.where}: {effect}",
            op=facts.op.qualname,
            evidence=evidence(shared),
            intent=clone_intent(facts),
        )


def clone_intent(facts: OpFacts, hidden: str = "") -> CloneReturn:
    """The repair: safe only where PyTorch raised whenever the memory was returned.

    ``hidden`` says what callers could see, where PyTorch's own check does not look.
    """
    definition = facts.op.definition
    op = facts.op.qualname
    if hidden:
        return CloneReturn(op, safe=False, why=hidden)
    if is_checked(facts) and definition.form is not Form.HELPER and not definition.fallback:
        return CloneReturn(op)
    why = "callers got the memory itself in eager mode, and may write to it through the result"
    return CloneReturn(op, safe=False, why=why)


def evidence(shared: Shared) -> list[Position]:
    """The other places where it is returned."""
    return [position(shared.kernel.module, p) for p in dict.fromkeys(shared.places[1:6])]


def sharing_of(kernel: Kernel, ref: Ref, name: str, declared: frozenset[str]) -> Sharing:
    """How memory of a kernel's argument ``name`` is shared where it is returned."""
    if ref.hidden:
        return Sharing.HIDDEN
    if ref.perhaps:
        return Sharing.MAYBE
    if not ref.exact:
        return Sharing.VIEW
    mutated = kernel.declared.get(name, name) in declared or name in kernel.effects.mutations
    return Sharing.MUTATED if mutated else Sharing.INPUT
