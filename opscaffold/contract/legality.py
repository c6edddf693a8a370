"""Whether PyTorch lets a contract exist, and whether it survives torch.compile.

The rules of the torch.library reference and of FACTS sections 1 and 2. Every problem says why,
and names the nearest form that is legal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from opscaffold.contract.derive import DerivationError, inplace_of, out_of
from opscaffold.contract.kinds import infer_kind, returns_argument
from opscaffold.contract.model import (
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
from opscaffold.contract.naming import (
    validate_namespace,
    validate_op_name,
    validate_overload_name,
    validate_parameter_name,
)
from opscaffold.contract.printer import format_type
from opscaffold.contract.pytypes import (
    default_problem,
    parameter_type_problem,
    parameter_type_remedy,
    return_type_problem,
    strip_alias,
)
from opscaffold.contract.releases import (
    FIRST_WITH_CUSTOM_OP,
    FIRST_WITH_TAGS,
    Release,
    release_for,
)
from opscaffold.records import dataclass

_TENSOR = BaseType("Tensor")


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a contract is not legal. ``code`` is stable; ``parameter`` may be empty."""

    code: str
    reason: str
    remedy: str
    parameter: str = ""

    def __str__(self) -> str:
        """The reason and the nearest legal form, in one line."""
        return f"{self.reason}; {self.remedy}"


def check_legal(contract: OpContract, release: Release | None = None) -> list[Problem]:
    """Every reason why the contract, written as a Python function for custom_op, would fail.

    That covers what PyTorch refuses when the op is defined or called, and what it accepts and
    then breaks in opcheck or torch.compile. Empty when the contract is legal in ``release``
    (default 2.13).
    """
    release = release or release_for()
    problems = list(_names(contract))
    problems += _release(contract, release)
    problems += _parameters(contract, release)
    problems += _returns(contract)
    if contract.tags == frozenset(Tag):
        problems.append(
            Problem(
                "two-tags",
                "Tag.inplace and Tag.out exclude each other",
                "keep the one whose contract the op follows",
            )
        )
        return problems
    kind_rules = {
        Kind.FUNCTIONAL: _functional,
        Kind.INPLACE: _inplace,
        Kind.OUT: _out,
        Kind.MUTABLE: _mutable,
    }
    problems += kind_rules[contract.kind](contract)
    return problems


def check_family(contract: OpContract, release: Release | None = None) -> list[Problem]:
    """Why the functional contract, its in-place and its out= form cannot all exist, or nothing."""
    release = release or release_for()
    problems = check_legal(contract, release)
    for form, derive in (("in-place", inplace_of), ("out=", out_of)):
        try:
            derived = derive(contract)
        except DerivationError as error:
            problems.append(Problem("family", str(error), "generate the functional op on its own"))
            continue
        known = {(p.code, p.parameter) for p in problems}
        problems += [
            Problem(p.code, f"{form} form: {p.reason}", p.remedy, p.parameter)
            for p in check_legal(derived, release)
            if (p.code, p.parameter) not in known
        ]
    return problems


def _names(contract: OpContract) -> Iterator[Problem]:
    # A bare signature has no name yet; who registers it gives one.
    checks = [
        ("namespace", validate_namespace(contract.namespace) if contract.namespace else None),
        ("name", validate_op_name(contract.name) if contract.name else None),
        ("overload", validate_overload_name(contract.overload)),
    ]
    for what, reason in checks:
        if reason is not None:
            yield Problem(f"bad-{what}", reason, f"choose another {what}")
    if contract.name.endswith("_") and contract.kind is not Kind.INPLACE:
        yield Problem(
            "underscore",
            f"the name {contract.name!r} ends in '_', which says in-place, but the op is "
            f"{contract.kind.value}",
            f"name it {_plain_name(contract.name)!r}",
        )
    for name, count in Counter(p.name for p in contract.parameters).items():
        reason = validate_parameter_name(name)
        if reason is not None:
            yield Problem("bad-parameter", reason, f"name it {_other_name(name)!r}", name)
        if count > 1:
            yield Problem(
                "duplicate", f"{count} arguments are named {name!r}", "give each its own name", name
            )


def _plain_name(name: str) -> str:
    candidate = name.rstrip("_")
    return candidate if validate_op_name(candidate) is None else f"{candidate}_op"


def _other_name(name: str) -> str:
    candidate = f"{name.strip('_')}_"
    return candidate if validate_parameter_name(candidate) is None else "value"


def _release(contract: OpContract, release: Release) -> Iterator[Problem]:
    if not release.custom_op:
        first = ".".join(map(str, FIRST_WITH_CUSTOM_OP))
        yield Problem(
            "no-custom-op",
            f"torch {release} has no torch.library.custom_op",
            f"require torch {first} or newer",
        )
    elif contract.tags and not release.tags:
        first = ".".join(map(str, FIRST_WITH_TAGS))
        yield Problem(
            "no-tags",
            f"custom_op of torch {release} takes no tags, so there is no {contract.kind.value} op",
            f"declare a mutable op that returns nothing, or require torch {first}",
        )


def _parameters(contract: OpContract, release: Release) -> Iterator[Problem]:
    if contract.vararg or contract.varret:
        yield Problem(
            "varargs",
            "a custom op has a fixed number of arguments and returns",
            "use a list argument instead of '...'",
        )
    defaulted = ""
    for parameter in contract.parameters:
        if not parameter.kw_only:
            if defaulted and parameter.default is None:
                yield Problem(
                    "default-order",
                    f"{parameter.name!r} has no default but stands behind {defaulted!r}, which has",
                    f"move {parameter.name!r} to the front or give it a default",
                    parameter.name,
                )
            defaulted = parameter.name if parameter.default is not None else defaulted
        if parameter.name == "mode" and contract.mutated:
            yield Problem(
                "mode-argument",
                "torch.compile fails for every op that mutates an argument and has one called "
                "'mode'",
                "rename it",
                "mode",
            )
        yield from _parameter(contract, parameter, release)


def _parameter(contract: OpContract, parameter: Parameter, release: Release) -> Iterator[Problem]:
    name, plain = parameter.name, strip_alias(parameter.type)
    reason = parameter_type_problem(plain, release)
    if reason is not None:
        yield Problem("parameter-type", f"{name!r}: {reason}", parameter_type_remedy(plain), name)
    refused = default_problem(parameter)
    if refused is not None:
        yield Problem("default", *refused, name)
    if parameter.alias is not None and not parameter.alias.write:
        yield Problem(
            "view",
            f"{name!r} shares memory with a return, and a custom op that returns a view does not "
            "compile",
            "return a new tensor (clone the view) and drop the annotation",
            name,
        )
    if parameter.mutated and not parameter.is_tensor_like:
        yield Problem(
            "mutated-type",
            f"{name!r} is no Tensor, and only Tensors and lists of them can be mutated",
            f"return the new value of {name!r}",
            name,
        )
    if parameter.kw_only and parameter.is_tensor_like and Tag.OUT not in contract.tags:
        yield Problem(
            "keyword-only-tensor",
            f"the Tensor {name!r} is keyword-only, which custom_op refuses without Tag.out",
            f"make {name!r} positional",
            name,
        )


def _returns(contract: OpContract) -> Iterator[Problem]:
    for returned in contract.returns:
        reason = return_type_problem(strip_alias(returned.type))
        if reason is not None:
            yield Problem(
                "return-type", reason, "return Tensor, list[Tensor], int, float, bool or a tuple"
            )


def _functional(contract: OpContract) -> Iterator[Problem]:
    if any(_aliases(r) for r in contract.returns):
        yield Problem(
            "return-alias",
            "a functional op returns new tensors, but the schema says that a return shares memory",
            "clone it and drop the annotation, or declare the argument as mutated",
        )
    if not contract.returns:
        yield Problem(
            "no-effect",
            "the op mutates nothing and returns nothing: torch.compile drops its call",
            "return a result or declare what it mutates",
        )


def _inplace(contract: OpContract) -> Iterator[Problem]:
    first = contract.parameters[0] if contract.parameters else None
    if first is None or first.kw_only or strip_alias(first.type) != _TENSOR:
        yield Problem(
            "inplace-first",
            "Tag.inplace needs a plain positional Tensor as the very first argument",
            "put the mutated Tensor first, before any number, or declare a mutable op that "
            "returns nothing",
            "" if first is None else first.name,
        )
        return
    if contract.mutated != (first.name,):
        listed = ", ".join(contract.mutated) or "nothing"
        yield Problem(
            "inplace-mutated",
            f"Tag.inplace needs mutates_args to be exactly {{{first.name!r}}}, found {listed}",
            "drop the tag and return nothing (a mutable op)",
            first.name,
        )
    elif len(contract.returns) != 1 or not returns_argument(contract.returns[0], first):
        yield Problem(
            "inplace-return",
            f"Tag.inplace must return {first.name!r} itself and nothing else",
            f"return {first.name!r}, or drop the tag and return nothing (a mutable op)",
            first.name,
        )


def _out(contract: OpContract) -> Iterator[Problem]:
    outs = [p for p in contract.parameters if p.mutated]
    if not outs:
        yield Problem(
            "out-none",
            "Tag.out needs at least one mutated keyword-only Tensor",
            "declare the buffers in mutates_args, or drop the tag",
        )
        return
    for out in outs:
        if not out.kw_only:
            yield Problem(
                "out-positional",
                f"Tag.out needs {out.name!r} to be keyword-only",
                f"put {out.name!r} behind '*', or drop the tag and return nothing (a mutable op)",
                out.name,
            )
        if strip_alias(out.type) != _TENSOR or out.default is not None:
            yield Problem(
                "out-type",
                f"Tag.out needs {out.name!r} to be a plain Tensor that is always given, "
                f"not {format_type(strip_alias(out.type))}",
                "require the buffer and add a functional op for calls without one, or drop the "
                "tag and return nothing (a mutable op)",
                out.name,
            )
    matched = len(outs) == len(contract.returns) and all(
        returns_argument(r, p) for r, p in zip(contract.returns, outs, strict=True)
    )
    if not matched and all(strip_alias(p.type) == _TENSOR for p in outs):
        names = ", ".join(p.name for p in outs)
        yield Problem(
            "out-return",
            f"Tag.out must return all its buffers, in the order of declaration: {names}",
            f"return {names}, or drop the tag and return nothing (a mutable op)",
        )


def _mutable(contract: OpContract) -> Iterator[Problem]:
    mutated = [p for p in contract.parameters if p.mutated]
    if any(_aliases(r) for r in contract.returns):
        yield Problem(
            "return-alias",
            "a mutable op without a tag must not return what it mutates, or a view of an input",
            _tag_remedy(contract, mutated),
        )
    strange = [r for r in contract.returns if strip_alias(r.type) != _TENSOR]
    if strange:
        yield Problem(
            "mutable-return",
            f"a mutable op that returns {format_type(strip_alias(strange[0].type))} fails under "
            "torch.compile",
            "return nothing or single Tensors; let a second op return the rest",
        )
    for parameter in mutated:
        if _list_of_optional(parameter.type):
            yield Problem(
                "mutated-optional-list",
                f"a mutated list with None in it ({parameter.name!r}) fails under torch.compile",
                f"make {parameter.name!r} a list of Tensor",
                parameter.name,
            )
        elif isinstance(parameter.type, OptionalType) and contract.returns:
            yield Problem(
                "optional-mutated-return",
                f"Inductor dies when the Optional {parameter.name!r} is omitted, because the op "
                "also returns",
                "split it: a functional op that returns the result, and one with a required "
                "buffer (Tag.out, or returning nothing)",
                parameter.name,
            )


def _tag_remedy(contract: OpContract, mutated: list[Parameter]) -> str:
    """The nearest tagged form of an untagged op that returns what it mutates."""
    fitting = infer_kind(contract)
    if fitting is Kind.INPLACE:
        return "tag it torch.Tag.inplace, or return nothing"
    if fitting is Kind.OUT:
        return "tag it torch.Tag.out, or return nothing"
    plain = all(strip_alias(p.type) == _TENSOR for p in mutated)
    if plain and len(mutated) == 1 == len(contract.returns):
        name = mutated[0].name
        return (
            f"move {name!r} to the front and tag it torch.Tag.inplace, make it keyword-only and "
            "tag it torch.Tag.out, or return nothing"
        )
    if plain and len(mutated) == len(contract.returns):
        return "make the buffers keyword-only and tag it torch.Tag.out, or return nothing"
    return "return nothing"


def _list_of_optional(type_: SchemaType) -> bool:
    if isinstance(type_, OptionalType):
        type_ = type_.of
    return isinstance(type_, ListType) and isinstance(type_.of, OptionalType)


def _aliases(returned: Return) -> bool:
    type_ = returned.type
    while type_.alias is None and not isinstance(type_, BaseType):
        type_ = type_.of
    return type_.alias is not None
