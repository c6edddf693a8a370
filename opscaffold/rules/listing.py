"""What is known of each op, for listing: its kind, and how much of its kernels is in sight."""

from __future__ import annotations

import enum

from opscaffold.contract.kinds import infer_kind
from opscaffold.contract.model import Kind, OpContract
from opscaffold.effects.summary import effects_of
from opscaffold.effects.trace import Effect
from opscaffold.records import dataclass, replace
from opscaffold.rules.arguments import arguments_of
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Op, Registration, Role
from opscaffold.source.project import Project

KERNEL_ROLES = frozenset({Role.CUSTOM_OP, Role.TRITON_OP, Role.IMPL, Role.KERNEL})


class Sight(enum.Enum):
    """How much of a kernel can be followed."""

    UNDERSTOOD = "understood"
    OPAQUE = "opaque"
    UNSEEN = "not in sight"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of an op. ``registration`` is where it is given to the op."""

    registration: Registration
    sight: Sight


def kind_of(op: Op, contract: OpContract | None) -> str:
    """Return the kind of an op as far as it is declared, in a word."""
    if contract is not None:
        return contract.kind.value if contract.tags else infer_kind(contract).value
    match op.definition.mutates:
        case "unknown":
            return Kind.MUTABLE.value
        case tuple() as names if names:
            return Kind.MUTABLE.value
        case tuple():
            return Kind.FUNCTIONAL.value
    return "unknown"


def kernels_of(project: Project, op: Op) -> list[Kernel]:
    """Return the kernels of an op in the order of their registration."""
    # One function is often registered under several dispatch keys: it is read once.
    seen: dict[object, Sight] = {}
    found: list[Kernel] = []
    for registration in (op.definition, *op.attached):
        if registration.role in KERNEL_ROLES:
            function = registration.function
            if function not in seen:
                seen[function] = _sight(project, op, registration)
            found.append(Kernel(registration, seen[function]))
    return found


def _sight(project: Project, op: Op, registration: Registration) -> Sight:
    if registration.function is None:
        return Sight.UNSEEN
    alone = Op(op.qualname, replace(op.definition, function=registration.function))
    names = ProjectNames(project, registration.function_module or registration.module)
    try:
        trace = effects_of(registration.function, arguments_of(project, alone), names).trace
    except RecursionError:
        return Sight.OPAQUE
    opaque = any(event.effect is Effect.OPAQUE for event in trace.events)
    return Sight.OPAQUE if opaque else Sight.UNDERSTOOD
