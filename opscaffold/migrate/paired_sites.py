"""The callers of an op that loses several buffers, which are given together or not at all."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.callers import Callers
from opscaffold.migrate.calls import Signature, buffer_argument, nullness
from opscaffold.migrate.edits import CallEdit, CallForm
from opscaffold.migrate.evaluation import written_order
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.sites import Sites, Snippets, is_shown
from opscaffold.rules.paired import listed
from opscaffold.source.model import Module, Op, Reference


def buffers_of_call(
    call: ast.Call, signature: Signature, buffers: Sequence[str]
) -> dict[str, ast.expr]:
    """The arguments that a call passes as buffers. Raises RefusalError as ``buffer_argument``."""
    found = {b: buffer_argument(call, replace(signature, buffer=b)) for b in buffers}
    return {b: argument for b, argument in found.items() if argument is not None}


class PairedSites(Sites):
    """Plans the references to one op."""

    def __init__(
        self,
        buffers: tuple[str, ...],
        bindings: Bindings,
        signature: Signature,
        snippets: Snippets,
    ) -> None:
        super().__init__(bindings.project, bindings, signature, snippets)
        self.buffers = buffers
        self.old = f"with {listed(buffers)}"

    def _call(self, reference: Reference, call: ast.Call) -> None:
        module = reference.module
        passed = buffers_of_call(call, self.signature, self.buffers)
        if not passed:
            return
        edit = self._edit(reference, call, passed)
        key = self.bindings.syntaxes.of(module).key(call)
        if self.signature.into is not None and edit.form is CallForm.GIVEN:
            values = [passed[buffer] for buffer in self.buffers]
            shown = is_shown(self.snippets, module, call)
            void = self.voids.plan(module, call, values, many=True, shown=shown)
            if void is not None:
                self.bindings.edits_for(module).voids[key] = void
        self.bindings.edits_for(module).calls[key] = edit
        self.edited.append(call)

    def _edit(self, reference: Reference, call: ast.Call, passed: dict[str, ast.expr]) -> CallEdit:
        module, order = reference.module, written_order(call)
        nulls = {
            b: nullness(self.project, module, call, passed[b]) if b in passed else True
            for b in self.buffers
        }
        indexes = [order.index(argument) for argument in passed.values()]
        if all(null is True for null in nulls.values()):
            for argument in passed.values():
                if not isinstance(argument, ast.Constant | ast.Name):
                    raise RefusalError(
                        call,
                        f"`{ast.unparse(argument)}` is None here, but evaluating it may matter",
                        "leave the argument out",
                    )
            return CallEdit(CallForm.FRESH, indexes[0], self.buffers[0], more=tuple(indexes[1:]))
        if all(null is False for null in nulls.values()):
            function = self.bindings.expression(reference)
            at = order.index(passed[self.buffers[0]])
            places = ((at, self._keywords(call)),)
            return CallEdit(CallForm.GIVEN, at, self.buffers[0], function, places=places)
        unknown = tuple(b for b, null in nulls.items() if null is None)
        if unknown:
            are = "is" if len(unknown) == 1 else "are"
            raise RefusalError(
                call,
                f"whether {listed(unknown)} {are} None is not known here",
                f"test that in an `if`, and call the op with all of {listed(self.buffers)} in one "
                "branch and with none in the other",
            )
        absent = tuple(b for b, null in nulls.items() if null)
        raise RefusalError(
            call,
            f"this call gives some buffers but not {listed(absent)}, and so it raises",
            f"pass all of {listed(self.buffers)}, or none",
        )

    def _keywords(self, call: ast.Call) -> tuple[str, ...]:
        """The name by which each argument is passed to the new op; empty: by position."""
        taken = [p for p in self.signature.positional if p not in self.buffers]
        into = self.signature.into
        if into is not None:
            taken = [*taken[:into], *self.buffers, *taken[into:]]
        names = dict(zip(call.args, self.signature.positional, strict=False))
        names |= {k.value: k.arg or "" for k in call.keywords}
        by_name, written = False, []
        for place, value in enumerate(written_order(call)):
            own = names[value]
            by_place = value in call.args and taken[place : place + 1] == [own]
            by_name = by_name or not by_place
            written.append(own if by_name else "")
        return tuple(written)

    def _unsure_call(self, reference: Reference, call: ast.Call) -> None:
        passed = buffers_of_call(call, self.signature, self.buffers)
        if passed:
            why = f": {reference.reason}" if reference.reason else ""
            raise RefusalError(
                call,
                f"this call may be one of the op, and passes {listed(tuple(passed))}{why}",
                "call the op by a name that is bound once, by an import or the definition",
            )

    def _test(self, module: Module, call: ast.Call, passed: ast.Call, *, inline: bool) -> None:
        del inline
        try:
            given = buffers_of_call(passed, self.signature, self.buffers)
        except RefusalError:
            # A test that handed over the buffers failed before: the op raised for returning them.
            self.unseen.append((module, call))
            return
        if given:
            raise RefusalError(
                call,
                f"`{ast.unparse(call.func)}` is given {listed(tuple(given))} for the op",
                "test the functional op without them, and the out= op by itself",
            )


class PairedCallers(Callers):
    """Plans the callers of an op that loses several buffers."""

    def __init__(
        self,
        context: Context,
        op: Op,
        signature: Signature,
        function: ast.FunctionDef,
        plan: OpPlan,
        buffers: tuple[str, ...],
        twins: Sequence[ast.FunctionDef] = (),
    ) -> None:
        super().__init__(context, op, signature, function, plan, twins)
        self.buffers = buffers
        self.buffer = "` and `".join(buffers)
        self.old = "with its old buffers"

    def sites(self, bindings: Bindings) -> Sites:
        """What plans each reference."""
        return PairedSites(self.buffers, bindings, self.signature, self.snippets)

    def matters(self, module: Module, call: ast.Call) -> bool:
        """Whether a call would have to change, were it one of the op."""
        del module
        try:
            return bool(buffers_of_call(call, self.signature, self.buffers))
        except RefusalError:
            return any(k.arg in self.buffers for k in call.keywords)

    def may_matter(self, module: Module, call: ast.Call) -> bool:
        """The same, where it is also true if that cannot be told."""
        del module
        try:
            return bool(buffers_of_call(call, self.signature, self.buffers))
        except RefusalError:
            return True
