"""Which kind a contract is of, by walking the decision tree on what its schema says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from opscaffold.contract import decision
from opscaffold.contract.model import Alias, BaseType, Kind, OpContract, Parameter, Return, Tag

KIND_TAGS: Mapping[Kind, Tag] = {Kind.INPLACE: Tag.INPLACE, Kind.OUT: Tag.OUT}


def infer_kind(contract: OpContract) -> Kind:
    """The kind that the schema describes, whatever tags the contract carries.

    ``contract.kind`` is what is declared; where the two differ, a tag is missing or wrong.
    """
    end = decision.walk(answers_from(contract))
    # answers_from answers every question, and says no to the one that needs no op.
    assert isinstance(end, decision.Outcome)  # noqa: S101
    assert end.kind is not None  # noqa: S101
    return end.kind


def answers_from(contract: OpContract) -> dict[str, str]:
    """The answers to the decision tree's questions that the schema gives."""
    return {
        decision.COMPOSABLE: "no",
        decision.MUTATES: _yes(bool(contract.mutated)),
        decision.RETURNS_FIRST: _yes(_is_inplace(contract)),
        decision.OUT_ARGUMENTS: _yes(_is_out(contract)),
    }


def with_kind_tag(contract: OpContract) -> OpContract:
    """The contract with the tag of the kind that its schema describes, and no other."""
    tag = KIND_TAGS.get(infer_kind(contract))
    return replace(contract, tags=frozenset() if tag is None else frozenset({tag}))


def returns_argument(returned: Return, parameter: Parameter) -> bool:
    """Whether the schema says that ``returned`` is ``parameter``: one alias set, written."""
    ours, theirs = _plain_alias(returned.type), _plain_alias(parameter.type)
    if ours is None or theirs is None or not (ours.write and theirs.write):
        return False
    return bool(set(ours.before)) and set(ours.before) == set(theirs.before)


def _is_inplace(contract: OpContract) -> bool:
    if not contract.parameters or len(contract.returns) != 1:
        return False
    first = contract.parameters[0]
    return (
        not first.kw_only
        and contract.mutated == (first.name,)
        and returns_argument(contract.returns[0], first)
    )


def _is_out(contract: OpContract) -> bool:
    outs = [p for p in contract.parameters if p.mutated]
    return (
        bool(outs)
        and all(p.kw_only for p in outs)
        and len(outs) == len(contract.returns)
        and all(returns_argument(r, p) for r, p in zip(contract.returns, outs, strict=True))
    )


def _plain_alias(type_: object) -> Alias | None:
    """The alias of a plain Tensor; lists and Optionals of them fit no tagged contract."""
    if type(type_) is BaseType and type_.name == "Tensor":
        return type_.alias
    return None


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"
