"""Flags that make an op's contract depend on the call, and what keeps such an op from a split."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

from opscaffold.contract.model import BaseType
from opscaffold.effects.buffers import Argument
from opscaffold.effects.flags import FlagUse, use_of_flag
from opscaffold.effects.trace import Effect, FunctionNode
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import default_of, signature_of
from opscaffold.rules.declared import maybe_outs, mutated_by, tags
from opscaffold.rules.devices import devices_of
from opscaffold.rules.kernels import Kernel, kernels_of
from opscaffold.rules.names import ProjectNames
from opscaffold.rules.outputs import Obstacle


@lru_cache(maxsize=8)
def flag_of(facts: OpFacts) -> FlagUse | None:
    """The flag that decides whether an untagged op works in place; None where none does.

    Names are those of the kernel. Maybe-outs are left out: they are split by their buffer first.
    """
    if facts.kernel is None or tags(facts) != frozenset() or maybe_outs(facts):
        return None
    declared = mutated_by(facts) or frozenset()
    for name in _bools(facts, facts.kernel, facts.arguments):
        use = use_of_flag(
            facts.kernel,
            facts.arguments,
            name,
            facts.names,
            declared=declared,
            devices=devices_of(facts.op, facts.kernel),
        )
        if use is not None:
            return use
    return None


def flagged(facts: OpFacts) -> frozenset[str]:
    """The argument, by the op's name, that an op with such a flag writes to and returns."""
    use = flag_of(facts)
    if use is None:
        return frozenset()
    return frozenset({own_names(facts).get(use.argument, use.argument)})


def own_names(facts: OpFacts) -> Mapping[str, str]:
    """The op's names of the arguments of its main kernel."""
    found = next((k for k in kernels_of(facts) if k.function is facts.kernel), None)
    return {} if found is None else found.declared


def use_in(facts: OpFacts, kernel: Kernel, flag: str, *, stand_in: bool = False) -> FlagUse | None:
    """How another kernel treats the flag that the op calls ``flag``."""
    own = kernel.own_name(flag)
    if own is None:
        return None
    names = ProjectNames(facts.project, kernel.module)
    declared = mutated_by(facts) or frozenset()
    known = frozenset(own for own, name in kernel.declared.items() if name in declared)
    devices = devices_of(facts.op, kernel.function)
    return use_of_flag(
        kernel.function, kernel.arguments, own, names,
        declared=known, devices=devices, stand_in=stand_in,
    )  # fmt: skip


def obstacle_to_flag_split(
    function: FunctionNode | ast.Lambda, use: FlagUse, declared: frozenset[str]
) -> Obstacle | None:
    """What keeps a kernel from being split by its flag, or None where both halves are sound.

    ``declared`` are the kernel's arguments that the op says it mutates.
    """
    flag, name = use.flag.name, use.argument
    if use.rebound is not None:
        return Obstacle(
            use.rebound,
            f"`{flag}` is bound again, so what it decides is not known",
            f"keep `{flag}` as it is passed, and use another name",
        )
    for event in use.other_mutations():
        mutated = event.root.removeprefix("param:")
        if mutated not in declared:
            return Obstacle(
                event.node,
                f"it also mutates `{mutated}`, and does not say so",
                f"declare that it mutates `{mutated}`",
            )
    handed = [
        e for e in use.functional.on(f"param:{name}") if e.effect is Effect.OPAQUE and not e.covered
    ]
    if name in declared and handed:
        return Obstacle(
            handed[0].node,
            f"where `{name}` is to be left alone, it goes to code out of sight, which may write to "
            f"it: the op says that it mutates `{name}`",
            f"take `{name}` out of what the op declares to mutate, if that code only reads it "
            f"there, or pass a copy",
        )
    if not use.fresh:
        stale = next(
            (
                r.node
                for r in use.functional.returns
                if r.node is not None
                and any(not ref.root.startswith("fresh:") for ref in r.value.all_refs())
            ),
            None,
        )
        return Obstacle(
            stale or function,
            f"where `{name}` is left alone, it returns memory that it did not allocate in sight",
            "return a fresh tensor there",
        )
    return None


def _bools(
    facts: OpFacts, function: FunctionNode | ast.Lambda, arguments: list[Argument]
) -> list[str]:
    """The kernel's parameters that are declared as bool."""
    contract = signature_of(facts.project, facts.op)
    spec = function.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    if contract is not None:
        declared = [p for p in contract.parameters if not p.kw_only]
        pairs = list(zip(positional, declared, strict=False))
        pairs += [(p.name, p) for p in contract.parameters if p.kw_only]
        known = {name for name, p in pairs if p.type == BaseType("bool")}
        return [a.name for a in arguments if a.name in known]
    plain = [a.name for a in arguments if not a.tensor]
    return [name for name in plain if _has_bool_default(function, name)]


def _has_bool_default(function: FunctionNode | ast.Lambda, name: str) -> bool:
    default = default_of(function, name)
    return isinstance(default, ast.Constant) and isinstance(default.value, bool)
