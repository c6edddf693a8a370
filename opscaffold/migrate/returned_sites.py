"""Every place that uses an op which returned its arguments, and returns nothing now."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from opscaffold.findings.model import Finding, Severity
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.callers import MENTION_CODE, MENTION_NAME, Callers
from opscaffold.migrate.calls import Signature, buffer_argument
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.sites import Sites, Snippets, is_shown
from opscaffold.rules.base import position
from opscaffold.rules.names import ProjectNames
from opscaffold.rules.returned_whole import Whole
from opscaffold.source.model import Module, Op, Reference, Use

_CALLED_FOR_NOTHING = frozenset(
    {"torch.library.opcheck", "torch.testing._internal.optests.opcheck"}
)


class ReturnedSites(Sites):
    """Plans the references to one op, by what they do with its value."""

    def __init__(
        self, whole: Whole, bindings: Bindings, signature: Signature, snippets: Snippets
    ) -> None:
        super().__init__(bindings.project, bindings, signature, snippets)
        self.whole = whole

    def _plan(self, reference: Reference) -> None:
        if reference.use not in (Use.IMPORT, Use.EXPORT):
            super()._plan(reference)

    def _call(self, reference: Reference, call: ast.Call) -> None:
        module = reference.module
        shown = is_shown(self.snippets, module, call)
        if not self.voids.is_used(module, call, shown=shown):
            return
        values = [_argument(call, self.signature, name) for name in self.whole.names]
        void = self.voids.plan(module, call, values, many=self.whole.many, shown=shown)
        if void is not None:
            key = self.bindings.syntaxes.of(module).key(call)
            self.bindings.edits_for(module).voids[key] = void
            self.edited.append(call)

    def _unsure_call(self, reference: Reference, call: ast.Call) -> None:
        if self.voids.is_used(reference.module, call):
            why = f": {reference.reason}" if reference.reason else ""
            raise RefusalError(
                call,
                f"this call may be one of the op, which returns nothing now, and uses its value"
                f"{why}",
                "call the op by a name that is bound once, by an import or the definition",
            )

    def _is_tested(self, module: Module, call: ast.Call, expr: ast.expr) -> bool:
        dotted = ProjectNames(self.project, module).dotted(call.func)
        return dotted in _CALLED_FOR_NOTHING and bool(call.args) and call.args[0] is expr


def _argument(call: ast.Call, signature: Signature, name: str) -> ast.expr:
    """The argument of a call for a parameter."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    place = signature.positional.index(name) if name in signature.positional else len(call.args)
    before = call.args[: place + 1]
    if place < len(call.args) and not any(isinstance(a, ast.Starred) for a in before):
        return call.args[place]
    raise RefusalError(
        call,
        f"the op returns nothing now, and which argument of this call is `{name}` cannot be told",
        "spell the arguments out",
    )


class ReturnedCallers(Callers):
    """Plans the callers of an op that returned ``whole``."""

    old = "for what it returned"
    remedy = "use the argument afterwards, if `{op}` is meant"

    def __init__(
        self,
        context: Context,
        op: Op,
        signature: Signature,
        function: ast.FunctionDef,
        plan: OpPlan,
        whole: Whole,
    ) -> None:
        super().__init__(context, op, signature, function, plan)
        self.whole = whole

    def sites(self, bindings: Bindings) -> Sites:
        """What plans each reference."""
        return ReturnedSites(self.whole, bindings, self.signature, self.snippets)

    def matters(self, module: Module, call: ast.Call) -> bool:
        """Whether a call would have to change, were it one of the op."""
        if isinstance(module.parents[call], ast.Expr):
            return False
        try:
            buffer_argument(call, self.signature)
        except RefusalError:
            return False
        given = {*self.signature.positional[: len(call.args)], *(k.arg for k in call.keywords)}
        return given.issuperset(self.whole.names)

    def may_matter(self, module: Module, call: ast.Call) -> bool:
        """The same, where it is also true if that cannot be told."""
        return not isinstance(module.parents[call], ast.Expr)

    def string_note(self, module: Module, node: ast.AST) -> Finding:
        """A mention of the op in a string may stand for a call of it."""
        return Finding(
            MENTION_CODE,
            MENTION_NAME,
            Severity.INFO,
            position(module, node),
            f"this string names `{self.op.qualname}`, which returns nothing now",
            self.op.qualname,
            "see whether what it returned is used by that name",
        )


def signature_of_call(positional: Sequence[str], keyword_only: Sequence[str]) -> Signature:
    """The parameters of an op none of which is a buffer that goes."""
    return Signature(tuple(positional), tuple(keyword_only), "")
