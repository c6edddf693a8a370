"""Giving an out= overload that Inductor puts in wrongly a name of its own."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import libcst as cst

from opscaffold.contract.model import OpContract
from opscaffold.findings.intents import RenameOverload
from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.migrate.callers import MENTION_CODE, MENTION_NAME
from opscaffold.migrate.edits import Template
from opscaffold.migrate.plan import Context, OpPlan, RefusedError
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registered import check_registered
from opscaffold.rules.base import OpFacts, position
from opscaffold.rules.contracts import signature_of
from opscaffold.source.load import span
from opscaffold.source.model import Op, Reference, Registration, Use

_HARMLESS = (Use.IMPORT, Use.EXPORT)


def plan_rename(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Plan another name for an overload, where it is registered and where it is called.

    Raises RefusalError or RefusedError.
    """
    intent = findings[0].intent
    if not isinstance(intent, RenameOverload):
        raise TypeError("this finding intends another repair")
    facts = OpFacts(context.project, op)
    check_registered(facts)
    taken = {o.qualname for o in context.project.all_ops}
    taken |= {r.qualname for r in context.project.stray if r.qualname}
    if intent.new in taken:
        raise RefusalError(
            None, f"there is an op `{intent.new}` already", "let the callers use that one"
        )
    plan = OpPlan(op.qualname, f"renamed to {intent.new}", (intent.new,))
    renaming = _Renaming(context, op, intent.new, plan)
    for registration in (op.definition, *op.attached):
        renaming.register(registration)
    found = [renaming.refusal(reference) for reference in context.project.references(op)]
    reasons = [refusal for refusal in found if refusal is not None]
    if reasons:
        raise RefusedError(reasons)
    return plan


class _Renaming:
    """Plans where an overload is named."""

    def __init__(self, context: Context, op: Op, new: str, plan: OpPlan) -> None:
        self.context, self.op, self.plan = context, op, plan
        self.base, _, self.overload = op.name.partition(".")
        self.new = new.partition("::")[2]
        named = {o.qualname: o for o in context.project.all_ops}
        functional = named.get(f"{op.namespace}::{self.base}")
        self.contract = signature_of(context.project, op)
        self.functional: OpContract | None = None
        if functional is not None:
            self.functional = signature_of(context.project, functional)

    def register(self, registration: Registration) -> None:
        """Plan the name in a registration, where it is a string."""
        module = registration.module
        arguments = registration.arguments.values()
        operands = [registration.operand, *arguments]
        found = [
            node
            for node in operands
            if isinstance(node, ast.Constant) and self._names_op(node.value)
        ]
        if not found and isinstance(registration.operand, ast.Name | ast.Attribute):
            return
        if not found:
            raise RefusalError(
                registration.statement, "its name is not written as one string here",
                "write the name as one string", module,
            )  # fmt: skip
        syntax = self.context.syntaxes.of(module)
        for node in dict.fromkeys(found):
            literal = syntax.find(node, cst.SimpleString)
            old = f"{self.base}.{self.overload}"
            if literal.value.count(old) != 1:
                raise RefusalError(
                    node, "its name is not written plainly here", "write it plainly", module
                )
            new = literal.value.replace(old, self.new)
            self.plan.edits_for(module).literals[syntax.key(node)] = new

    def _names_op(self, value: object) -> bool:
        """Whether a string is the overload's name, or a schema that starts with it."""
        if not isinstance(value, str):
            return False
        name = value.partition("(")[0].strip().removeprefix(f"{self.op.namespace}::")
        return name == self.op.name

    def refusal(self, reference: Reference) -> RefusalError | None:
        """Plan one reference, and return why it keeps the name from being changed, if it does."""
        try:
            self.refer(reference)
        except RefusalError as refusal:
            refusal.where = refusal.where or reference.module
            snippet = self.context.snippets.get(reference.module.path)
            if snippet is None:
                return refusal
            line = getattr(refusal.node, "lineno", 1)
            where = Position(snippet.host, snippet.line_in_host(line))
            self.plan.notes.append(_mention(self.op, where, refusal.reason))
        return None

    def refer(self, reference: Reference) -> None:
        """Plan one reference. Raises RefusalError where the name cannot be changed."""
        node, module = reference.node, reference.module
        if reference.use in _HARMLESS:
            return
        if reference.use is Use.STRING:
            if module.path not in self.context.snippets:
                reason = "this string names it"
                self.plan.notes.append(_mention(self.op, position(module, node), reason))
            return
        if not reference.torch_ops or not isinstance(node, ast.expr):
            return
        parts: list[ast.Attribute] = []
        current: ast.expr = node
        while isinstance(current, ast.Attribute):
            parts.append(current)
            current = current.value
        names = [p.attr for p in parts]
        if self.base not in names:
            raise RefusalError(
                node, "the op's name is not written out here", "write `torch.ops` out", module
            )
        at = names.index(self.base)
        behind = names[:at][::-1]
        if behind[:1] == [self.overload]:
            end = parts[at - 1]
        elif not behind:
            if not self._is_meant(reference):
                return
            end = parts[at]
        else:
            return
        parent = module.parents[end]
        called = isinstance(parent, ast.Call) and parent.func is end
        start, stop = span(module, parts[at].value)
        text = module.source.text[start:stop]
        suffix = "" if called else ".default"
        key = self.context.syntaxes.of(module).key(end)
        self.plan.edits_for(module).expressions[key] = Template(f"{text}.{self.new}{suffix}")
        self.plan.calls += called

    def _is_meant(self, reference: Reference) -> bool:
        """Whether a packet is called with arguments that only this overload takes."""
        node, module = reference.node, reference.module
        call = module.parents[node]
        if self.functional is None or self.contract is None:
            raise RefusalError(
                node, "which overload is meant here cannot be told", "name the overload", module
            )
        if not isinstance(call, ast.Call) or call.func is not node:
            raise RefusalError(
                node,
                "all overloads of the name are used here as a value, and may be called as this one",
                f"use `.{self.overload}` or `.default` of it",
                module,
            )
        if any(isinstance(a, ast.Starred) for a in call.args) or any(
            k.arg is None for k in call.keywords
        ):
            raise RefusalError(
                call, "a call with star arguments may mean this overload", "spell them out", module
            )
        own = {p.name for p in self.contract.parameters}
        own -= {p.name for p in self.functional.parameters}
        positional = [p for p in self.functional.parameters if not p.kw_only]
        return len(call.args) > len(positional) or any(k.arg in own for k in call.keywords)


def _mention(op: Op, where: Position, reason: str) -> Finding:
    return Finding(
        MENTION_CODE,
        MENTION_NAME,
        Severity.INFO,
        where,
        f"`{op.qualname}` has another name now, and was left here: {reason}",
        op.qualname,
        "use the new name, if the op is meant",
    )
