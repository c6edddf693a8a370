"""The ops that one OpSpec registers: one, or the three of a family, as torch_min allows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from opscaffold.contract.derive import (
    as_inferred,
    functional_of,
    inplace_of,
    mutable_of,
    out_of,
)
from opscaffold.contract.model import (
    BaseType,
    Default,
    Kind,
    OpContract,
    OptionalType,
    Parameter,
)
from opscaffold.contract.printer import format_schema
from opscaffold.contract.releases import Version, supports_tags
from opscaffold.scaffold.arguments import Argument, arguments_of
from opscaffold.scaffold.spec import OpSpec


@dataclass(frozen=True, slots=True)
class Form:
    """One op. ``contract`` is what callers see; ``registered`` is what PyTorch is told.

    The two differ where there are no tags: an in-place or out= op is then registered as a mutable
    one that returns nothing, with its buffers in the middle.
    """

    kind: Kind
    contract: OpContract
    registered: OpContract

    @property
    def name(self) -> str:
        """The public function's name."""
        return self.contract.name

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of the public function."""
        return arguments_of(self.contract)

    @property
    def written(self) -> tuple[Argument, ...]:
        """The arguments that the op writes."""
        return tuple(a for a in self.arguments if a.parameter.mutated)

    @property
    def reads(self) -> tuple[Argument, ...]:
        """The arguments whose contents count: all but the buffers of an out= op."""
        out = self.kind is Kind.OUT
        return tuple(a for a in self.arguments if not (out and a.parameter.mutated))

    @property
    def schema(self) -> str:
        """The schema as PyTorch infers it."""
        return format_schema(as_inferred(self.registered))

    @property
    def tag(self) -> str:
        """The tag it is registered with, as an expression, or nothing."""
        names = {Kind.INPLACE: "torch.Tag.inplace", Kind.OUT: "torch.Tag.out"}
        return names.get(self.kind, "") if self.registered.tags else ""

    @property
    def overload(self) -> str:
        """The registered op as an attribute of ``torch.ops``."""
        c = self.registered
        return f"torch.ops.{c.namespace}.{c.name}.{c.overload or 'default'}"


def forms_of(op: OpSpec, torch_min: Version, *, tagged: bool = True) -> tuple[Form, ...]:
    """Every op of the spec: the functional one of a family first, then in-place and out=.

    ``tagged`` is whether in-place and out= ops have their tags where torch has them.
    Raises DerivationError where a contract has no form of that kind.
    """
    contract = replace(op.contract, parameters=tuple(map(_typed_default, op.contract.parameters)))
    contracts = [contract]
    if op.family:
        contracts += [inplace_of(contract), out_of(contract)]
    tagged = tagged and supports_tags(torch_min)
    return tuple(Form(c.kind, c, c if tagged else _untagged(c)) for c in contracts)


_PYTHON: Mapping[str, type[bool | float]] = {"bool": bool, "float": float}


def _typed_default(parameter: Parameter) -> Parameter:
    """A default of the type annotated: a schema may say ``bool b=1``, but mypy takes none such."""
    type_, default = parameter.type, parameter.default
    if isinstance(type_, OptionalType):
        type_ = type_.of
    name = type_.name if isinstance(type_, BaseType) else ""
    if default is None or not isinstance(default.value, bool | int) or name not in _PYTHON:
        return parameter
    return replace(parameter, default=Default(_PYTHON[name](default.value)))


def _untagged(contract: OpContract) -> OpContract:
    if contract.kind is Kind.INPLACE:
        return as_inferred(replace(contract, returns=(), tags=frozenset()))
    if contract.kind is not Kind.OUT:
        return contract
    buffers = [p.name for p in contract.parameters if p.mutated]
    # Without the tag no Tensor can be keyword-only, read or written.
    given = positional_tensors([p for p in contract.parameters if not p.mutated])
    functional = functional_of(contract, name=contract.name.rstrip("_") or contract.name)
    functional = replace(functional, parameters=given)
    return mutable_of(functional, buffers, name=contract.name)


def positional_tensors(parameters: list[Parameter]) -> tuple[Parameter, ...]:
    """Parameters without keyword-only Tensors, which an op without Tag.out cannot have."""
    moved = [
        replace(p, kw_only=False)
        for p in parameters
        if p.kw_only and p.is_tensor_like and p.default is None
    ]
    kept = [p for p in parameters if p.name not in {m.name for m in moved}]
    at = next((i for i, p in enumerate(kept) if p.kw_only or p.default is not None), len(kept))
    ordered = [*kept[:at], *moved, *kept[at:]]
    late = [replace(p, kw_only=False) for p in ordered if p.kw_only and p.is_tensor_like]
    plain = [p for p in ordered if not p.kw_only]
    rest = [p for p in ordered if p.kw_only and not p.is_tensor_like]
    return (*plain, *late, *rest)
