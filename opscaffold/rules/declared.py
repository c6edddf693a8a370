"""What an op declares to mutate, and which rules its tags put on it."""

from __future__ import annotations

import ast

from opscaffold.contract.grammar import SchemaError, parse_schema
from opscaffold.contract.legality import check_legal
from opscaffold.contract.model import OpContract, Tag, alias_of
from opscaffold.contract.signature import SignatureError, contract_from_signature
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import constants, contract_of, origins, postponed, tags_of
from opscaffold.rules.outputs import is_side_output, outputs_of
from opscaffold.source.model import Role

UNKNOWN = "unknown"


def mutated_by(facts: OpFacts) -> frozenset[str] | None:
    """The arguments that the op declares to mutate; None where that is not told."""
    definition = facts.op.definition
    if definition.mutates == UNKNOWN:
        return None
    contract = contract_of(facts.project, facts.op)
    if contract is not None:
        return frozenset(contract.mutated)
    if definition.schema is None and isinstance(definition.mutates, tuple):
        return frozenset(definition.mutates)
    return None


def tags(facts: OpFacts) -> frozenset[Tag] | None:
    """The tags that make the op in-place or out=; None where they are not told."""
    return tags_of(facts.project, facts.op.definition)


def maybe_outs(facts: OpFacts) -> frozenset[str]:
    """Optional buffers that make the op a maybe-out, which has a finding of its own."""
    uses = outputs_of(facts)
    return frozenset(n for n, use in uses.items() if not is_side_output(facts.op, use))


def aliased_by_schema(facts: OpFacts) -> bool:
    """Whether a schema says itself that a return shares memory, which has a finding of its own."""
    contract = contract_of(facts.project, facts.op)
    return contract is not None and any(alias_of(r.type) is not None for r in contract.returns)


def tag_problem(facts: OpFacts, tag: Tag) -> tuple[ast.AST, str, str] | None:
    """Why PyTorch refuses the tag on this op: where it shows, the reason and the remedy."""
    if tags(facts) != frozenset({tag}):
        return None
    definition = facts.op.definition
    node = definition.call or definition.statement
    if definition.schema is not None:
        return _problem_of_schema(facts, tag, definition.schema, node)
    function = definition.function
    if not isinstance(function, ast.FunctionDef) or definition.mutates is None:
        return None
    error = _problem_of_signature(facts, function, tag)
    if error is None:
        return None
    place = facts.parameter(error.parameter) if error.parameter else function
    return place, error.reason, error.remedy


def is_refused_out(facts: OpFacts) -> bool:
    """Whether the op is tagged as an out= op and cannot be defined as one."""
    return tag_problem(facts, Tag.OUT) is not None


def names_no_tensor(facts: OpFacts) -> bool:
    """Whether mutates_args names what is no Tensor of the op, so that it cannot be defined."""
    definition = facts.op.definition
    if definition.schema is not None or not isinstance(definition.mutates, tuple):
        return False
    tensors = {a.name for a in facts.arguments if a.tensor}
    return bool(tensors) and not tensors >= set(definition.mutates)


def _problem_of_schema(
    facts: OpFacts, tag: Tag, schema: str, node: ast.AST
) -> tuple[ast.AST, str, str] | None:
    try:
        contract = parse_schema(schema, namespace=facts.op.namespace, tags=frozenset({tag}))
    except SchemaError:
        return None
    prefix = "out-" if tag is Tag.OUT else "inplace-"
    problems = [p for p in check_legal(contract) if p.code.startswith(prefix)]
    if not problems:
        return None
    return node, problems[0].reason, problems[0].remedy


def _problem_of_signature(
    facts: OpFacts, function: ast.FunctionDef, tag: Tag
) -> SignatureError | None:
    def read(mutates: tuple[str, ...] | str, with_tags: frozenset[Tag]) -> OpContract:
        return contract_from_signature(
            function,
            qualname="any::op",
            mutates_args=mutates,
            tags=with_tags,
            resolver=origins(facts.project, facts.module),
            evaluate=constants(facts.project, facts.module),
            postponed=postponed(facts.module),
        )

    definition = facts.op.definition
    if definition.mutates is None or definition.role is Role.TRITON_OP:
        return None
    try:
        read(definition.mutates, frozenset({tag}))
    except SignatureError as error:
        return error if f"Tag.{tag.value}" in error.reason else None
    return None
