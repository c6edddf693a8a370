"""Giving an op that returns what it mutates the tag that makes that a contract."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from opscaffold.contract.grammar import SchemaError, parse_schema
from opscaffold.contract.legality import check_legal
from opscaffold.contract.model import OpContract, Tag
from opscaffold.contract.naming import overload_refusal
from opscaffold.contract.releases import FIRST_WITH_TAGS, release_for, supports_tags
from opscaffold.contract.signature import SignatureError, contract_from_signature
from opscaffold.findings.intents import AddTag
from opscaffold.findings.model import Finding
from opscaffold.migrate.edits import Template
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.plan_returned import plan_return_nothing, whole_of
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registered import check_attached, check_registered, drop_fakes
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import constants, contract_of, origins, postponed
from opscaffold.rules.kernels import all_in_sight, is_checked, kernels_of
from opscaffold.rules.returned_whole import Whole
from opscaffold.source.model import Form, Module, Op, Registration, Role

_BY_HAND = "change this op by hand"


def plan_add_tag(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan a tag for an op. Raises RefusalError or RefusedError.

    Where the oldest release of torch that is to work has no tags, the op is made to return
    nothing instead, if the tag was the safe way to mend it.
    """
    intent = findings[0].intent
    if not isinstance(intent, AddTag):
        raise TypeError("this finding intends another repair")
    facts = OpFacts(context.project, op)
    tag = Tag(intent.tag)
    if not supports_tags(context.options.target):
        if is_checked(facts):
            return plan_return_nothing(context, op, findings)
        first = ".".join(map(str, FIRST_WITH_TAGS))
        raise RefusalError(
            None, f"Tag.{tag.value} needs torch {first}", "let it return nothing, by hand"
        )
    check_registered(facts)
    call = check_taggable(facts, tag)
    plan = OpPlan(op.qualname, f"tagged torch.Tag.{tag.value}")
    add_tag(context, plan, op.definition, call, tag)
    drop_fakes(context, facts, plan, None)
    return plan


def check_taggable(facts: OpFacts, tag: Tag) -> ast.Call:
    """The registering call of an op that keeps what the tag promises. Raises RefusalError."""
    definition = facts.op.definition
    if definition.call is None or definition.form is Form.HELPER:
        raise RefusalError(
            definition.statement, "it is registered by a helper of the project", _BY_HAND
        )
    if definition.role is Role.TRITON_OP:
        raise RefusalError(
            definition.statement, "triton_op takes no tags", "let the op return nothing"
        )
    contract = _tagged_contract(facts, tag)
    refuse_unsafe_pair(facts, contract)
    check_attached(facts, _why_attached(tag))
    _check_kernels(facts, contract, tag)
    return definition.call


def _tagged_contract(facts: OpFacts, tag: Tag) -> OpContract:
    """The contract with the tag. Raises RefusalError where PyTorch would not take it."""
    op, definition = facts.op, facts.op.definition
    if definition.schema is not None:
        try:
            contract = parse_schema(
                definition.schema, namespace=op.namespace, tags=frozenset({tag})
            )
        except SchemaError as error:
            raise RefusalError(definition.statement, str(error), _BY_HAND) from None
        prefix = f"{tag.value}-"
        problems = [p for p in check_legal(contract) if p.code.startswith(prefix)]
        if problems:
            raise RefusalError(definition.statement, problems[0].reason, problems[0].remedy)
        return contract
    function = definition.function
    if not isinstance(function, ast.FunctionDef) or definition.mutates is None:
        raise RefusalError(
            definition.statement, "its kernel is not a plain function in sight", _BY_HAND
        )
    try:
        return contract_from_signature(
            function,
            qualname=op.qualname,
            mutates_args=definition.mutates,
            tags=frozenset({tag}),
            resolver=origins(facts.project, facts.module),
            evaluate=constants(facts.project, facts.module),
            postponed=postponed(facts.module),
        )
    except SignatureError as error:
        raise RefusalError(
            definition.statement, f"Tag.{tag.value} does not fit: {error.reason}", error.remedy
        ) from None


def refuse_unsafe_pair(facts: OpFacts, contract: OpContract) -> None:
    """Refuse a tag that lets Inductor put the op, wrongly, in the place of a functional one."""
    op = facts.op
    base, _, overload = op.name.partition(".")
    named = {o.qualname: o for o in facts.project.all_ops}
    functional = named.get(f"{op.namespace}::{base}")
    if not overload or functional is None or Tag.OUT not in contract.tags:
        return
    other = contract_of(facts.project, functional)
    hazards = [] if other is None else overload_refusal(other, contract, release_for())[0]
    if other is None or hazards:
        reasons = "; ".join(dict.fromkeys(h.reason for h in hazards)) or "it is not in sight"
        raise RefusalError(
            op.definition.statement,
            f"with the tag, Inductor would put it in place of `{functional.qualname}`, and pass "
            f"the arguments in the wrong places ({reasons})",
            f"name the op `{functional.qualname}_{overload}`",
        )


def _why_attached(tag: Tag) -> Callable[[Registration], str]:
    def why(registration: Registration) -> str:
        if registration.role is Role.AUTOGRAD:
            return f"an op with Tag.{tag.value} takes no autograd formula, and one is attached"
        return (
            f"`{registration.role.value}` is attached to the op, and what it does to one with "
            f"Tag.{tag.value} is not known here"
        )

    return why


def _check_kernels(facts: OpFacts, contract: OpContract, tag: Tag) -> None:
    """Refuse kernels that do not return the mutated arguments, and mutate nothing else."""
    definition = facts.op.definition
    mutated = contract.mutated
    kernels = kernels_of(facts)
    if all_in_sight(facts) or definition.schema is None:
        whole = whole_of(facts)
        if whole != Whole(tuple(mutated), many=len(mutated) > 1):
            said = " and ".join(f"`{name}`" for name in whole.names)
            raise RefusalError(
                kernels[0].function, f"it returns {said}, which Tag.{tag.value} does not allow",
                "let it return nothing", kernels[0].module,
            )  # fmt: skip
    for kernel in kernels:
        for own, mutation in kernel.effects.mutations.items():
            name = kernel.declared.get(own, own)
            if name not in mutated:
                raise RefusalError(
                    mutation.events[0].node,
                    f"it mutates `{name}` as well, and Tag.{tag.value} does not allow that",
                    "let it return nothing, and declare all that it mutates",
                    kernel.module,
                )


def add_tag(
    context: Context, plan: OpPlan, definition: Registration, call: ast.Call, tag: Tag
) -> None:
    """Plan a tag beside those that a registering call has."""
    module = definition.module
    by_function = definition.role is Role.DEFINE and definition.form is Form.FUNCTION
    if by_function and "qualname" not in definition.arguments:
        raise RefusalError(
            call, "torch.library.define takes no tags with a Library", "use Library.define"
        )
    root = _torch(module, definition)
    edits = plan.edits_for(module)
    syntax = context.syntaxes.of(module)
    if root is None:
        root, edits.import_torch = "torch", True
    text = f"{root}.Tag.{tag.value}"
    value = definition.arguments.get("tags")
    if value is None:
        edits.keywords[syntax.key(call)] = {"tags": text}
        return
    if value not in module.parents:
        raise RefusalError(call, "its tags are not written where it is registered", _BY_HAND)
    match value:
        case ast.Constant(value=None) | ast.Tuple(elts=[]) | ast.List(elts=[]):
            new = Template(text)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            if any(isinstance(p, ast.Starred) for p in parts):
                raise RefusalError(value, "its tags are not written out", _BY_HAND)
            every = ", ".join([*(f"_{i}" for i in range(len(parts))), text])
            code = f"({every})" if isinstance(value, ast.Tuple) else f"[{every}]"
            new = Template(code, tuple(syntax.key(p) for p in parts))
        case ast.Attribute() | ast.Name():
            new = Template(f"(_0, {text})", (syntax.key(value),))
        case _:
            raise RefusalError(value, "its tags are not written out", _BY_HAND)
    edits.expressions[syntax.key(value)] = new


def _torch(module: Module, definition: Registration) -> str | None:
    """The name that torch has where an op is registered; None where it has none."""
    line = definition.statement.lineno
    found: str | None = None
    for statement in module.tree.body:
        if not isinstance(statement, ast.Import) or statement.lineno > line:
            continue
        for alias in statement.names:
            if alias.name == "torch":
                found = found or alias.asname or "torch"
            elif alias.name.startswith("torch.") and alias.asname is None:
                found = found or "torch"
    wanted = found or "torch"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and node.id == wanted and not isinstance(node.ctx, ast.Load):
            raise RefusalError(
                node, f"the name `{wanted}` is something else here", "import torch by its name"
            )
    return found
