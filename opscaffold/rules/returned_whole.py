"""Ops of which everything that is returned is arguments: those very objects, on every path."""

from __future__ import annotations

import ast

from opscaffold.contract.model import BaseType
from opscaffold.contract.pytypes import strip_alias
from opscaffold.effects.trace import Returned
from opscaffold.effects.values import Value
from opscaffold.records import dataclass
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.kernels import Kernel, all_in_sight, kernels_of
from opscaffold.source.model import Module

_TENSOR = BaseType("Tensor")


@dataclass(frozen=True, slots=True)
class Whole:
    """The arguments that an op returns, by its own names: one, or a tuple where ``many``."""

    names: tuple[str, ...]
    many: bool


class NotWholeError(Exception):
    """Raised where an op returns anything else, or where that cannot be told.

    ``node`` is the place, in ``module``.
    """

    def __init__(self, node: ast.AST, module: Module, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.module = module
        self.reason = reason


def returned_whole(facts: OpFacts) -> Whole:
    """What every kernel of an op returns. Raises NotWholeError."""
    definition = facts.op.definition
    if not all_in_sight(facts):
        raise NotWholeError(
            definition.statement, definition.module, "not all of its kernels are in sight"
        )
    found: Whole | None = None
    for kernel in kernels_of(facts):
        for returned in kernel.effects.trace.returns:
            whole = _whole(kernel, returned)
            if found is not None and whole != found:
                raise NotWholeError(
                    returned.node or kernel.function,
                    kernel.module,
                    "it does not return the same arguments everywhere",
                )
            found = whole
    if found is None:
        raise NotWholeError(definition.statement, definition.module, "it never returns")
    contract = signature_of(facts.project, facts.op)
    types = {} if contract is None else {p.name: p.type for p in contract.parameters}
    if any(name not in types or strip_alias(types[name]) != _TENSOR for name in found.names):
        raise NotWholeError(
            definition.statement,
            definition.module,
            "not every argument that it returns is declared as a plain Tensor",
        )
    return found


def _whole(kernel: Kernel, returned: Returned) -> Whole:
    value = returned.value
    node = returned.node or kernel.function
    if returned.node is None and not isinstance(kernel.function, ast.Lambda):
        raise NotWholeError(node, kernel.module, "on one path it returns nothing")
    if value.container:
        raise NotWholeError(node, kernel.module, "it returns a list")
    if value.items is None:
        return Whole((_argument(kernel, value, node),), many=False)
    return Whole(tuple(_argument(kernel, item, node) for item in value.items), many=True)


def _argument(kernel: Kernel, value: Value, node: ast.AST) -> str:
    """The argument that a value is, and nothing else."""
    refs = sorted(value.all_refs(), key=repr)
    plain = value.items is None and not value.container and value.null is not True
    if plain and len(refs) == 1:
        ref = refs[0]
        name = ref.root.removeprefix("param:")
        odd = ref.perhaps or ref.hidden or ref.guess or ref.array or ref.several
        if name != ref.root and ref.exact and not odd:
            return kernel.declared.get(name, name)
    raise NotWholeError(
        node,
        kernel.module,
        "on this path it returns, for an argument, something that may be another tensor",
    )
