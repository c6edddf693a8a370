"""What is looked for once a repair is made: each op is there, with the contract it should have.

Whatever is found here is a fault of opscaffold, and the repair is withdrawn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from opscaffold.contract.kinds import returns_argument
from opscaffold.contract.model import BaseType, OpContract, Parameter, SchemaType, Tag, alias_of
from opscaffold.contract.pytypes import strip_alias
from opscaffold.findings.intents import (
    AddTag,
    CloneReturn,
    Intent,
    ReturnNothing,
    SetMutates,
    SplitInplaceFlag,
    SplitMaybeOut,
)
from opscaffold.migrate.steps import Step
from opscaffold.rules.contracts import contract_of
from opscaffold.source.model import Module
from opscaffold.source.project import Project

_TENSOR = BaseType("Tensor")


def definitions(project: Project, qualname: str) -> int:
    """How often an op is defined: in branches, more than once."""
    return sum(op.qualname == qualname for op in project.all_ops)


def names_after(step: Step) -> tuple[str, ...]:
    """The ops that a repair makes or keeps."""
    return step.plan.new_ops or (step.plan.op,)


def contracts_after(project: Project, step: Step) -> tuple[tuple[str, OpContract | None], ...]:
    """The contracts of the ops that a repair makes or keeps, by name."""
    return tuple((name, _contract(project, name)) for name in names_after(step))


def fault_after(project: Project, step: Step, before: int) -> str:
    """What is wrong with the ops of a step that was made; empty where all is as it should be.

    ``before`` is how often the op was defined: a definition in each of two branches becomes two
    of each new op.
    """
    for name in names_after(step):
        found = definitions(project, name)
        if found not in (1, before):
            return f"`{name}` is defined {found} times afterwards"
    made = dict(step.new)
    for intent in step.intents:
        fault = _fault(intent, step, made)
        if fault:
            return fault
    return ""


def _contract(project: Project, name: str) -> OpContract | None:
    op = next((op for op in project.all_ops if op.qualname == name), None)
    return None if op is None else contract_of(project, op)


def _fault(intent: Intent, step: Step, made: dict[str, OpContract | None]) -> str:
    match intent:
        case SplitMaybeOut(buffers=buffers) if len(step.plan.new_ops) == 2:
            fresh, given = (made.get(name) for name in step.plan.new_ops)
            return _fault_of_split(buffers, step.old, fresh, given)
        case SplitInplaceFlag() if len(step.plan.new_ops) == 2:
            fresh, given = (made.get(name) for name in step.plan.new_ops)
            return _fault_of_flag(intent, step.old, fresh, given)
        case _:
            return next(
                (
                    fault
                    for name, contract in made.items()
                    if contract is not None and (fault := _fault_of_one(intent, name, contract))
                ),
                "",
            )


def _fault_of_one(intent: Intent, name: str, contract: OpContract) -> str:
    match intent:
        case AddTag(tag=tag) if Tag(tag) not in contract.tags and contract.returns:
            # A release without tags is given an op that returns nothing instead.
            return f"`{name}` is not tagged {tag}"
        case ReturnNothing() if contract.returns:
            return f"`{name}` still returns something"
        case SetMutates(names=names) if set(contract.mutated) != set(names):
            return f"`{name}` is declared to mutate {_listed(contract.mutated)}"
        case CloneReturn() if not contract.tags and any(alias_of(r.type) for r in contract.returns):
            return f"`{name}` still declares that it returns an argument"
    return ""


def _fault_of_split(
    buffers: tuple[str, ...],
    old: OpContract | None,
    fresh: OpContract | None,
    given: OpContract | None,
) -> str:
    if fresh is not None:
        left = [p.name for p in fresh.parameters if p.name in buffers]
        if left:
            return f"`{fresh.qualname}` still takes `{left[0]}`"
        if not fresh.returns or any(alias_of(r.type) for r in fresh.returns):
            return f"`{fresh.qualname}` does not return a tensor of its own"
        if old is not None and _plain(fresh.parameters) != _plain(_without(old, *buffers)):
            return f"`{fresh.qualname}` does not take the arguments that it took before"
    if given is None:
        return ""
    taken = [p for p in given.parameters if p.name in buffers]
    for buffer in buffers:
        own = next((p for p in taken if p.name == buffer), None)
        if own is None or strip_alias(own.type) != _TENSOR or own.default is not None:
            return f"`{given.qualname}` does not take `{buffer}` as a Tensor that must be given"
        if not own.mutated:
            return f"`{given.qualname}` does not declare that it mutates `{buffer}`"
    if tuple(p.name for p in taken) != buffers:
        return f"`{given.qualname}` takes its buffers in another order than it returns them in"
    returned = [
        any(returns_argument(r, p) for r in given.returns) == (Tag.OUT in given.tags) for p in taken
    ]
    if not all(returned):
        return f"`{given.qualname}` is tagged and returns as no out= op may"
    if old is not None and _plain(_without(given, *buffers)) != _plain(_without(old, *buffers)):
        return f"`{given.qualname}` does not take the arguments that it took before"
    return ""


def _fault_of_flag(
    intent: SplitInplaceFlag,
    old: OpContract | None,
    fresh: OpContract | None,
    given: OpContract | None,
) -> str:
    for contract in (fresh, given):
        if contract is None:
            continue
        if intent.flag in {p.name for p in contract.parameters}:
            return f"`{contract.qualname}` still takes `{intent.flag}`"
        if old is not None and _plain(contract.parameters) != _plain(_without(old, intent.flag)):
            return f"`{contract.qualname}` does not take the arguments that it took before"
    if fresh is not None:
        if intent.argument in fresh.mutated:
            return f"`{fresh.qualname}` declares that it mutates `{intent.argument}`"
        if not fresh.returns or any(alias_of(r.type) for r in fresh.returns):
            return f"`{fresh.qualname}` does not return a tensor of its own"
    if given is not None:
        written = [p for p in given.parameters if p.name == intent.argument]
        if intent.argument not in given.mutated or not written:
            return f"`{given.qualname}` does not declare that it mutates `{intent.argument}`"
        tagged = Tag.INPLACE in given.tags
        if tagged != any(returns_argument(r, written[0]) for r in given.returns):
            return f"`{given.qualname}` is tagged and returns as no in-place op may"
    return ""


def _without(contract: OpContract, *names: str) -> list[Parameter]:
    return [p for p in contract.parameters if p.name not in names]


def _plain(parameters: Iterable[Parameter]) -> set[tuple[str, SchemaType]]:
    return {(p.name, strip_alias(p.type)) for p in parameters}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def encoded(module: Module, text: str) -> bytes | None:
    """The new text of a file in the file's own encoding; None if it does not parse there."""
    try:
        ast.parse(text)
        return module.source.encode(text)
    except (SyntaxError, ValueError):
        return None
