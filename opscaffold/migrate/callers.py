"""Every place that uses an op whose buffer goes: what each becomes, and what is left to say."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.calls import Signature, buffer_argument
from opscaffold.migrate.documents import Snippet
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.named_calls import calls_named
from opscaffold.migrate.passed_none import look_for_callers
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.sites import Sites
from opscaffold.rules.base import position
from opscaffold.rules.notices import MENTION
from opscaffold.source.files import read_bytes
from opscaffold.source.model import Module, Op, Reference, Use

MENTION_CODE, MENTION_NAME = MENTION.code, MENTION.name


class Callers:
    """Plans the callers of one op. ``function`` is the op as its own module names it."""

    old = "with its old buffer"
    remedy = "call the out= op there, if `{op}` is meant"

    def __init__(
        self,
        context: Context,
        op: Op,
        signature: Signature,
        function: ast.FunctionDef,
        plan: OpPlan,
        twins: Sequence[ast.FunctionDef] = (),
    ) -> None:
        self.twins = frozenset(twins)
        self.project, self.snippets = context.project, context.snippets
        self.op, self.plan = op, plan
        self.signature, self.function = signature, function
        self.buffer = signature.buffer
        self.reasons: list[RefusalError] = []

    def plan_all(self, bindings: Bindings) -> list[RefusalError]:
        """Plan every reference into ``bindings`` and the plan; return every reason against."""
        plan, function = self.plan, self.function
        sites = self.sites(bindings)
        own = {id(n) for n in ast.walk(function)}
        references = self.project.references(self.op)
        look_for_callers(self.project, _functions_around(references))
        for found in references:
            reference = self.settled(found)
            edited = len(sites.edited)
            snippet = self.snippets.get(reference.module.path)
            before = {} if snippet is None else _copied(bindings.edits)
            try:
                sites.plan(reference)
                if len(sites.edited) > edited and id(reference.node) in own:
                    raise RefusalError(
                        reference.node, "the op calls itself with the buffer", "split it by hand"
                    )
            except RefusalError as refusal:
                if snippet is None:
                    self.reasons.append(refusal)
                else:
                    # An example that is left as it is needs no import either.
                    bindings.edits = before
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

    def settled(self, reference: Reference) -> Reference:
        """A reference as a sure one, where all that its name may mean is split alike."""
        node = reference.node
        if not self.twins or reference.use is not Use.UNCERTAIN or isinstance(node, ast.alias):
            return reference
        targets = {t.node for t in self.project.resolve(reference.module, node).targets}
        if not targets or not targets <= {self.function, *self.twins}:
            return reference
        parent = reference.module.parents.get(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        call = parent if called and isinstance(parent, ast.Call) else None
        use = Use.CALL if called else Use.VALUE
        return replace(reference, use=use, call=call, reason="")

    def sites(self, bindings: Bindings) -> Sites:
        """What plans each reference."""
        return Sites(self.project, bindings, self.signature, self.snippets)

    def matters(self, module: Module, call: ast.Call) -> bool:
        """Whether a call would have to change, were it one of the op."""
        del module
        return _passes(call, self.signature)

    def may_matter(self, module: Module, call: ast.Call) -> bool:
        """The same, where it is also true if that cannot be told."""
        del module
        try:
            return buffer_argument(call, self.signature) is not None
        except RefusalError:
            return True

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
            for call in calls_named(module, self.function.name):
                func = call.func
                if not isinstance(func, ast.Attribute) or id(call) in known:
                    continue
                if not self.matters(module, call):
                    continue
                owner = self.project.resolve(module, func.value)
                sure = owner.certain
                if sure is not None and sure.is_module:
                    self.reasons.append(
                        RefusalError(
                            call,
                            f"`{ast.unparse(func)}` is not in sight, may be the op, and is called "
                            f"{self.old}",
                            "import the op from the module that defines it",
                            module,
                        )
                    )
                elif not owner.complete or _imports(func.value):
                    self.plan.notes.append(
                        Finding(
                            MENTION_CODE,
                            MENTION_NAME,
                            Severity.WARNING,
                            position(module, call),
                            f"this may call `{self.op.qualname}` {self.old}, and was left as it "
                            f"is: what `{ast.unparse(func.value)}` is cannot be told",
                            self.op.qualname,
                            self.remedy.format(op=self.op.qualname),
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
                if self.may_matter(module, node):
                    reason = f"`{name}` is not imported in the example"
                    self.plan.notes.append(self.mention(snippet, node.lineno, reason))

    def mention(self, snippet: Snippet, line: int, reason: str) -> Finding:
        """A place in prose that a person should look at."""
        return Finding(
            MENTION_CODE,
            MENTION_NAME,
            Severity.INFO,
            Position(snippet.host, snippet.line_in_host(line)),
            f"this example may call `{self.op.qualname}` {self.old}, and was left as it is: "
            f"{reason}",
            self.op.qualname,
            self.remedy.format(op=self.op.qualname),
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


def _functions_around(references: Sequence[Reference]) -> set[str]:
    """The names of the functions that the calls among references stand in."""
    found: set[str] = set()
    for reference in references:
        parents = reference.module.parents
        node = reference.call and parents.get(reference.call)
        while node is not None:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            node = parents.get(node)
    return found


def _copied(edits: Mapping[Path, FileEdits]) -> dict[Path, FileEdits]:
    """Edits that stay what they are when more is planned."""
    result: dict[Path, FileEdits] = {}
    for path, planned in edits.items():
        result.setdefault(path, FileEdits()).update(planned)
    return result


def _imports(expr: ast.expr) -> bool:
    """Whether this imports a module by calling ``__import__``."""
    match expr:
        case ast.Call(func=ast.Name(id="__import__")):
            return True
        case ast.Attribute(value=value):
            return _imports(value)
    return False


def _passes(call: ast.Call, signature: Signature) -> bool:
    """Whether a call may pass the buffer, as far as its arguments show."""
    try:
        return buffer_argument(call, signature) is not None
    except RefusalError:
        return any(k.arg == signature.buffer for k in call.keywords)
