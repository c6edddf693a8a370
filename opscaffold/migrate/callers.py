"""Every place that uses an op whose buffer goes: what each becomes, and what is left to say."""

from __future__ import annotations

import ast
import re

from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.calls import Signature, buffer_argument
from opscaffold.migrate.documents import Snippet
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.sites import Sites
from opscaffold.rules.base import position
from opscaffold.source.files import read_bytes
from opscaffold.source.model import Module, Op, Use

MENTION_CODE = "OPS190"
MENTION_NAME = "mention"


class Callers:
    """Plans the callers of one op. ``function`` is the op as its own module names it."""

    def __init__(
        self,
        context: Context,
        op: Op,
        signature: Signature,
        function: ast.FunctionDef,
        plan: OpPlan,
    ) -> None:
        self.project, self.snippets = context.project, context.snippets
        self.op, self.plan = op, plan
        self.signature, self.function = signature, function
        self.buffer = signature.buffer
        self.reasons: list[RefusalError] = []

    def plan_all(self, bindings: Bindings) -> list[RefusalError]:
        """Plan every reference into ``bindings`` and the plan; return every reason against."""
        plan, function = self.plan, self.function
        sites = Sites(self.project, bindings, self.signature, self.snippets)
        own = {id(n) for n in ast.walk(function)}
        for reference in self.project.references(self.op):
            edited = len(sites.edited)
            try:
                sites.plan(reference)
                if len(sites.edited) > edited and id(reference.node) in own:
                    raise RefusalError(
                        reference.node, "the op calls itself with the buffer", "split it by hand"
                    )
            except RefusalError as refusal:
                snippet = self.snippets.get(reference.module.path)
                if snippet is None:
                    self.reasons.append(refusal)
                else:
                    line = getattr(refusal.node, "lineno", 1)
                    plan.notes.append(self.mention(snippet, line, refusal.reason))
            if reference.use is Use.STRING and reference.module.path not in self.snippets:
                plan.notes.append(self.string_note(reference.module, reference.node))
        plan.calls = len(sites.edited)
        for module, call in sites.unseen:
            plan.notes.append(self.unseen_note(module, call))
        self.check_untraced()
        self.note_unbound_mentions()
        return self.reasons

    def unseen_note(self, module: Module, call: ast.Call) -> Finding:
        """A test of the op with arguments out of sight."""
        return Finding(
            MENTION_CODE,
            MENTION_NAME,
            Severity.INFO,
            position(module, call),
            f"`{ast.unparse(call.func)}` tests `{self.op.qualname}` with arguments that are not in "
            f"sight here: they must leave out `{self.buffer}` now",
            self.op.qualname,
            f"test `{self.op.qualname}_out` by itself",
        )

    def check_untraced(self) -> None:
        """Look for calls that pass the buffer to something of the op's name, out of sight."""
        self.check_unreadable()
        known = {id(r.call) for r in self.project.references(self.op) if r.call is not None}
        for module in self.project.modules:
            if module.path in self.snippets:
                continue
            for call in (n for n in module.parents if isinstance(n, ast.Call)):
                func = call.func
                if not isinstance(func, ast.Attribute) or id(call) in known:
                    continue
                if func.attr != self.function.name or not _passes(call, self.signature):
                    continue
                owner = self.project.resolve(module, func.value)
                sure = owner.certain
                if sure is not None and sure.is_module:
                    self.reasons.append(
                        RefusalError(
                            call,
                            f"`{ast.unparse(func)}` is not in sight, may be the op, and is given "
                            f"`{self.buffer}`",
                            "import the op from the module that defines it",
                            module,
                        )
                    )
                elif not owner.complete:
                    self.plan.notes.append(
                        Finding(
                            MENTION_CODE,
                            MENTION_NAME,
                            Severity.WARNING,
                            position(module, call),
                            f"this may call `{self.op.qualname}` with its old buffer, and was left "
                            f"as it is: what `{ast.unparse(func.value)}` is cannot be told",
                            self.op.qualname,
                            f"call the out= op here, if `{self.op.qualname}` is meant",
                        )
                    )

    def check_unreadable(self) -> None:
        """An op that a file out of sight seems to call stays as it is."""
        names = "|".join(re.escape(n) for n in {self.function.name, self.op.name} - {"_"})
        call = re.compile(rf"\b({names})\s*\(".encode())
        for problem in self.project.problems:
            if call.search(read_bytes(problem.path) or b""):
                where = Position(problem.path, problem.line, problem.column)
                reason = "this file cannot be read, and seems to call the op"
                self.reasons.append(RefusalError(None, reason, "mend or exclude the file", where))

    def note_unbound_mentions(self) -> None:
        """Note calls in prose that name the op without saying where the name comes from."""
        for path, snippet in sorted(self.snippets.items()):
            module = self.project.module_for(path)
            if module is None:
                continue
            for node in ast.walk(module.tree):
                match node:
                    case ast.Call(func=ast.Name(id=name) as func) if name == self.function.name:
                        if name in self.project.bindings_in_scope(module, func):
                            continue
                    case ast.Call(func=ast.Attribute(attr=name, value=owner)):
                        if name != self.function.name or self.project.op_of(module, node.func):
                            continue
                        if self.project.resolve(module, owner).complete:
                            continue
                    case _:
                        continue
                try:
                    passed = buffer_argument(node, self.signature) is not None
                except RefusalError:
                    passed = True
                if passed:
                    reason = f"`{name}` is not imported in the example"
                    self.plan.notes.append(self.mention(snippet, node.lineno, reason))

    def mention(self, snippet: Snippet, line: int, reason: str) -> Finding:
        """A place in prose that a person should look at."""
        return Finding(
            MENTION_CODE,
            MENTION_NAME,
            Severity.INFO,
            Position(snippet.host, snippet.line_in_host(line)),
            f"this example may call `{self.op.qualname}` with its old buffer, and was left as it "
            f"is: {reason}",
            self.op.qualname,
            f"call the out= op there, if `{self.op.qualname}` is meant",
        )

    def string_note(self, module: Module, node: ast.AST) -> Finding:
        """A mention of the op in a string may concern the new op too."""
        return Finding(
            MENTION_CODE,
            MENTION_NAME,
            Severity.INFO,
            position(module, node),
            f"this string names `{self.op.qualname}`, which no longer takes `{self.buffer}`",
            self.op.qualname,
            f"see whether `{self.op.qualname}_out` is meant as well",
        )


def _passes(call: ast.Call, signature: Signature) -> bool:
    """Whether a call may pass the buffer, as far as its arguments show."""
    try:
        return buffer_argument(call, signature) is not None
    except RefusalError:
        return any(k.arg == signature.buffer for k in call.keywords)
