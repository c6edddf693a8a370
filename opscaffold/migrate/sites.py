"""What each reference to a split op becomes: an edit, nothing, or a reason to leave the op."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.calls import Signature, buffer_argument, plan_call
from opscaffold.migrate.documents import Snippet
from opscaffold.migrate.edits import CallForm
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.void_calls import VoidCalls
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module, Reference, Use
from opscaffold.source.project import Project

# Attributes of an op object that say something about the op or set it up.
_HARMLESS_ATTRIBUTES = frozenset(
    {"_schema", "_name", "_qualname", "_namespace", "_lib", "_opname", "__doc__", "__name__"}
    | {"__module__", "__qualname__", "tags", "set_kernel_enabled", "overloads", "_tags"}
)
# Functions that take an op and the arguments to call it with.
_TESTERS = {
    "torch.library.opcheck": ("args", "kwargs"),
    "torch.testing._internal.optests.opcheck": ("args", "kwargs"),
    "torch.autograd.gradcheck": ("inputs", ""),
    "torch.autograd.gradgradcheck": ("inputs", ""),
}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Module)

Snippets = Mapping[Path, Snippet]


class Sites:
    """Plans the references to one op."""

    old = "with the buffer"
    """How a call that would have to change is made."""

    def __init__(
        self, project: Project, bindings: Bindings, signature: Signature, snippets: Snippets
    ) -> None:
        self.project = project
        self.bindings = bindings
        self.signature = signature
        self.snippets = snippets
        self.voids = VoidCalls(project, bindings.syntaxes)
        self.edited: list[ast.AST] = []
        self.unseen: list[tuple[Module, ast.Call]] = []

    def plan(self, reference: Reference) -> None:
        """Plan one reference. Raises RefusalError where it cannot be kept right."""
        try:
            self._plan(reference)
        except RefusalError as refusal:
            refusal.where = refusal.where or reference.module
            refusal.node = refusal.node or reference.node
            raise

    def _plan(self, reference: Reference) -> None:
        match reference.use:
            case Use.CALL if reference.call is not None:
                self._call(reference, reference.call)
            case Use.IMPORT:
                if self._is_public(reference):
                    self.bindings.reexport(reference)
            case Use.EXPORT:
                self.bindings.export(reference)
            case Use.REGISTRATION | Use.STRING:
                return
            case _:
                self._value(reference)

    def _call(self, reference: Reference, call: ast.Call) -> None:
        argument = buffer_argument(call, self.signature)
        if argument is None:
            return
        edit = plan_call(
            self.project,
            reference.module,
            call,
            self.signature,
            lambda: self.bindings.expression(reference),
        )
        if edit is None:
            return
        module = reference.module
        key = self.bindings.syntaxes.of(module).key(call)
        if self.signature.into is not None and edit.form is not CallForm.FRESH:
            void = self.voids.plan(
                module,
                call,
                [argument],
                choice=edit.test_name or ast.unparse(argument)
                if edit.form is CallForm.EITHER
                else None,
                shown=is_shown(self.snippets, module, call),
            )
            if void is not None:
                self.bindings.edits_for(module).voids[key] = void
        self.bindings.edits_for(module).calls[key] = edit
        self.edited.append(call)

    def _is_public(self, reference: Reference) -> bool:
        """Whether an import is there for the users of its module."""
        alias = reference.node
        if reference.module.path.name == "__init__.py":
            return True
        return isinstance(alias, ast.alias) and alias.asname == alias.name

    def _value(self, reference: Reference) -> None:
        """A reference that is no plain call: it must not be able to pass the buffer on."""
        module, node = reference.module, reference.node
        if not isinstance(node, ast.expr):
            raise self._escape(reference)
        expr: ast.expr = node
        parent = module.parents[expr]
        while isinstance(parent, ast.Attribute) and parent.value is expr:
            if parent.attr in _HARMLESS_ATTRIBUTES:
                return
            if parent.attr != "_opoverload" and parent.attr != "default":
                raise self._escape(reference)
            expr, parent = parent, module.parents[parent]
        if isinstance(parent, ast.Call):
            if parent.func is expr:
                self._unsure_call(reference, parent)
                return
            if self._is_tested(module, parent, expr):
                return
        if reference.use is Use.VALUE and _is_harmless_value(module, parent, expr):
            return
        raise self._escape(reference)

    def _unsure_call(self, reference: Reference, call: ast.Call) -> None:
        """A call that may be one of this op: right as it is, if it passes no buffer."""
        if buffer_argument(call, self.signature) is not None:
            why = f": {reference.reason}" if reference.reason else ""
            raise RefusalError(
                call,
                f"this call may be one of the op, and passes `{self.signature.buffer}`{why}",
                "call the op by a name that is bound once, by an import or the definition",
            )

    def _is_tested(self, module: Module, call: ast.Call, expr: ast.expr) -> bool:
        """Whether this hands the op to opcheck or the like, with arguments that leave it right."""
        dotted = ProjectNames(self.project, module).dotted(call.func)
        fields = _TESTERS.get(dotted or "")
        if fields is None or not call.args or call.args[0] is not expr:
            return False
        given = _argument(call, 1, fields[0])
        args = self._literal(module, given)
        kwargs = self._literal(module, _argument(call, 2, fields[1])) if fields[1] else None
        passed = ast.Call(func=expr, args=[], keywords=[])
        ast.copy_location(passed, call)
        if isinstance(args, ast.Tuple | ast.List):
            passed.args = args.elts
        elif args is not None:
            passed.args = [args] if fields[0] == "inputs" else [ast.Starred(args)]
        if isinstance(kwargs, ast.Dict):
            for key, value in zip(kwargs.keys, kwargs.values, strict=True):
                name = key.value if isinstance(key, ast.Constant) else None
                keyword = ast.keyword(name if isinstance(name, str) else None, value)
                passed.keywords.append(ast.copy_location(keyword, value))
        elif kwargs is not None:
            passed.keywords = [ast.copy_location(ast.keyword(None, kwargs), kwargs)]
        self._test(module, call, passed, inline=args is given)
        return True

    def _test(self, module: Module, call: ast.Call, passed: ast.Call, *, inline: bool) -> None:
        """A test of the op that calls it as in ``passed``; ``inline``: with arguments it holds."""
        if any(isinstance(a, ast.Starred) for a in passed.args) or any(
            k.arg is None for k in passed.keywords
        ):
            # A test that handed over the buffer failed before: the op raised for returning it.
            self.unseen.append((module, call))
            return
        passes = buffer_argument(passed, self.signature)
        if isinstance(passes, ast.Constant) and passes.value is None and inline:
            dropped = self.bindings.syntaxes.of(module).key(passes)
            self.bindings.edits_for(module).elements.add(dropped)
            self.edited.append(call)
            return
        if passes is not None:
            raise RefusalError(
                call,
                f"`{ast.unparse(call.func)}` is given `{self.signature.buffer}` for the op",
                "test the functional op without it, and the out= op by itself",
            )

    def _escape(self, reference: Reference) -> RefusalError:
        why = f" ({reference.reason})" if reference.reason else ""
        return RefusalError(
            reference.node,
            f"the op is used here as a value{why}: whoever receives it may call it {self.old}",
            "call the op directly, or migrate this use by hand",
            reference.module,
        )

    def _literal(self, module: Module, expr: ast.expr | None) -> ast.expr | None:
        if isinstance(expr, ast.Name):
            target = self.project.resolve(module, expr).certain
            if target is not None and isinstance(target.node, ast.Tuple | ast.List | ast.Dict):
                return target.node
        return expr


def is_shown(snippets: Snippets, module: Module, call: ast.Call) -> bool:
    """Whether a call is a statement of a doctest that shows its value."""
    snippet = snippets.get(module.path)
    if snippet is None:
        return False
    statement = module.parents[call]
    top = isinstance(statement, ast.Expr) and module.parents[statement] is module.tree
    return top and snippet.is_shown(call.lineno)


def _argument(call: ast.Call, index: int, name: str) -> ast.expr | None:
    if index < len(call.args):
        return call.args[index]
    return next((k.value for k in call.keywords if k.arg == name), None)


def _is_harmless_value(module: Module, parent: ast.AST, expr: ast.expr) -> bool:
    match parent:
        case ast.Assign(targets=targets, value=value) if value is expr:
            # The uses of the new name are references of their own.
            owner = module.parents[parent]
            while not isinstance(owner, _SCOPES):
                owner = module.parents[owner]
            plain = all(isinstance(t, ast.Name) for t in targets)
            return plain and not isinstance(owner, ast.ClassDef)
        case ast.Compare(ops=ops):
            return all(isinstance(op, ast.Is | ast.IsNot) for op in ops)
        case ast.Expr():
            return True
    return False
