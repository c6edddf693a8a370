"""Where Inductor miscompiles a functional op because an ``.out`` overload stands beside it.

Inductor replaces ``ns::f`` by ``ns::f.out`` and passes tensors first, then the rest (FACTS
section 1, BUG A, and section 10). The result is an error at run time or, in silence, a wrong
number. An op named ``ns::f_out`` is never put in its place.
"""

from __future__ import annotations

from opscaffold.contract.model import (
    BaseType,
    Kind,
    ListType,
    OpContract,
    OptionalType,
    Parameter,
    Tag,
)
from opscaffold.contract.printer import format_type
from opscaffold.contract.releases import Release
from opscaffold.records import dataclass


@dataclass(frozen=True, slots=True)
class Hazard:
    """One way in which the pair breaks under torch.compile.

    ``code`` is stable. ``parameter`` names the argument at fault, or is empty. ``unavoidable``
    says that no signature excludes it: a warning rather than a refusal.
    """

    code: str
    reason: str
    parameter: str = ""
    unavoidable: bool = False


def is_linked(functional: OpContract, out: OpContract) -> bool:
    """Whether PyTorch takes ``out`` for the out variant of ``functional``.

    Same namespace and name, tagged out, the other arguments equal in name, type and default, and
    a buffer for each return. Flat names are never linked by themselves.
    """
    others = tuple(p for p in out.parameters if not p.mutated)
    buffers = [p for p in out.parameters if p.mutated]
    return (
        (functional.namespace, functional.name) == (out.namespace, out.name)
        and functional.kind is Kind.FUNCTIONAL
        and not functional.name.endswith("_")
        and Tag.OUT in out.tags
        and len(buffers) == len(functional.returns)
        and [_identity(p) for p in functional.parameters] == [_identity(p) for p in others]
    )


def overload_hazards(functional: OpContract, out: OpContract, release: Release) -> list[Hazard]:
    """Every measured way in which ``ns::f`` breaks once ``ns::f.out`` is registered beside it.

    Empty where the release does not replace one by the other, or the two are not linked.
    """
    if not release.out_lowering or not is_linked(functional, out):
        return []
    found = [h for p in functional.parameters for h in _parameter(p)]
    found += _order(functional)
    buffers = [p for p in out.parameters if p.mutated]
    if len(buffers) > 1:
        found.append(
            Hazard("several-outputs", "a call that uses only some of the outputs does not compile")
        )
    elif buffers and buffers[0].name != "out":
        found.append(
            Hazard(
                "out-name",
                f"Inductor passes the buffer as 'out', but it is named {buffers[0].name!r}",
                buffers[0].name,
            )
        )
    known = "does not compile" if release.out_lowering_breaks_dynamic else "was not measured"
    found.append(
        Hazard("dynamic-shapes", f"with dynamic shapes the pair {known}", unavoidable=True)
    )
    return found


def _identity(parameter: Parameter) -> tuple[str, str, str]:
    # repr: a default of True is not one of 1, although Python calls them equal.
    name = format_type(parameter.type).replace("SymInt", "int")
    return parameter.name, name, repr(parameter.default)


def _parameter(parameter: Parameter) -> list[Hazard]:
    name = parameter.name
    found: list[Hazard] = []
    if parameter.default is not None:
        found.append(
            Hazard(
                "default",
                f"the pair breaks when {name!r} is left at its default or passed equal to it",
                name,
            )
        )
    if isinstance(parameter.type, OptionalType):
        found.append(
            Hazard("optional", f"a None for {name!r} is dropped and the rest move up", name)
        )
    if isinstance(parameter.type, ListType | OptionalType) and _has_list(parameter):
        found.append(Hazard("list", f"the list {name!r} is passed in the wrong place", name))
    if parameter.kw_only and not parameter.is_tensor_like:
        found.append(
            Hazard("keyword-only", f"the keyword-only {name!r} is passed by position", name)
        )
    return found


def _has_list(parameter: Parameter) -> bool:
    type_ = parameter.type
    while not isinstance(type_, BaseType):
        if isinstance(type_, ListType):
            return True
        type_ = type_.of
    return False


def _order(functional: OpContract) -> list[Hazard]:
    positional = [p for p in functional.parameters if not p.kw_only]
    last = max((i for i, p in enumerate(positional) if p.is_tensor_like), default=-1)
    return [
        Hazard(
            "scalar-before-tensor",
            f"{p.name!r} stands before a tensor, but tensors are passed first",
            p.name,
        )
        for p in positional[: max(last, 0)]
        if not p.is_tensor_like
    ]
