"""What is known of each op, for listing: its declared contract, and its kernels."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, replace

from opscaffold.contract.grammar import SchemaError, parse_schema
from opscaffold.contract.kinds import infer_kind
from opscaffold.contract.model import Kind, OpContract, Tag
from opscaffold.contract.signature import contract_from_signature
from opscaffold.effects.summary import effects_of
from opscaffold.effects.trace import Effect
from opscaffold.rules.arguments import arguments_of
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module, Op, Registration, Role
from opscaffold.source.project import Project

KERNEL_ROLES = frozenset({Role.CUSTOM_OP, Role.TRITON_OP, Role.IMPL, Role.KERNEL})
_TAG = "torch.Tag."


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


def contract_of(project: Project, op: Op) -> OpContract | None:
    """Return the contract that an op declares; None where it cannot be told, or is refused.

    By its schema where it has a literal one, else by its function's signature and
    ``mutates_args``.
    """
    definition = op.definition
    tags = _tags(project, definition)
    if tags is None:
        return None
    if definition.schema is not None:
        try:
            contract = parse_schema(definition.schema)
        except SchemaError:
            return None
        return replace(contract, namespace=op.namespace, name=op.name.partition(".")[0], tags=tags)
    function = definition.function
    mutates = definition.mutates
    if mutates is None and "mutates_args" not in definition.arguments:
        mutates = ()
    if definition.qualname is None or mutates is None:
        return None
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    module = definition.function_module or definition.module
    try:
        return contract_from_signature(
            function,
            qualname=definition.qualname,
            mutates_args=mutates,
            tags=tags,
            resolver=lambda expr: project.resolve_dotted(module, expr),
            postponed=_postponed(module),
        )
    except ValueError:
        # SignatureError, and a name that is none.
        return None


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
    return [
        Kernel(registration, _sight(project, op, registration))
        for registration in (op.definition, *op.attached)
        if registration.role in KERNEL_ROLES
    ]


def _sight(project: Project, op: Op, registration: Registration) -> Sight:
    if registration.function is None:
        return Sight.UNSEEN
    alone = Op(op.qualname, replace(op.definition, function=registration.function))
    names = ProjectNames(project, registration.function_module or registration.module)
    trace = effects_of(registration.function, arguments_of(alone), names).trace
    opaque = any(event.effect is Effect.OPAQUE for event in trace.events)
    return Sight.OPAQUE if opaque else Sight.UNDERSTOOD


def _tags(project: Project, definition: Registration) -> frozenset[Tag] | None:
    written = definition.arguments.get("tags")
    if written is None or (isinstance(written, ast.Constant) and written.value is None):
        return frozenset()
    several = written.elts if isinstance(written, ast.Tuple | ast.List | ast.Set) else [written]
    found: set[Tag] = set()
    for node in several:
        dotted = project.resolve_dotted(definition.module, node)
        if dotted is None or not dotted.startswith(_TAG):
            return None
        found |= {tag for tag in Tag if dotted == f"{_TAG}{tag.value}"}
    return frozenset(found)


def _postponed(module: Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in module.tree.body
    )
