"""Whether a fake kernel returns as much as its op declares.

Source: torch.library reference, register_fake. PyTorch converts what a fake returns by the schema.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.contract.model import BaseType, ListType, OpContract
from opscaffold.effects.summary import effects_of
from opscaffold.effects.values import UNSEEN, Value
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.fakes import Fake, fake_arguments
from opscaffold.rules.functions import AnyFunction, is_generator
from opscaffold.rules.names import ProjectNames


def wrong_counts(facts: OpFacts, fake: Fake) -> Iterator[tuple[ast.AST, str]]:
    """The returns of a fake that surely do not fit the op's schema, with what is wrong."""
    contract = signature_of(facts.project, facts.op)
    if contract is None or not contract.returns or is_generator(fake.function):
        return
    arguments = fake_arguments(facts.project, facts.op, fake.function)
    names = ProjectNames(facts.project, fake.module)
    seen: set[ast.AST] = set()
    ways = effects_of(fake.function, arguments, names).trace.returns
    if len(ways) > 1 and _made_for_each_op(fake):
        return
    for way in ways:
        if way.node is None and len(ways) > 1:
            # A body whose tests cover every case still seems to reach its end.
            continue
        problem = _problem(way.value, contract)
        place = way.node or fake.function
        if problem is not None and place not in seen:
            seen.add(place)
            yield place, problem


def _made_for_each_op(fake: Fake) -> bool:
    """Whether a function around a fake says, for each op it makes one for, which way it goes."""
    around: set[str] = set()
    node = fake.module.parents.get(fake.function)
    while node is not None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            around |= _bound_in(node)
        node = fake.module.parents.get(node)
    if not around:
        return False
    around -= _bound_in(fake.function)
    tests = [n.test for n in ast.walk(fake.function) if isinstance(n, ast.If | ast.IfExp)]
    read = {n.id for test in tests for n in ast.walk(test) if isinstance(n, ast.Name)}
    return bool(around & read)


def _bound_in(function: AnyFunction) -> set[str]:
    """The names that a function binds, by its parameters or in its own statements."""
    spec = function.args
    found = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    found |= {a.arg for a in (spec.vararg, spec.kwarg) if a is not None}
    pending: list[ast.AST] = list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)
    return found


def _problem(value: Value, contract: OpContract) -> str | None:
    count = len(contract.returns)
    declared = "one value" if count == 1 else f"{count} values"
    if value.null is True:
        plain = all(isinstance(r.type, BaseType | ListType) for r in contract.returns)
        return (
            (
                f"the fake kernel returns nothing, the op {declared}: compiled code gets None for "
                "the result"
            )
            if plain
            else None
        )
    listed = count == 1 and isinstance(contract.returns[0].type, ListType)
    if value.items is not None:
        if listed or len(value.items) == count != 1:
            return None
        given = "a tuple or list" if count == 1 else f"{len(value.items)} values"
        return f"the fake kernel returns {given}, the op {declared}: tracing a call raises"
    one = value.is_tensor and UNSEEN not in value.refs and not any(r.several for r in value.refs)
    if one and (listed or count > 1):
        wanted = "a list" if listed else declared
        return f"the fake kernel returns one tensor, the op {wanted}: tracing a call raises"
    return None
