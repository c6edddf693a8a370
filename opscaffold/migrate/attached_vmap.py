"""Rules for vmap and for torch_dispatch of a split op: they stay on the functional half.

A vmap rule takes ``(info, in_dims, *args, **kwargs)``, a torch_dispatch rule ``(mode or class,
func, types, args, kwargs)`` (FACTS section 4, torch.library reference). An out= op can have
neither: vmap does not work on it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from opscaffold.effects.buffers import Argument, use_of_buffer
from opscaffold.effects.values import ANYTHING, Value
from opscaffold.migrate.attached_change import AnyFunction, FunctionChange
from opscaffold.migrate.attached_functions import Functions
from opscaffold.migrate.attached_slots import Slots, refuse_hidden_names
from opscaffold.migrate.bindings import Syntaxes
from opscaffold.migrate.calls import Signature
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.split import refuse_lost_effects, specialiser
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module, Registration
from opscaffold.source.project import Project


@dataclass(frozen=True, slots=True)
class RuleEditor:
    """Takes the buffer out of the vmap and torch_dispatch rules of one op.

    ``trailing`` says that the buffer is the last positional argument and has a default, so that
    PyTorch leaves it out of what it hands to a rule. ``own_calls`` are the ids of the nodes of
    calls of the op: where a rule hands on its buffer, that is no use of its own.
    """

    project: Project
    syntaxes: Syntaxes
    functions: Functions
    signature: Signature
    arguments: list[Argument]
    trailing: bool
    own_calls: frozenset[int]

    def edit_vmap(self, registration: Registration) -> tuple[Module, FunctionChange, str | None]:
        """Plan a vmap rule; also gives the rule's own name for the buffer, if it has one.

        Raises RefusalError where the rule needs the buffer.
        """
        module, function = self.functions.given(
            registration, registration.arguments.get("func"), "vmap rule"
        )
        change = FunctionChange(self.syntaxes.of(module), function)
        spec = function.args
        named = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        if len(named) < 2 or spec.posonlyargs:
            raise self._unlike(module, function, "vmap rule", "(info, in_dims, *args, **kwargs)")
        in_dims, own = named[1], named[2:]
        positional, slot = self.signature.positional, self.signature.slot
        if slot is not None:
            Slots(
                module,
                function,
                change,
                in_dims,
                self.signature.buffer,
                slot,
                filled=False,
                absent=self.trailing,
            ).drop_from_name(in_dims, len(positional))
        buffer = self._own_name(module, function, own)
        if buffer is None:
            if spec.vararg is not None and slot is not None:
                self._starred(module, function, change, len(own), slot)
            return module, change, None
        self._omit(module, function, change, buffer, own)
        return module, change, buffer

    def edit_dispatch(self, registration: Registration) -> tuple[Module, FunctionChange]:
        """Plan a torch_dispatch rule. Raises RefusalError where it may use the buffer."""
        given = registration.arguments
        argument = given.get("fn", given.get("func"))
        module, function = self.functions.given(registration, argument, "torch_dispatch rule")
        change = FunctionChange(self.syntaxes.of(module), function)
        spec = function.args
        named = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        if len(named) != 5 or spec.vararg is not None:
            raise self._unlike(
                module, function, "torch_dispatch rule", "(mode, func, types, args, kwargs)"
            )
        func, args, kwargs = named[1], named[3], named[4]
        slot, buffer = self.signature.slot, self.signature.buffer
        if slot is not None:
            Slots(
                module, function, change, args, buffer, slot, filled=False, absent=self.trailing,
                starred=frozenset({func}),
            ).drop_from_name(args, len(self.signature.positional))  # fmt: skip
        for node in ast.walk(function):
            if isinstance(node, ast.Constant) and node.value == buffer:
                raise RefusalError(
                    node,
                    f"the torch_dispatch rule reads `{buffer}` from `{kwargs}`, which the "
                    "functional op does not take",
                    f"leave `{buffer}` out of the rule",
                    module,
                )
        return module, change

    def _own_name(self, module: Module, function: AnyFunction, own: list[str]) -> str | None:
        """The rule's own name for the buffer; None where it takes no such parameter."""
        slot, buffer = self.signature.slot, self.signature.buffer
        keyword_only = [a.arg for a in function.args.kwonlyargs]
        if slot is None:
            if function.args.kwarg is not None and buffer not in keyword_only:
                raise self._unlike(module, function, "vmap rule", "its own arguments")
            return buffer if buffer in keyword_only else None
        if slot < len(own):
            return own[slot]
        if buffer in keyword_only or (function.args.vararg is None and slot >= len(own)):
            if function.args.vararg is None and buffer not in keyword_only:
                return None
            raise self._unlike(module, function, "vmap rule", "(info, in_dims, *args, **kwargs)")
        return None

    def _starred(
        self, module: Module, function: AnyFunction, change: FunctionChange, own: int, slot: int
    ) -> None:
        star = function.args.vararg
        if star is None or slot < own:
            return
        slots = Slots(
            module,
            function,
            change,
            star.arg,
            self.signature.buffer,
            slot - own,
            filled=False,
            absent=self.trailing,
        )
        slots.drop_from_name(star.arg, len(self.signature.positional) - own)

    def _omit(
        self,
        module: Module,
        function: AnyFunction,
        change: FunctionChange,
        buffer: str,
        own: list[str],
    ) -> None:
        """Take out the parameter, and what the rule does where it is given."""
        refuse_hidden_names(module, function, {buffer})
        facts = {a.name: a for a in self.arguments}
        order = [facts[name] for name in self.signature.positional[: len(own)]]
        arguments = [
            Argument(name, a.tensor, a.optional, a.is_list)
            for name, a in zip(own, order, strict=False)
        ]
        known = {a.name for a in arguments}
        arguments += [facts[k.arg] for k in function.args.kwonlyargs if k.arg in facts]
        if buffer not in known | {a.name for a in arguments}:
            raise self._unlike(module, function, "vmap rule", "(info, in_dims, *args, **kwargs)")
        others = _plain_values(function)
        use = use_of_buffer(function, arguments, buffer, ProjectNames(self.project, module), others)
        written = [e for e in use.written if id(e.node) not in self.own_calls]
        if written:
            raise RefusalError(
                written[0].node,
                f"the vmap rule writes to `{buffer}`, and vmap does not work on an out= op",
                f"let the rule return a fresh tensor, without `{buffer}`",
                module,
            )
        for node, answers in use.omitted.nulls.items():
            if answers and answers not in ({True}, {False}):
                raise RefusalError(
                    node,
                    f"whether the vmap rule bound `{buffer}` before this is not known",
                    "use another name there",
                    module,
                )
        refuse_lost_effects(use, use.omitted, use.given)
        change.specialiser = specialiser(self.syntaxes.of(module), use.omitted, use.given)
        change.drop_parameter(buffer)

    def _unlike(
        self, module: Module, function: AnyFunction, what: str, expected: str
    ) -> RefusalError:
        return RefusalError(
            function,
            f"the {what} does not take {expected}, so where `{self.signature.buffer}` comes in "
            "cannot be told",
            "give it the parameters that PyTorch passes",
            module,
        )


def _plain_values(function: AnyFunction) -> dict[str, Value]:
    """What is known of the parameters that PyTorch adds: that they hold no tensor."""
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)][:2]
    names += [star.arg for star in (spec.vararg, spec.kwarg) if star is not None]
    return dict.fromkeys(names, ANYTHING)
