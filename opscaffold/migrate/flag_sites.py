"""What each use of an op becomes whose flag goes: a call of one of two ops, or a choice."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from opscaffold.findings.model import Finding, Severity
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.callers import MENTION_CODE, MENTION_NAME, Callers
from opscaffold.migrate.calls import Signature
from opscaffold.migrate.edits import CallEdit, CallForm, Template, VoidEdit
from opscaffold.migrate.evaluation import enclosing, refuse_reordering, written_order
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.sites import Sites, Snippets, is_shown
from opscaffold.rules.base import position
from opscaffold.source.model import Module, Op, Reference

_NO_PARENTHESES = (ast.Expr, ast.Assign, ast.Return, ast.keyword, ast.Call)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as callers see it.

    ``when`` is its value for which ``argument`` is written to and returned, ``default`` what it is
    where it is left out (None: it must be passed). ``void`` says that the new op returns nothing.
    """

    name: str
    argument: str
    when: bool
    default: bool | None
    void: bool


def argument_of(call: ast.Call, signature: Signature, name: str) -> ast.expr | None:
    """The argument that a call passes for a parameter, or None where it passes none.

    Raises RefusalError where star arguments may pass it, or the call does not fit.
    """
    known = {*signature.positional, *signature.keyword_only}
    keywords = {k.arg for k in call.keywords} - {None}
    if len(call.args) > len(signature.positional) or not keywords <= known:
        raise RefusalError(call, "a call does not fit the op's signature", "mend the call")
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    starred = [i for i, a in enumerate(call.args) if isinstance(a, ast.Starred)]
    slot = signature.positional.index(name) if name in signature.positional else len(call.args)
    if slot < len(call.args) and not any(i <= slot for i in starred):
        return call.args[slot]
    if starred or any(k.arg is None for k in call.keywords):
        raise RefusalError(
            call,
            f"a call with star arguments may pass `{name}` or not",
            "spell the arguments out",
        )
    return None


def constant_of(argument: ast.expr | None, flag: Flag) -> bool | None:
    """The value of a flag at a call, where it is written out; None where it is not known."""
    if argument is None:
        return flag.default
    if isinstance(argument, ast.Constant) and isinstance(argument.value, bool):
        return argument.value
    return None


class FlagSites(Sites):
    """Plans the references to one op."""

    def __init__(
        self, flag: Flag, bindings: Bindings, signature: Signature, snippets: Snippets
    ) -> None:
        super().__init__(bindings.project, bindings, signature, snippets)
        self.flag = flag
        self.old = f"with `{flag.name}`"
        self._tested: Reference | None = None

    def _call(self, reference: Reference, call: ast.Call) -> None:
        module, flag = reference.module, self.flag
        argument = argument_of(call, self.signature, flag.name)
        value = constant_of(argument, flag)
        if argument is None:
            if value is None:
                raise RefusalError(call, "a call does not fit the op's signature", "mend the call")
            if value is not flag.when:
                return
        edit = self._edit(reference, call, argument, value)
        if flag.void and edit.form is not CallForm.FRESH:
            void = self._void(module, call, edit)
            if void is not None:
                key = self.bindings.syntaxes.of(module).key(call)
                self.bindings.edits_for(module).voids[key] = void
        self.bindings.edits_for(module).calls[self.bindings.syntaxes.of(module).key(call)] = edit
        self.edited.append(call)

    def _edit(
        self, reference: Reference, call: ast.Call, argument: ast.expr | None, value: bool | None
    ) -> CallEdit:
        module, flag = reference.module, self.flag
        index = -1 if argument is None else written_order(call).index(argument)
        if value is not None and value is not flag.when:
            return CallEdit(CallForm.FRESH, index, flag.name)
        function = self.bindings.expression(reference)
        form = CallForm.GIVEN if value is not None else CallForm.EITHER
        edit = CallEdit(form, index, flag.name, function, flag=flag.when)
        if form is CallForm.GIVEN or argument is None:
            return edit
        _refuse_reordering(module, call, argument)
        parent = module.parents[call]
        return replace(
            edit,
            parenthesised=not isinstance(parent, _NO_PARENTHESES)
            or (isinstance(parent, ast.Call) and parent.func is call),
            column=call.col_offset,
            one_line=enclosing(module, call, (ast.JoinedStr,)) is not None,
        )

    def _void(self, module: Module, call: ast.Call, edit: CallEdit) -> VoidEdit | None:
        """What becomes of the value of a call whose op returns nothing in one case or in all."""
        shown = is_shown(self.snippets, module, call)
        if not self.voids.is_used(module, call, shown=shown):
            return None
        written = argument_of(call, self.signature, self.flag.argument)
        if written is None:
            raise RefusalError(call, "a call does not fit the op's signature", "mend the call")
        if edit.form is CallForm.GIVEN:
            return self.voids.plan(module, call, [written], shown=shown)
        bound = {n.target.id for n in ast.walk(call) if isinstance(n, ast.NamedExpr)}
        if not isinstance(written, ast.Name) or written.id in bound:
            raise RefusalError(
                call,
                f"`{self.flag.name}` is not known here, and the op returns nothing where it works "
                "in place",
                f"assign what is passed as `{self.flag.argument}` to a name first",
            )
        void = self.voids.plan(module, call, [written], choice=written.id, shown=shown)
        return None if void is None else replace(void, first=self.flag.when)

    def _unsure_call(self, reference: Reference, call: ast.Call) -> None:
        flag = self.flag
        passed = argument_of(call, self.signature, flag.name) is not None
        if passed or flag.default is flag.when:
            why = f": {reference.reason}" if reference.reason else ""
            how = f"passes `{flag.name}`" if passed else "works in place"
            raise RefusalError(
                call,
                f"this call may be one of the op, and {how}{why}",
                "call the op by a name that is bound once, by an import or the definition",
            )

    def _value(self, reference: Reference) -> None:
        self._tested = reference
        super()._value(reference)

    def _test(self, module: Module, call: ast.Call, passed: ast.Call, *, inline: bool) -> None:
        flag, reference = self.flag, self._tested
        try:
            argument = argument_of(passed, self.signature, flag.name)
        except RefusalError:
            # A test that worked in place failed before: the op raised for what it returned.
            self.unseen.append((module, call))
            return
        value = constant_of(argument, flag)
        if argument is None and value is not flag.when:
            return
        by_place = inline and argument in passed.args
        if value is None or reference is None or (argument is not None and not by_place):
            raise RefusalError(
                call,
                f"`{ast.unparse(call.func)}` is given `{flag.name}` for the op",
                "test the functional op and the in-place op by themselves, without it",
            )
        syntax, edits = self.bindings.syntaxes.of(module), self.bindings.edits_for(module)
        if value is flag.when:
            text = self.bindings.expression(reference)
            edits.expressions[syntax.key(passed.func)] = Template(text)
        if argument is not None:
            edits.elements.add(syntax.key(argument))
        self.edited.append(call)


def _refuse_reordering(module: Module, call: ast.Call, argument: ast.expr) -> None:
    try:
        refuse_reordering(module, call, argument)
    except RefusalError as refusal:
        raise RefusalError(
            refusal.node,
            f"what `{ast.unparse(argument)}` is is not known here, and testing it first would "
            "change the order of evaluation",
            refusal.remedy,
        ) from None


class FlagCallers(Callers):
    """Plans the callers of an op that loses a flag."""

    def __init__(
        self,
        context: Context,
        op: Op,
        signature: Signature,
        function: ast.FunctionDef,
        plan: OpPlan,
        flag: Flag,
        twins: tuple[ast.FunctionDef, ...] = (),
    ) -> None:
        super().__init__(context, op, signature, function, plan, twins)
        self.flag = flag
        self.old = f"with `{flag.name}`" if flag.default is not flag.when else "to work in place"
        self.remedy = f"call `{op.qualname}` or `{op.qualname}_` there, if it is meant"

    def sites(self, bindings: Bindings) -> Sites:
        """What plans each reference."""
        return FlagSites(self.flag, bindings, self.signature, self.snippets)

    def matters(self, module: Module, call: ast.Call) -> bool:
        """Whether a call would have to change, were it one of the op."""
        del module
        try:
            passed = argument_of(call, self.signature, self.flag.name)
        except RefusalError:
            return False
        return passed is not None or self.flag.default is self.flag.when

    def may_matter(self, module: Module, call: ast.Call) -> bool:
        """The same, where it is also true if that cannot be told."""
        try:
            argument_of(call, self.signature, self.flag.name)
        except RefusalError:
            return True
        return self.matters(module, call)

    def unseen_note(self, module: Module, call: ast.Call) -> Finding:
        """A test of the op with arguments out of sight."""
        return self._note(
            module,
            call,
            f"`{ast.unparse(call.func)}` tests `{self.op.qualname}` with arguments that are not in "
            f"sight here: they must leave out `{self.flag.name}` now",
            f"test `{self.op.qualname}_` by itself",
        )

    def string_note(self, module: Module, node: ast.AST) -> Finding:
        """A mention of the op in a string may concern the new op too."""
        return self._note(
            module,
            node,
            f"this string names `{self.op.qualname}`, which no longer takes `{self.flag.name}`",
            f"see whether `{self.op.qualname}_` is meant as well",
        )

    def _note(self, module: Module, node: ast.AST, message: str, remedy: str) -> Finding:
        return Finding(
            MENTION_CODE,
            MENTION_NAME,
            Severity.INFO,
            position(module, node),
            message,
            self.op.qualname,
            remedy,
        )
