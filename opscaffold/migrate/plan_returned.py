"""Letting an op that returned its own arguments return nothing, and its callers use those."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import libcst as cst

from opscaffold.findings.model import Finding
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registered import (
    check_attached,
    check_registered,
    drop_fakes,
    kernels_to_change,
)
from opscaffold.migrate.returned_sites import ReturnedCallers, signature_of_call
from opscaffold.migrate.returns import returning_nothing
from opscaffold.rules.base import OpFacts
from opscaffold.rules.contracts import signature_of
from opscaffold.rules.returned_whole import NotWholeError, Whole, returned_whole
from opscaffold.source.model import Module, Op, Registration


def plan_return_nothing(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan an op that returns nothing, with its kernels, fakes, schema and call sites.

    Raises RefusalError or RefusedError.
    """
    del findings
    facts = OpFacts(context.project, op)
    check_registered(facts)
    whole = whole_of(facts)
    check_attached(facts, _why_attached)
    plan = OpPlan(op.qualname, "made to return nothing")

    def change(module: Module, function: ast.FunctionDef) -> None:
        syntax = context.syntaxes.of(module)
        node = returning_nothing(syntax.find(function, cst.FunctionDef))
        plan.edits_for(module).statements[syntax.key(function)] = [
            _with_schema(context, facts, module, node)
        ]

    kernels = [(module, function) for _, module, function in kernels_to_change(facts)]
    for module, function in kernels:
        change(module, function)
    _change_schema(context, facts, plan)
    drop_fakes(context, facts, plan, change)
    _refuse_inner_calls(context, op, [function for _, function in kernels])
    main = next((f for _, f in kernels if f is facts.kernel), kernels[0][1])
    contract = signature_of(context.project, op)
    parameters = () if contract is None else contract.parameters
    signature = signature_of_call(
        [p.name for p in parameters if not p.kw_only], [p.name for p in parameters if p.kw_only]
    )
    bindings = Bindings(context.project, op, main.name, op.qualname, context.syntaxes)
    callers = ReturnedCallers(context, op, signature, main, plan, whole)
    reasons = callers.plan_all(bindings)
    if reasons:
        raise RefusedError(reasons)
    plan.take(bindings.edits)
    return plan


def whole_of(facts: OpFacts) -> Whole:
    """The arguments that an op returns. Raises RefusalError where it may return anything else."""
    try:
        return returned_whole(facts)
    except NotWholeError as error:
        raise RefusalError(
            error.node, error.reason, "return nothing, or only new tensors", error.module
        ) from None


def _why_attached(registration: Registration) -> str:
    return f"`{registration.role.value}` is attached to the op, and relies on what it returns"


def _schema_literal(facts: OpFacts) -> tuple[Module, ast.Constant] | None:
    """The string that holds the schema; None where PyTorch infers it."""
    definition = facts.op.definition
    if definition.schema is None:
        return None
    node = definition.arguments.get("schema")
    written = isinstance(node, ast.Constant) and node in definition.module.parents
    if written and isinstance(node, ast.Constant) and "->" in str(node.value):
        return definition.module, node
    raise RefusalError(
        definition.statement, "its schema is not written as one string where it is registered",
        "write it as one string", definition.module,
    )  # fmt: skip


def _with_returns(text: str, node: ast.AST, module: Module) -> str:
    """The text of a schema literal whose op returns nothing."""
    head, arrow, tail = text.rpartition("->")
    quote = next((q for q in ('"""', "'''", '"', "'") if tail.endswith(q)), None)
    if not arrow or quote is None or "\\" in tail or text.count(quote) != 2:
        raise RefusalError(
            node, "its schema is not written as one string", "write it as one string", module
        )
    return f"{head}-> (){quote}"


def _change_schema(context: Context, facts: OpFacts, plan: OpPlan) -> None:
    found = _schema_literal(facts)
    if found is None:
        return
    module, literal = found
    syntax = context.syntaxes.of(module)
    node = syntax.find(literal, cst.SimpleString)
    new = _with_returns(node.value, literal, module)
    key = syntax.key(literal)
    edits = plan.edits_for(module)
    if not any(start <= key[0] < end for start, end in edits.statements):
        edits.literals[key] = new


def _with_schema(
    context: Context, facts: OpFacts, module: Module, function: cst.FunctionDef
) -> cst.FunctionDef:
    """A kernel with the schema changed that stands in its decorator."""
    found = _schema_literal(facts)
    if found is None or found[0] is not module:
        return function
    syntax = context.syntaxes.of(module)
    node = syntax.find(found[1], cst.SimpleString)
    new = node.with_changes(value=_with_returns(node.value, found[1], module))
    changed = function.deep_replace(node, new)
    return cst.ensure_type(changed, cst.FunctionDef)


def _refuse_inner_calls(context: Context, op: Op, kernels: Sequence[ast.FunctionDef]) -> None:
    inner = {id(node) for function in kernels for s in function.body for node in ast.walk(s)}
    for reference in context.project.references(op):
        if id(reference.node) in inner:
            raise RefusalError(
                reference.node, "the op calls itself", "change it by hand", reference.module
            )
