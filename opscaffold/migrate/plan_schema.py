"""Making the buffers of a low-level schema keyword-only, so that the op can be tagged out=."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from opscaffold.contract.grammar import SchemaError, parse_schema
from opscaffold.contract.model import OpContract, Tag
from opscaffold.contract.releases import FIRST_WITH_TAGS, supports_tags
from opscaffold.findings.model import Finding
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.calls import Signature, buffer_argument
from opscaffold.migrate.edits import CallEdit, CallForm
from opscaffold.migrate.evaluation import written_order
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.plan_tag import add_tag, refuse_unsafe_pair
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registered import check_attached, check_registered, drop_fakes
from opscaffold.migrate.returned_sites import ReturnedCallers, ReturnedSites, signature_of_call
from opscaffold.migrate.sites import Sites
from opscaffold.rules.base import OpFacts
from opscaffold.rules.kernels import kernels_of
from opscaffold.rules.returned_whole import Whole
from opscaffold.source.load import span
from opscaffold.source.model import Module, Op, Reference, Registration

_BY_HAND = "change this op by hand"


def plan_tag_schema(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan the schema, the tag and the call sites of an op that returns its buffers.

    Raises RefusalError or RefusedError.
    """
    del findings
    if not supports_tags(context.options.target):
        first = ".".join(map(str, FIRST_WITH_TAGS))
        raise RefusalError(None, f"Tag.out needs torch {first}", "let it return nothing, by hand")
    facts = OpFacts(context.project, op)
    definition = op.definition
    check_registered(facts)
    check_attached(facts, _why_attached)
    literal = definition.arguments.get("schema")
    if definition.call is None or not isinstance(literal, ast.Constant):
        raise RefusalError(
            definition.statement, "its schema is not written as one string", "write it as one"
        )
    contract = _parsed(op, str(literal.value), literal)
    outs = list(contract.mutated)
    new = _with_keyword_only(str(literal.value), outs, literal)
    changed = replace(_parsed(op, new, literal), tags=frozenset({Tag.OUT}))
    refuse_unsafe_pair(facts, changed)
    _check_names(facts, outs)
    plan = OpPlan(op.qualname, "given a keyword-only buffer and torch.Tag.out")
    syntax = context.syntaxes.of(definition.module)
    node = syntax.find(literal, cst.SimpleString)
    if node.raw_value != literal.value:
        raise RefusalError(literal, "its schema is not written plainly", "write it plainly")
    text = f"{node.prefix}{node.quote}{new}{node.quote}"
    plan.edits_for(definition.module).literals[syntax.key(literal)] = text
    add_tag(context, plan, definition, definition.call, Tag.OUT)
    drop_fakes(context, facts, plan, None)
    signature = signature_of_call(
        [p.name for p in contract.parameters if not p.kw_only],
        [p.name for p in contract.parameters if p.kw_only],
    )
    kernel = next(k.function for k in kernels_of(facts))
    name = getattr(kernel, "name", op.name)
    bindings = Bindings(context.project, op, name, op.qualname, context.syntaxes)
    callers = _KeywordCallers(context, op, signature, name, kernel, plan, outs)
    reasons = callers.plan_all(bindings)
    if reasons:
        raise RefusedError(reasons)
    plan.take(bindings.edits)
    return plan


def _why_attached(registration: Registration) -> str:
    return f"`{registration.role.value}` is attached to the op, which an out= op does not take"


def _parsed(op: Op, schema: str, node: ast.AST) -> OpContract:
    try:
        return parse_schema(schema, namespace=op.namespace)
    except SchemaError as error:
        raise RefusalError(node, f"its schema cannot be read: {error}", _BY_HAND) from None


def _with_keyword_only(schema: str, outs: Sequence[str], node: ast.AST) -> str:
    """The text of a schema with these parameters last, behind the star."""
    start = schema.index("(")
    depth, end = 0, start
    commas = [start]
    for at in range(start, len(schema)):
        character = schema[at]
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 1:
            commas.append(at)
        if depth == 0:
            end = at
            break
    parts = [schema[a + 1 : b].strip() for a, b in zip(commas, [*commas[1:], end], strict=True)]
    moved = [p for p in parts if p.partition("=")[0].split()[-1] in outs]
    if len(moved) != len(outs) or any("=" in p for p in moved):
        raise RefusalError(node, "its schema is not written plainly", "write it plainly")
    rest = [p for p in parts if p not in moved]
    if "*" not in rest:
        rest.append("*")
    return f"{schema[: start + 1]}{', '.join([*rest, *moved])}{schema[end:]}"


def _check_names(facts: OpFacts, outs: Sequence[str]) -> None:
    """A kernel is handed keyword-only arguments by name."""
    for kernel in kernels_of(facts):
        spec = kernel.function.args
        known = {a.arg for a in (*spec.args, *spec.kwonlyargs)}
        behind = [a.arg for a in spec.args]
        last = [n for n in behind if n not in outs]
        if not known.issuperset(outs) or behind[: len(last)] != last:
            raise RefusalError(
                kernel.function,
                "its kernel does not take the buffers last, by the names that the schema has",
                "give the kernel the names and the order of the schema",
                kernel.module,
            )


class _KeywordSites(ReturnedSites):
    """Plans the references to an op whose buffers become keyword-only."""

    def _call(self, reference: Reference, call: ast.Call) -> None:
        buffer_argument(call, self.signature)
        self._pass_by_name(reference.module, call)

    def _unsure_call(self, reference: Reference, call: ast.Call) -> None:
        buffer_argument(call, self.signature)
        if self._by_position(call):
            raise RefusalError(
                call,
                f"this call may be one of the op, and passes a buffer by position: "
                f"{reference.reason}",
                "pass the buffer by its name",
            )

    def _by_position(self, call: ast.Call) -> list[str]:
        return [n for n in self.signature.positional[: len(call.args)] if n in self.whole.names]

    def _pass_by_name(self, module: Module, call: ast.Call) -> None:
        outs = self._by_position(call)
        if not outs:
            return
        first = min(self.signature.positional.index(name) for name in outs)
        names = [""] * len(written_order(call))
        names[first : len(call.args)] = self.signature.positional[first : len(call.args)]
        start, end = span(module, call.func)
        text = module.source.text[start:end]
        key = self.bindings.syntaxes.of(module).key(call)
        self.bindings.edits_for(module).calls[key] = CallEdit(
            CallForm.GIVEN, first, outs[0], text, places=((first, tuple(names)),)
        )
        self.edited.append(call)


class _KeywordCallers(ReturnedCallers):
    """Plans the callers of such an op."""

    old = "with its buffer by position"
    remedy = "pass the buffer by its name, if `{op}` is meant"

    def __init__(
        self,
        context: Context,
        op: Op,
        signature: Signature,
        name: str,
        kernel: ast.AST,
        plan: OpPlan,
        outs: Sequence[str],
    ) -> None:
        function = kernel if isinstance(kernel, ast.FunctionDef) else _named(name)
        super().__init__(context, op, signature, function, plan, Whole(tuple(outs), many=False))

    def sites(self, bindings: Bindings) -> Sites:
        """What plans each reference."""
        return _KeywordSites(self.whole, bindings, self.signature, self.snippets)

    def matters(self, module: Module, call: ast.Call) -> bool:
        """Whether a call would have to change, were it one of the op."""
        del module
        given = self.signature.positional[: len(call.args)]
        return any(name in self.whole.names for name in given)

    may_matter = matters


def _named(name: str) -> ast.FunctionDef:
    """A function that only stands for a name."""
    made = ast.parse(f"def {name.replace('.', '_')}(): ...").body[0]
    if not isinstance(made, ast.FunctionDef):
        raise TypeError("this is a function")
    return made
