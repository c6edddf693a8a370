"""One contract from another: the out=, in-place and mutable forms of a functional op, and back."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from opscaffold.contract.model import (
    Alias,
    BaseType,
    Kind,
    ListType,
    OpContract,
    OptionalType,
    Parameter,
    Return,
    SchemaType,
    Tag,
)
from opscaffold.contract.naming import OutNaming, out_qualname, validate_parameter_name
from opscaffold.contract.printer import format_type
from opscaffold.contract.pytypes import strip_alias

_TENSOR = BaseType("Tensor")


class DerivationError(ValueError):
    """A contract has no form of the kind asked for; the text says why."""


def out_of(
    contract: OpContract,
    out_names: Sequence[str] | None = None,
    *,
    style: OutNaming = OutNaming.FLAT,
) -> OpContract:
    """The out= form of a functional op: its buffers are the last keyword-only arguments.

    They are named ``out``, or ``out0``, ``out1``... where there are several. Raises
    DerivationError where the op is not functional, returns anything but plain Tensors, or a name
    is taken.
    """
    _require_functional(contract, "an out= form")
    buffers = _buffers(contract, out_names, kw_only=True)
    name, overload = out_qualname(contract, style)
    parameters = (*contract.parameters, *buffers)
    return _numbered(
        replace(
            contract,
            name=name,
            overload=overload,
            parameters=parameters,
            returns=tuple(Return(b.type) for b in buffers),
            tags=frozenset({Tag.OUT}),
        )
    )


def inplace_of(contract: OpContract) -> OpContract:
    """The in-place form ``name_`` of a functional op: writes to its first argument, returns it.

    Raises DerivationError where the op is not functional, its first argument is not a plain
    positional Tensor, or it returns anything but one plain Tensor.
    """
    _require_functional(contract, "an in-place form")
    first = contract.parameters[0] if contract.parameters else None
    if first is None or first.kw_only or strip_alias(first.type) != _TENSOR:
        raise DerivationError(
            f"{contract.qualname} has no in-place form: its first argument must be a plain "
            "positional Tensor"
        )
    if [strip_alias(r.type) for r in contract.returns] != [_TENSOR]:
        raise DerivationError(
            f"{contract.qualname} has no in-place form: it must return exactly one Tensor"
        )
    written = replace(first, type=_written("a0"), default=None)
    return _numbered(
        replace(
            contract,
            name=f"{contract.name}_",
            parameters=(written, *contract.parameters[1:]),
            returns=(Return(written.type),),
            tags=frozenset({Tag.INPLACE}),
        )
    )


def mutable_of(
    contract: OpContract, out_names: Sequence[str] | None = None, *, name: str | None = None
) -> OpContract:
    """The untagged form ``name_out`` of a functional op: fills positional buffers, returns nothing.

    The buffers stand behind the last argument that must be passed by position, because Python
    allows none without a default behind one with. Raises DerivationError like ``out_of``.
    """
    _require_functional(contract, "a mutable form")
    buffers = _buffers(contract, out_names, kw_only=False)
    given = contract.parameters
    at = next((i for i, p in enumerate(given) if p.kw_only or p.default is not None), len(given))
    return _numbered(
        replace(
            contract,
            name=name or f"{contract.name}_out",
            parameters=(*given[:at], *buffers, *given[at:]),
            returns=(),
            tags=frozenset(),
        )
    )


def with_buffer_at(contract: OpContract, name: str, index: int) -> OpContract:
    """The form of an op that fills a buffer instead of returning: it stands at ``index``.

    What the op mutates beside it stays mutated. Raises DerivationError where the name is taken.
    """
    return with_buffers_at(contract, [name], index)


def with_buffers_at(contract: OpContract, names: Sequence[str], index: int) -> OpContract:
    """The same with a buffer for each return, one behind the other."""
    buffers = _buffers(contract, names, kw_only=False)
    given = contract.parameters
    parameters = (*given[:index], *buffers, *given[index:])
    return _numbered(replace(contract, parameters=parameters, returns=(), tags=frozenset()))


def functional_of(
    contract: OpContract, *, name: str | None = None, write_only: Collection[str] = ()
) -> OpContract:
    """The functional form of any contract: what was written is returned fresh instead.

    An out= op loses its buffers. Any other mutated argument becomes a plain input, or is dropped
    where ``write_only`` names it, and its new value is returned before the op's own returns.
    Raises DerivationError where a mutated argument is Optional or a list.
    """
    if contract.kind is Kind.FUNCTIONAL:
        return contract if name is None else replace(contract, name=name)
    written = [p for p in contract.parameters if p.mutated]
    for parameter in written:
        if strip_alias(parameter.type) != _TENSOR:
            raise DerivationError(
                f"{contract.qualname} has no functional form: how many tensors "
                f"{format_type(parameter.type)} {parameter.name} holds differs by call"
            )
    unknown = set(write_only) - {p.name for p in written}
    if unknown:
        raise DerivationError(
            f"{contract.qualname} does not mutate {', '.join(sorted(map(repr, unknown)))}"
        )
    dropped = {p.name for p in written} if contract.kind is Kind.OUT else set(write_only)
    kept = tuple(
        replace(p, type=strip_alias(p.type)) for p in contract.parameters if p.name not in dropped
    )
    own = [r for r in contract.returns if not _aliases(r.type)]
    return replace(
        contract,
        name=name or _functional_name(contract),
        overload="" if contract.overload == "out" else contract.overload,
        parameters=kept,
        returns=(*(Return(_TENSOR) for _ in written), *own),
        tags=frozenset(),
    )


def as_inferred(contract: OpContract) -> OpContract:
    """The contract as ``infer_schema`` would write it for the op's Python function.

    Whole numbers are SymInt, lists have no size, returns have no name, and alias sets are
    numbered by argument (``a0``, ``a2``).
    """
    parameters = tuple(replace(p, type=_inferred(p.type)) for p in contract.parameters)
    returns = tuple(Return(_inferred(r.type)) for r in contract.returns)
    return _numbered(replace(contract, parameters=parameters, returns=returns))


def _require_functional(contract: OpContract, what: str) -> None:
    if contract.kind is not Kind.FUNCTIONAL:
        raise DerivationError(
            f"{contract.qualname} is {contract.kind.value}: only a functional op has {what}"
        )
    aliased = [p.name for p in contract.parameters if p.alias is not None]
    if aliased or any(_aliases(r.type) for r in contract.returns):
        raise DerivationError(
            f"{contract.qualname} has no other form: its schema says that a return shares memory "
            "with an argument"
        )
    if contract.name.endswith("_"):
        raise DerivationError(
            f"{contract.qualname} ends in '_', which says in-place; rename the functional op first"
        )


def _buffers(
    contract: OpContract, out_names: Sequence[str] | None, *, kw_only: bool
) -> tuple[Parameter, ...]:
    for returned in contract.returns:
        if strip_alias(returned.type) != _TENSOR:
            raise DerivationError(
                f"{contract.qualname} returns {format_type(returned.type)}, and only a plain "
                "Tensor can be handed in as a buffer"
            )
    count = len(contract.returns)
    if count == 0:
        raise DerivationError(f"{contract.qualname} returns nothing that a buffer could hold")
    names = tuple(out_names) if out_names is not None else default_out_names(count)
    if len(names) != count:
        raise DerivationError(
            f"{contract.qualname} has {count} returns, but {len(names)} buffers are named"
        )
    taken = {p.name for p in contract.parameters}
    for name in names:
        reason = validate_parameter_name(name)
        if reason is None and name in taken:
            reason = f"an argument named {name!r} is there already; choose another buffer name"
        if reason is not None:
            raise DerivationError(f"{contract.qualname}: {reason}")
        taken.add(name)
    return tuple(Parameter(name, _written("a"), kw_only=kw_only) for name in names)


def default_out_names(count: int) -> tuple[str, ...]:
    """``("out",)``, or ``("out0", "out1", ...)``."""
    return ("out",) if count == 1 else tuple(f"out{i}" for i in range(count))


def _functional_name(contract: OpContract) -> str:
    if contract.kind is Kind.INPLACE:
        name = contract.name.rstrip("_") or contract.name
    else:
        name = re.sub(r"(?<=[^_])_out\Z", "", contract.name)
    if name == contract.name and contract.overload != "out":
        return f"{contract.name}_functional"
    return name


def _written(name: str) -> BaseType:
    return BaseType("Tensor", Alias((name,), write=True))


def _aliases(type_: SchemaType) -> bool:
    if type_.alias is not None:
        return True
    return not isinstance(type_, BaseType) and _aliases(type_.of)


def _inferred(type_: SchemaType) -> SchemaType:
    if isinstance(type_, OptionalType):
        return OptionalType(_inferred(type_.of), type_.alias)
    if isinstance(type_, ListType):
        return ListType(_inferred(type_.of), None, type_.alias)
    return replace(type_, name="SymInt") if type_.name == "int" else type_


def _numbered(contract: OpContract) -> OpContract:
    """Alias sets named as infer_schema does: ``a`` and the argument's index.

    The returns of a tagged op are its mutated arguments in order, and take their sets.
    """
    renamed: dict[str, str] = {}
    parameters: list[Parameter] = []
    for index, parameter in enumerate(contract.parameters):
        alias = parameter.alias
        if alias is not None and len(alias.before) <= 1 and not alias.after:
            renamed.update(dict.fromkeys(alias.before, f"a{index}"))
            parameter = replace(parameter, type=_renamed(parameter.type, f"a{index}"))
        parameters.append(parameter)
    written = [p for p in parameters if p.mutated]
    if contract.tags and len(written) == len(contract.returns):
        returns = tuple(
            replace(r, type=p.type) for r, p in zip(contract.returns, written, strict=True)
        )
    else:
        returns = tuple(replace(r, type=_mapped(r.type, renamed)) for r in contract.returns)
    return replace(contract, parameters=tuple(parameters), returns=returns)


def _renamed(type_: SchemaType, name: str) -> SchemaType:
    if type_.alias is not None:
        return replace(type_, alias=replace(type_.alias, before=(name,)))
    return type_ if isinstance(type_, BaseType) else replace(type_, of=_renamed(type_.of, name))


def _mapped(type_: SchemaType, names: dict[str, str]) -> SchemaType:
    if type_.alias is not None:
        before = tuple(names.get(n, n) for n in type_.alias.before)
        return replace(type_, alias=replace(type_.alias, before=before))
    return type_ if isinstance(type_, BaseType) else replace(type_, of=_mapped(type_.of, names))
