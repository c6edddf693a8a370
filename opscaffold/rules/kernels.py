"""The kernels of an op that are in sight, each with what it does to the op's arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from opscaffold.effects.buffers import Argument
from opscaffold.effects.summary import Effects, effects_of
from opscaffold.records import dataclass
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.devices import devices_of
from opscaffold.rules.fakes import dispatch_key, fake_arguments
from opscaffold.rules.functions import AnyFunction, is_generator
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module, Registration, Role

KERNEL_ROLES = frozenset({Role.CUSTOM_OP, Role.TRITON_OP, Role.IMPL, Role.KERNEL})
# PyTorch holds the kernels of these to its alias rule at every call.
CHECKED_ROLES = frozenset({Role.CUSTOM_OP, Role.TRITON_OP})
# Keys whose functions are no kernels: they pass the call on, or stand in for a kernel.
_OTHER_KEYS = ("Autograd", "Autocast", "Meta", "Functionalize", "ADInplaceOrView", "Python")
# A kernel under this key is traced through: what it does is what compiled code sees.
_DECOMPOSED = frozenset({"CompositeImplicitAutograd", ""})

_KEY_ARGUMENTS = frozenset({"dispatch_key", "types", "key"})


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. ``declared`` gives the op's own names of its parameters."""

    module: Module
    function: AnyFunction
    arguments: tuple[Argument, ...]
    declared: dict[str, str]
    effects: Effects

    def own_name(self, declared: str) -> str | None:
        """What the kernel calls an argument of the op."""
        return next((own for own, name in self.declared.items() if name == declared), None)


_found: WeakKeyDictionary[OpFacts, tuple[Kernel, ...]] = WeakKeyDictionary()


def kernels_of(facts: OpFacts) -> list[Kernel]:
    """The kernels that are plain functions in sight and really stand for the op.

    Most rules ask, so what is found is kept for as long as the facts are.
    """
    kept = _found.get(facts)
    if kept is None:
        kept = _found[facts] = tuple(_kernels(facts))
    return list(kept)


def _kernels(facts: OpFacts) -> list[Kernel]:
    seen: set[AnyFunction] = set()
    found: list[Kernel] = []
    for registration in _registrations(facts):
        function = registration.function
        if function is None or function in seen or is_generator(function):
            continue
        seen.add(function)
        found.append(_kernel(facts, registration, function))
    return found


def all_in_sight(facts: OpFacts) -> bool:
    """Whether every kernel that the project registers for the op is in sight, and does a thing."""
    every = list(_registrations(facts))
    if not every or any(r.function is None or _is_stub(r.function) for r in every):
        return False
    return all(kernel.effects.trace.returns for kernel in kernels_of(facts))


def is_checked(facts: OpFacts) -> bool:
    """Whether a call that returns memory of an argument raises."""
    return facts.op.definition.role in CHECKED_ROLES


def _registrations(facts: OpFacts) -> Iterator[Registration]:
    definition = facts.op.definition
    if definition.role in KERNEL_ROLES or definition.function is not None:
        yield definition
    for registration in facts.op.attached:
        if registration.role not in KERNEL_ROLES:
            continue
        if registration.role is Role.IMPL and not _KEY_ARGUMENTS & registration.arguments.keys():
            # An implementation for no key in particular is traced through as well.
            continue
        key = dispatch_key(registration)
        if key is None or not (key in _DECOMPOSED or key.startswith(_OTHER_KEYS)):
            yield registration


def _kernel(facts: OpFacts, registration: Registration, function: AnyFunction) -> Kernel:
    module = registration.function_module or registration.module
    definition = facts.op.definition
    if function is facts.kernel and facts.effects is not None and definition.schema is None:
        same = {a.name: a.name for a in facts.arguments}
        return Kernel(module, function, tuple(facts.arguments), same, facts.effects)
    arguments = fake_arguments(facts.project, facts.op, function)
    seen = ProjectNames(facts.project, module)
    effects = effects_of(function, arguments, seen, devices_of(facts.op, function))
    contract = signature_of(facts.project, facts.op)
    positional = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    declared = {a.name: a.name for a in arguments}
    if contract is not None:
        names = [p.name for p in contract.parameters if not p.kw_only]
        declared |= dict(zip(positional, names, strict=False))
    return Kernel(module, function, tuple(arguments), declared, effects)


def _is_stub(function: AnyFunction) -> bool:
    """Whether a body says nothing: its work is done elsewhere."""
    if isinstance(function, ast.Lambda):
        return False
    return all(
        isinstance(s, ast.Pass | ast.Raise)
        or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in function.body
    )
