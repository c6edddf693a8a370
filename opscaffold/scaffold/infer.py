"""From what was said of an op to its contract: the kind, where the answers fix it.

Follows PyTorch's decision tree (torch.library reference, 2.13) from the answers' side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from opscaffold.contract.derive import as_inferred
from opscaffold.contract.kinds import KIND_TAGS
from opscaffold.contract.model import (
    Alias,
    BaseType,
    Default,
    Kind,
    OpContract,
    OptionalType,
    Parameter,
    Return,
    SchemaType,
    alias_of,
    base_name,
)
from opscaffold.contract.pytypes import strip_alias


class RefusedError(ValueError):
    """The answers to ``keys`` do not go together, or leave open what ``keys`` would settle."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.message = message
        self.keys = keys


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of an op. None stands for what was left open."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: tuple[Return, ...] | None = None
    kind: Kind | None = None
    mutates: tuple[str, ...] | None = None


def contract_of(namespace: str, said: Said) -> OpContract:
    """The contract that the answers describe, in the schema ``infer_schema`` would print.

    Raises RefusedError where they contradict each other or leave more than one kind possible.
    Whether PyTorch takes the contract is not looked at.
    """
    said = _read_annotations(said)
    kind = said.kind or _kind(said)
    mutated = _mutated(said, kind)
    parameters = tuple(
        replace(p, type=_annotate(p.type, p.name in mutated), default=_default(p))
        for p in said.parameters
    )
    tag = KIND_TAGS.get(kind)
    contract = OpContract(
        namespace,
        said.name,
        parameters,
        _returns(said, kind, tuple(p for p in parameters if p.name in mutated)),
        tags=frozenset() if tag is None else frozenset({tag}),
    )
    return as_inferred(contract)


def _default(parameter: Parameter) -> Default | None:
    """The default as the annotation's type holds it: ``float x=1`` is 1.0."""
    default = parameter.default
    if default and type(default.value) is int and base_name(parameter.type) == "float":
        return Default(float(default.value))
    return default


def _annotate(type_: SchemaType, written: bool) -> SchemaType:
    """The type with its annotation, if any, on the element, as ``infer_schema`` writes it."""
    if isinstance(type_, BaseType):
        return replace(type_, alias=Alias(("a",), write=True) if written else None)
    return replace(type_, of=_annotate(type_.of, written), alias=None)


def _read_annotations(said: Said) -> Said:
    """Move what a schema's alias annotations say into ``kind`` and ``mutates``."""
    for p in said.parameters:
        if p.alias is not None and not p.alias.write:
            raise RefusedError(
                f"{p.name} is annotated as aliased but not written; a custom op cannot return a "
                "view of an argument: drop the annotation and return a fresh tensor",
                "schema",
            )
    written = tuple(p.name for p in said.parameters if p.mutated)
    owners = {p.alias.before: p.name for p in said.parameters if p.alias and p.alias.before}
    returned: list[str] = []
    for r in said.returns or ():
        alias = alias_of(r.type)
        if alias is None:
            continue
        owner = owners.get(alias.before)
        if owner is None:
            raise RefusedError(
                f"a return is annotated with {'|'.join(alias.before) or '!'}, which no argument "
                "carries; annotate the argument it is, or return a fresh tensor",
                "schema",
            )
        returned.append(owner)
    if not written:
        return said
    if said.mutates is not None and set(said.mutates) != set(written):
        raise RefusedError(
            f"the schema's annotations say that {_join(written)} is written, mutates says "
            f"{_join(said.mutates) or 'nothing'}; keep one of the two",
            "mutates",
            "schema",
        )
    kind = _annotated_kind(said, written, tuple(returned))
    if said.kind is not None and said.kind is not kind:
        raise RefusedError(
            f"the schema's annotations describe a {kind.value} op, kind says {said.kind.value}; "
            "keep one of the two",
            "kind",
            "schema",
        )
    return replace(said, kind=kind, mutates=written)


def _annotated_kind(said: Said, written: tuple[str, ...], returned: tuple[str, ...]) -> Kind:
    count = len(said.returns or ())
    if not returned:
        return Kind.MUTABLE
    if returned == written and count == len(written):
        if written == (said.parameters[0].name,) and not said.parameters[0].kw_only:
            return Kind.INPLACE
        if all(p.kw_only for p in said.parameters if p.name in written):
            return Kind.OUT
    what = _join(returned)
    raise RefusedError(
        f"{what} is written and returned, but an op may return a mutated argument only as in-place "
        "(the first argument, the only one written) or out= (keyword-only arguments, all of them "
        "returned in order); nearest legal form: return nothing, '-> ()', or move the buffers "
        "behind '*' and return exactly them",
        "schema",
    )


def _is_tensor(type_: SchemaType) -> bool:
    return isinstance(type_, BaseType) and type_.name == "Tensor"


def _tensor_returns(said: Said) -> int:
    return sum(_is_tensor(r.type) for r in said.returns or ())


def _return_count(said: Said) -> int:
    return len(said.returns or ())


def _keyword_only(said: Said) -> tuple[str, ...]:
    return tuple(p.name for p in said.parameters if p.kw_only and base_name(p.type) == "Tensor")


def _named_outs(said: Said) -> tuple[str, ...]:
    """The keyword-only Tensors that are buffers by their names, or by the op's."""
    keyword_only = _keyword_only(said)
    named = tuple(n for n in keyword_only if n.startswith("out") or n.endswith("_out"))
    return named or (keyword_only if said.name.endswith("_out") else ())


def _kind(said: Said) -> Kind:
    """The kind of an op without annotations. Raises RefusedError where several are possible."""
    if said.returns is None:
        raise RefusedError("what it returns is not said; give its returns or its kind", "returns")
    if said.mutates:
        return _kind_of_mutating(said, said.mutates)
    if said.mutates == ():
        return Kind.FUNCTIONAL
    _refuse_maybe_out(said)
    first = said.parameters[0] if said.parameters else None
    if said.name.endswith("_"):
        if first and _is_tensor(first.type) and len(said.returns) == _tensor_returns(said) == 1:
            return Kind.INPLACE
        if said.returns:
            raise RefusedError(
                f"{said.name} ends in '_' as in-place ops do, but an in-place op takes a Tensor "
                "first and returns it alone; drop the '_', or say the kind",
                "kind",
                "name",
            )
    keyword_only = _keyword_only(said)
    if keyword_only and _named_outs(said):
        return Kind.OUT
    if keyword_only:
        raise RefusedError(
            f"{_join(keyword_only)} is a keyword-only Tensor, which only an out= op can have; "
            "nearest legal form: move it before '*', or, if it is a buffer to write and return, "
            "say kind out",
            "params",
            "kind",
        )
    return Kind.FUNCTIONAL if said.returns else _mutable(said)


def _mutable(said: Said) -> Kind:
    tensors = [p.name for p in said.parameters if base_name(p.type) == "Tensor"]
    if len(tensors) == 1:
        return Kind.MUTABLE
    if not tensors:
        raise RefusedError(
            "it returns nothing and takes no Tensor it could write: such an op does nothing; "
            "let it return a fresh Tensor, or give it one to write",
            "returns",
        )
    raise RefusedError(
        f"it returns nothing, so it writes into its arguments, but {_join(tensors)} could each "
        "be meant; say which with mutates",
        "mutates",
    )


def _kind_of_mutating(said: Said, mutates: tuple[str, ...]) -> Kind:
    if set(mutates) <= set(_keyword_only(said)):
        return Kind.OUT
    if not said.returns:
        return Kind.MUTABLE
    first = said.parameters[0].name if said.parameters else ""
    if mutates == (first,) and _return_count(said) == _tensor_returns(said) == 1:
        if said.name.endswith("_"):
            return Kind.INPLACE
        raise RefusedError(
            f"it writes {first} and returns one Tensor: if that is {first} itself the op is "
            "in-place, if it is a fresh tensor the op is mutable; say the kind",
            "kind",
        )
    return Kind.MUTABLE


def _refuse_maybe_out(said: Said) -> None:
    for p in said.parameters:
        optional = isinstance(p.type, OptionalType) and _is_tensor(p.type.of)
        if optional and (p.name == "out" or p.name.startswith("out_")) and said.returns:
            base = said.name.rstrip("_") or said.name
            raise RefusedError(
                f"{p.name} may be given or not, so the op returns a fresh tensor or that buffer: "
                "one contract a call, which PyTorch refuses; nearest legal form: drop it and make "
                f"a family ({base}, {base}_, {base}_out), or, if it is only read, say "
                "kind functional",
                "kind",
                "family",
            )


def _mutated(said: Said, kind: Kind) -> tuple[str, ...]:
    names = {p.name: p for p in said.parameters}
    for name in said.mutates or ():
        if name not in names:
            raise RefusedError(
                f"mutates names {name!r}, but the arguments are {_join(tuple(names)) or 'none'}",
                "mutates",
            )
        if base_name(names[name].type) != "Tensor":
            raise RefusedError(f"{name} is no Tensor and cannot be written; drop it", "mutates")
    if kind is Kind.FUNCTIONAL:
        if said.mutates:
            raise RefusedError(
                f"a functional op writes none of its arguments, mutates says "
                f"{_join(said.mutates)}; drop it, or say kind mutable",
                "mutates",
                "kind",
            )
        return ()
    if kind is Kind.INPLACE:
        return _mutated_inplace(said)
    if kind is Kind.OUT:
        return _mutated_out(said)
    if said.mutates:
        return tuple(n for n in names if n in said.mutates)
    if said.returns:
        tensors = [p.name for p in said.parameters if base_name(p.type) == "Tensor"]
        if len(tensors) != 1:
            raise RefusedError(
                f"a mutable op writes some of its arguments, and {_join(tensors) or 'none'} could "
                "be meant; say which with mutates",
                "mutates",
            )
        return (tensors[0],)
    _mutable(said)
    return tuple(p.name for p in said.parameters if base_name(p.type) == "Tensor")


def _mutated_inplace(said: Said) -> tuple[str, ...]:
    first = said.parameters[0] if said.parameters else None
    if first is None or not _is_tensor(first.type) or first.kw_only:
        got = f"{first.name} is none" if first else "it takes none"
        raise RefusedError(
            f"the first argument of an in-place op is the Tensor it writes, and {got}; "
            "put the Tensor first, or say kind mutable and return nothing",
            "params",
            "kind",
        )
    if said.mutates is not None and said.mutates != (first.name,):
        raise RefusedError(
            f"an in-place op writes its first argument and no other: mutates is {first.name}; "
            "one that writes others is mutable",
            "mutates",
            "kind",
        )
    return (first.name,)


def _mutated_out(said: Said) -> tuple[str, ...]:
    keyword_only = _keyword_only(said)
    plain = {p.name for p in said.parameters if p.kw_only and _is_tensor(p.type)}
    outs = said.mutates or _chosen_outs(said)
    if not outs:
        raise RefusedError(
            "an out= op writes plain keyword-only Tensors, and there is none; nearest legal form: "
            "'Tensor out' behind '*'",
            "out",
            "params",
        )
    stray = [n for n in outs if n not in plain]
    if stray:
        raise RefusedError(
            f"the buffers of an out= op are keyword-only and plain Tensors, and {_join(stray)} is "
            "not; nearest legal form: Tensor behind '*', or kind mutable, positional, returning "
            "nothing",
            "params",
            "mutates",
        )
    return tuple(n for n in keyword_only if n in outs)


def _chosen_outs(said: Said) -> tuple[str, ...]:
    keyword_only, named = _keyword_only(said), _named_outs(said)
    count = len(keyword_only) if said.returns is None else len(said.returns)
    if len(keyword_only) == count and named in ((), keyword_only):
        return keyword_only
    if named and (said.returns is None or len(named) == count):
        return named
    if len(keyword_only) == count:
        return keyword_only
    raise RefusedError(
        f"an out= op returns its buffers and nothing else, but it returns {count} values and "
        f"{_join(keyword_only) or 'no argument'} could be meant; say which with mutates and return "
        "exactly those, in order",
        "mutates",
        "returns",
    )


def _returns(said: Said, kind: Kind, mutated: tuple[Parameter, ...]) -> tuple[Return, ...]:
    given = said.returns and tuple(Return(strip_alias(r.type)) for r in said.returns)
    if kind is Kind.FUNCTIONAL:
        if not given:
            raise RefusedError(
                "a functional op returns something fresh, such as Tensor; one that returns "
                "nothing is mutable",
                "returns",
                "kind",
            )
        return given
    if kind is Kind.MUTABLE:
        return given or ()
    own = tuple(Return(p.type) for p in mutated)
    if given is not None and [strip_alias(r.type) for r in own] != [r.type for r in given]:
        what = "its first argument" if kind is Kind.INPLACE else "its out arguments, in order"
        form = "Tensor" if len(own) == 1 else f"({', '.join(['Tensor'] * len(own))})"
        raise RefusedError(
            f"an op of kind {kind.value} returns {what} and nothing else; nearest legal form: "
            f"-> {form}",
            "returns",
            "kind",
        )
    return own


def _join(names: tuple[str, ...] | list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
