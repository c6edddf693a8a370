"""The autograd formula of a split op: it stays on the functional half, without the buffer.

``setup_context`` is handed one input fewer, ``backward`` returns one gradient fewer, and the
indices of ``ctx.needs_input_grad`` behind the buffer move (FACTS section 3).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from opscaffold.migrate.attached_change import AnyFunction, FunctionChange
from opscaffold.migrate.attached_functions import Functions
from opscaffold.migrate.attached_gradients import Gradients
from opscaffold.migrate.attached_slots import Slots, refuse_hidden_names, uses_of
from opscaffold.migrate.bindings import Syntaxes
from opscaffold.migrate.calls import Signature
from opscaffold.migrate.refusal import RefusalError
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module, Registration
from opscaffold.source.project import Project

_INPUTS, _KEYWORDS = "inputs", "keyword_only_inputs"
_NEEDS = "needs_input_grad"


@dataclass(frozen=True, slots=True)
class AutogradEditor:
    """Takes the buffer out of the autograd formulas of one op.

    ``trailing`` says that the buffer is the last positional argument and has a default: PyTorch
    leaves it out of what it hands to a formula, unless it fills in defaults.
    """

    project: Project
    syntaxes: Syntaxes
    functions: Functions
    signature: Signature
    trailing: bool

    def edit(self, registration: Registration) -> list[tuple[Module, FunctionChange]]:
        """Plan one registration. Raises RefusalError where what it means cannot be kept."""
        call = registration.call
        if call is not None and (
            any(isinstance(a, ast.Starred) for a in call.args)
            or any(k.arg is None for k in call.keywords)
        ):
            raise self.functions.refusal(registration, "it is registered with star arguments")
        given = registration.arguments
        changes = []
        home, backward = self.functions.given(
            registration, given.get("backward"), "backward formula"
        )
        change = FunctionChange(self.syntaxes.of(home), backward)
        self._backward(home, backward, change)
        changes.append((home, change))
        setup = given.get("setup_context")
        if setup is not None and not (isinstance(setup, ast.Constant) and setup.value is None):
            home, function = self.functions.given(registration, setup, "setup_context")
            change = FunctionChange(self.syntaxes.of(home), function)
            self._setup(home, function, change)
            changes.append((home, change))
        return changes

    def _backward(self, module: Module, function: AnyFunction, change: FunctionChange) -> None:
        slot = self.signature.slot
        if slot is None:
            return
        names = ProjectNames(self.project, module)
        self._needs(module, function, change, slot)
        Gradients(module, names, function, change, self.signature.buffer, slot).drop()

    def _setup(self, module: Module, function: AnyFunction, change: FunctionChange) -> None:
        spec = function.args
        declared = [a.arg for a in (*spec.args, *spec.kwonlyargs)]
        if spec.posonlyargs or spec.vararg or spec.kwarg or _INPUTS not in declared:
            raise RefusalError(
                function,
                "its setup_context does not take `ctx, inputs, output` by these names",
                "name its parameters as PyTorch passes them",
                module,
            )
        slot = self.signature.slot
        if slot is None:
            self._keyword_only(module, function, change, declared)
            return
        count = len(self.signature.positional)
        self._needs(module, function, change, slot)
        slots = Slots(module, function, change, _INPUTS, self.signature.buffer, slot, filled=True)
        slots.drop_from_name(_INPUTS, count)
        change.drop_annotation_slot(_INPUTS, count, slot)

    def _keyword_only(
        self, module: Module, function: AnyFunction, change: FunctionChange, declared: list[str]
    ) -> None:
        """A keyword-only buffer stands in ``keyword_only_inputs``, by its name."""
        if _KEYWORDS not in declared:
            return
        buffer = self.signature.buffer
        others = [name for name in self.signature.keyword_only if name != buffer]
        slots = Slots(module, function, change, _KEYWORDS, buffer, 0, filled=True)
        refuse_hidden_names(module, function, {_KEYWORDS})
        kept = False
        for node in uses_of(function, _KEYWORDS):
            expr, key = _entry(module, node)
            if key == buffer and expr is not None:
                slots.take_buffer(expr)
            elif key in others:
                kept = True
            else:
                raise RefusalError(
                    node,
                    f"`{_KEYWORDS}` has an entry for `{buffer}`, and what this use of it becomes "
                    "without that entry cannot be told",
                    f"read single entries of `{_KEYWORDS}`, by name",
                    module,
                )
        if not others and not kept:
            # PyTorch passes it only to ops that have keyword-only arguments.
            change.drop_parameter(_KEYWORDS)

    def _needs(
        self, module: Module, function: AnyFunction, change: FunctionChange, slot: int
    ) -> None:
        """Move the indices of ``ctx.needs_input_grad`` behind the buffer."""
        spec = function.args
        named = [*spec.posonlyargs, *spec.args]
        if not named:
            raise RefusalError(
                function, "it does not take `ctx` as its first parameter", "name it", module
            )
        ctx = named[0].arg
        refuse_hidden_names(module, function, {ctx})
        count = len(self.signature.positional)
        slots = Slots(
            module,
            function,
            change,
            f"{ctx}.{_NEEDS}",
            self.signature.buffer,
            slot,
            filled=False,
            absent=self.trailing,
            whole=frozenset({"any"}),
        )
        for node in uses_of(function, ctx):
            parent = module.parents[node]
            if not isinstance(parent, ast.Attribute) or parent.value is not node:
                if self.trailing:
                    continue
                raise RefusalError(
                    node,
                    f"`{ctx}` is handed on, and its `{_NEEDS}` changes behind "
                    f"`{self.signature.buffer}`",
                    f"pass on what is needed of `{ctx}`",
                    module,
                )
            if parent.attr == _NEEDS:
                slots.drop_from(parent, list(range(count)))


def _entry(module: Module, node: ast.Name) -> tuple[ast.expr | None, object]:
    """The expression that reads one entry of a dictionary, and the key it reads."""
    match module.parents[node]:
        case ast.Subscript(slice=ast.Constant(value=key), ctx=ast.Load()) as read:
            return read, key
        case ast.Attribute(attr="get" | "pop") as method:
            call = module.parents[method]
            match call:
                case ast.Call(args=[ast.Constant(value=key), *_], keywords=[]) if (
                    call.func is method
                ):
                    return call, key
    return None, None
