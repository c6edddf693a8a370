"""Letting an op return memory of its own, in every kernel, on the paths where it did not."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from opscaffold.effects.trace import Effect
from opscaffold.effects.values import UNSEEN, Ref
from opscaffold.findings.intents import CloneReturn
from opscaffold.findings.model import Finding
from opscaffold.migrate.copying import Copies
from opscaffold.migrate.fake_mending import mend_fakes, mend_layouts
from opscaffold.migrate.fakes import add_fake, torch_name
from opscaffold.migrate.layouts import Layout, layouts_of
from opscaffold.migrate.plain_uses import other_use, registrations_of
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.watching import watch
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.declared import maybe_outs, mutated_by
from opscaffold.rules.devices import devices_of
from opscaffold.rules.fakes import fakes_of
from opscaffold.rules.flags import flagged
from opscaffold.rules.functions import AnyFunction, returned
from opscaffold.rules.kernels import Kernel, kernels_of
from opscaffold.rules.names import ProjectNames
from opscaffold.rules.returned import Sharing, sharing_of
from opscaffold.source.model import Form, Op
from opscaffold.source.project import Project

# Which rule speaks of which way to share an argument's memory.
_RULES = {
    Sharing.INPUT: "OPS201",
    Sharing.VIEW: "OPS202",
    Sharing.MAYBE: "OPS203",
    Sharing.HIDDEN: "OPS206",
}
_OVERLAP, _LASTING = "OPS204", "OPS205"


def plan_clone(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan copies where an op's kernels return memory that is not their own.

    Only what the findings are about is copied. Raises RefusalError.
    """
    facts = OpFacts(context.project, op)
    codes = frozenset(f.code for f in findings)
    safe = all(isinstance(f.intent, CloneReturn) and f.intent.safe for f in findings)
    plan = OpPlan(op.qualname, "changed to return memory of its own")
    dense = _dense_returns(facts)
    contiguous: set[int | None] = set()
    for kernel in kernels_of(facts):
        copies = _copies(context, facts, kernel, codes, dense)
        if not copies.edits:
            continue
        if safe and not context.options.unsafe:
            _refuse_plain_uses(context.project, op, kernel)
        contiguous |= copies.contiguous
        plan.edits_for(kernel.module).update(copies.edits)
    if not plan.edits:
        raise RefusalError(None, "where it does cannot be told", "clone what is returned by hand")
    mend_layouts(context, facts, contiguous, plan)
    made = frozenset(contiguous) if len(list(_ways(facts))) == 1 else frozenset[int | None]()
    mend_fakes(context, facts, plan, made)
    add_fake(context, facts, plan)
    return plan


def _copies(
    context: Context,
    facts: OpFacts,
    kernel: Kernel,
    codes: frozenset[str],
    dense: frozenset[int | None],
) -> Copies:
    """The copies that one kernel needs."""
    module, function = kernel.module, kernel.function
    names = ProjectNames(context.project, module)
    contract = signature_of(context.project, facts.op)
    copies = Copies(
        syntax=context.syntaxes.of(module),
        module=module,
        function=function,
        watched=watch(function, kernel.arguments, names, devices_of(facts.op, function)),
        torch=torch_name(module, function),
        bad=_lent(facts, kernel, codes),
        returns=None if contract is None else [r.type for r in contract.returns],
        optional=frozenset(f"param:{a.name}" for a in kernel.arguments if a.optional),
        dense=dense,
    )
    for value, refs in _returned(kernel):
        if any(copies.bad(ref) for ref in refs):
            copies.copy_in(value)
    if _OVERLAP in codes:
        for overlap in kernel.effects.overlaps:
            shared = _value_of(overlap.place, function)
            if shared is not None:
                copies.separate_in(shared)
    return copies


def _lent(facts: OpFacts, kernel: Kernel, codes: frozenset[str]) -> Callable[[Ref], bool]:
    """Whether memory must not be returned, by the rules that spoke."""
    apart = maybe_outs(facts) | flagged(facts)
    declared = mutated_by(facts) or frozenset()
    kept = {
        e.root
        for e in kernel.effects.trace.events
        if e.effect is Effect.KEEP and e.root.startswith("fresh:") and e.known
    }

    def bad(ref: Ref) -> bool:
        if ref.guess or ref == UNSEEN:
            return False
        name = ref.root.removeprefix("param:")
        if name != ref.root:
            if kernel.declared.get(name, name) in apart:
                return False
            return _RULES.get(sharing_of(kernel, ref, name, declared)) in codes
        return _LASTING in codes and (ref.root.startswith("global:") or ref.root in kept)

    return bad


def _returned(kernel: Kernel) -> Iterator[tuple[ast.expr, frozenset[Ref]]]:
    """What each way out of a kernel returns, as it is written."""
    for way in kernel.effects.trace.returns:
        value = _value_of(way.node, kernel.function)
        if value is not None:
            yield value, way.value.all_refs()


def _value_of(place: ast.AST | None, function: AnyFunction) -> ast.expr | None:
    if isinstance(function, ast.Lambda):
        return function.body
    return place.value if isinstance(place, ast.Return) else None


def _dense_returns(facts: OpFacts) -> frozenset[int | None]:
    """The returns that every fake kernel says are contiguous."""
    contract = signature_of(facts.project, facts.op)
    fakes = list(fakes_of(facts.op))
    if contract is None or not contract.returns or not fakes:
        return frozenset()
    count = len(contract.returns)
    found = [layouts_of(fake.function, count) for fake in fakes]
    places = [None] if count == 1 else list(range(count))
    return frozenset(
        place
        for index, place in enumerate(places)
        if all(layouts[index] is Layout.CONTIGUOUS for layouts in found)
    )


def _ways(facts: OpFacts) -> Iterator[ast.expr]:
    """What the kernels return, in each place where they do."""
    for kernel in kernels_of(facts):
        yield from returned(kernel.function)


def _refuse_plain_uses(project: Project, op: Op, kernel: Kernel) -> None:
    """A function that is called as such too may be relied on for handing its argument back."""
    function = kernel.function
    own = registrations_of(op, function)
    if any(r.form is Form.DECORATOR and r is op.definition for r in own):
        return
    use = other_use(project, function, own)
    if use is not None:
        raise RefusalError(
            use[1],
            f"`{getattr(function, 'name', '')}` is used as a plain function too, whose callers "
            "may rely on getting their argument back",
            "pass --unsafe if they do not",
            use[0],
        )
