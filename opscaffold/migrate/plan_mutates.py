"""Letting an op declare what it mutates: in ``mutates_args``, and in the schemas that say it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opscaffold.contract.model import ListType, OptionalType, Parameter
from opscaffold.findings.model import Finding
from opscaffold.migrate.declaring import (
    Spot,
    aliased_text,
    find_mutates,
    find_schema,
    literals_in_lines,
    names_text,
    pieces_of,
)
from opscaffold.migrate.edits import Template
from opscaffold.migrate.fakes import add_fake
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.refusal import RefusalError
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.declared import mutated_by, tags
from opscaffold.rules.mutates_args_malformed import RULE as MALFORMED
from opscaffold.rules.mutates_args_malformed import meant_names
from opscaffold.rules.mutates_unknown import RULE as UNKNOWN
from opscaffold.rules.over_declared import RULE as OVER_DECLARED
from opscaffold.rules.proven import in_order, only_read, proven, written
from opscaffold.rules.returned import shared_arguments
from opscaffold.rules.undeclared_mutation import RULE as UNDECLARED
from opscaffold.source.model import Module, Op, Role


def plan_mutates(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan what an op declares to mutate, as its kernels prove it.

    Raises RefusedError, with every reason, where PyTorch would refuse the op then, or compile it
    wrong.
    """
    facts = OpFacts(context.project, op)
    change = _change(facts, {f.code for f in findings})
    reasons = list(_reasons(facts, change))
    if reasons:
        raise RefusedError(reasons)
    said = ", ".join(f"`{name}`" for name in change.names) or "nothing"
    plan = OpPlan(op.qualname, f"declared to mutate {said}")
    _declare(context, facts, change, plan)
    if not shared_arguments(facts):
        add_fake(context, facts, plan)
    return plan


@dataclass(frozen=True, slots=True)
class _Change:
    """What an op is to declare, and what it declares now (None: that cannot be used)."""

    names: tuple[str, ...]
    before: frozenset[str] | None

    @property
    def added(self) -> list[str]:
        """What it did not declare before."""
        return [n for n in self.names if self.before is None or n not in self.before]

    @property
    def dropped(self) -> list[str]:
        """What it declares no more."""
        return sorted((self.before or frozenset()) - set(self.names))


def _change(facts: OpFacts, codes: set[str]) -> _Change:
    """What the findings ask for, all together."""
    found: frozenset[str] | None
    if MALFORMED.code in codes or UNKNOWN.code in codes:
        found = meant_names(facts) if MALFORMED.code in codes else proven(facts)
        before = None if MALFORMED.code in codes else _tensors(facts)
    else:
        before = mutated_by(facts)
        found = before
        if found is not None and UNDECLARED.code in codes:
            found |= written(facts)
        if found is not None and OVER_DECLARED.code in codes:
            found -= only_read(facts)
    if found is None:
        raise RefusalError(None, "what it mutates cannot be told", "declare it by hand")
    return _Change(in_order(facts, found), before)


def _tensors(facts: OpFacts) -> frozenset[str]:
    contract = signature_of(facts.project, facts.op)
    parameters = () if contract is None else contract.parameters
    return frozenset(p.name for p in parameters if p.is_tensor_like)


def _reasons(facts: OpFacts, change: _Change) -> Iterable[RefusalError]:
    """Why PyTorch would not take the op with what it is to declare, or get it wrong."""
    definition = facts.op.definition
    contract = signature_of(facts.project, facts.op)
    parameters = {} if contract is None else {p.name: p for p in contract.parameters}
    returns = [] if contract is None else [r.type for r in contract.returns]
    if contract is None:
        yield RefusalError(None, "its signature cannot be read", "declare it by hand")
    if tags(facts) != frozenset():
        yield RefusalError(
            None,
            "its tag settles what it may mutate",
            "drop the tag and return nothing, or write to a copy",
        )
    if change.names and not change.before:
        for registration in facts.op.attached:
            if registration.role is Role.AUTOGRAD:
                yield RefusalError(
                    registration.statement,
                    "it has a gradient formula, which PyTorch refuses for an op that mutates",
                    "write to a copy, or split what is written off into an op without gradient",
                    registration.module,
                )
        if any(isinstance(t, ListType) or not _is_tensor(t) for t in returns):
            yield RefusalError(
                None,
                "it returns something other than plain tensors, and an op that mutates an argument "
                "and does so cannot be compiled",
                "write to a copy, or return tensors one by one",
            )
        if "mode" in parameters:
            yield RefusalError(
                facts.parameter("mode"),
                "torch.compile fails for every op that mutates an argument and has a parameter "
                "called `mode`",
                "rename the parameter",
            )
    for name in change.added:
        yield from _of_parameter(facts, parameters.get(name), returns=bool(returns))
    if change.dropped and not change.names and not returns:
        yield RefusalError(
            definition.call or definition.statement,
            "it would mutate and return nothing, so that compiled code may drop the call",
            "return what it computes",
            definition.module,
        )


def _is_tensor(type_: object) -> bool:
    return getattr(type_, "name", None) == "Tensor"


def _of_parameter(
    facts: OpFacts, parameter: Parameter | None, *, returns: bool
) -> Iterable[RefusalError]:
    if parameter is None:
        return
    name, type_ = parameter.name, parameter.type
    if isinstance(type_, OptionalType) and returns:
        yield RefusalError(
            facts.parameter(name),
            f"`{name}` may be omitted, and Inductor fails for an op that mutates such an argument "
            "beside the tensor it returns",
            f"require `{name}`, or return nothing",
        )
    inner = type_.of if isinstance(type_, OptionalType) else type_
    if isinstance(inner, ListType) and isinstance(inner.of, OptionalType):
        yield RefusalError(
            facts.parameter(name),
            f"PyTorch cannot compile an op that mutates `{name}`, a list whose elements may be "
            "None",
            f"take the tensors of `{name}` one by one",
        )


def _declare(context: Context, facts: OpFacts, change: _Change, plan: OpPlan) -> None:
    """Plan the edits of everything that says what the op mutates."""
    definition = facts.op.definition
    schema = find_schema(context.project, definition)
    spot = find_mutates(context.project, definition)
    if schema is None and spot is None:
        raise RefusalError(
            definition.statement,
            "what it mutates is not written in sight of its definition",
            "declare it by hand",
            definition.module,
        )
    if schema is not None:
        _write_schema(context, schema[0], schema[1], change, plan)
    if spot is not None:
        _write_names(context, spot, change, plan)


def _write_schema(
    context: Context, module: Module, node: ast.expr, change: _Change, plan: OpPlan
) -> None:
    """Annotate the arguments of a schema string, whichever of its literals they stand in."""
    syntax = context.syntaxes.of(module)
    pieces = pieces_of(syntax, node)
    texts = dict(pieces)
    for name in (*change.added, *change.dropped):
        hits = [
            (key, new)
            for key in texts
            if (new := aliased_text(texts, key, name, write=name in change.names)) is not None
        ]
        if len(hits) != 1:
            raise RefusalError(
                node,
                f"where the schema says `{name}` cannot be told",
                f"annotate `{name}` by hand",
                module,
            )
        key, new = hits[0]
        texts[key] = new
    edits = plan.edits_for(module)
    edits.literals.update({key: texts[key] for key, text in pieces if texts[key] != text})


def _write_names(context: Context, spot: Spot, change: _Change, plan: OpPlan) -> None:
    """Write ``mutates_args`` in the style that it has."""
    edits = plan.edits_for(spot.module)
    syntax = context.syntaxes.of(spot.module)
    if spot.node is None:
        text = names_text(spot, None, change.names)
        edits.keywords[syntax.key(spot.call)] = {spot.keyword: text}
        return
    literals = literals_in_lines(spot)
    if literals and bool(change.added) is not bool(change.dropped):
        # One name a line, with comments: only the lines in question change.
        edits.elements |= {syntax.key(v) for n, v in literals.items() if n not in change.names}
        if change.added:
            edits.exports[syntax.key([*literals.values()][-1])] = change.added
        return
    text = names_text(spot, spot.node, change.names)
    edits.expressions[syntax.place(spot.node)] = Template(text)
