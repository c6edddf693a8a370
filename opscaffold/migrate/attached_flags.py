"""What is attached to an op that is split by a flag: it stays with the functional half."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import ClassVar

from opscaffold.effects.buffers import BufferUse
from opscaffold.effects.flags import FlagUse, use_of_flag
from opscaffold.migrate.attached_change import AnyFunction
from opscaffold.migrate.attached_kernels import KernelSplitter
from opscaffold.migrate.attached_plan import Attachments
from opscaffold.migrate.delegates import Decorate
from opscaffold.migrate.flag_halves import FlagFakeEditor, split_by_flag
from opscaffold.migrate.flag_sites import Flag
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.split import Cut, Halves
from opscaffold.migrate.syntax import Syntax
from opscaffold.rules.base import OpFacts
from opscaffold.rules.declared import mutated_by
from opscaffold.rules.fakes import fake_arguments
from opscaffold.rules.flags import obstacle_to_flag_split
from opscaffold.rules.functions import positional_names
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module, Registration, Role


def flag_use_in(
    facts: OpFacts, flag: Flag, module: Module, function: AnyFunction, *, stand_in: bool = False
) -> FlagUse:
    """How one more kernel, or what stands in for one, treats the flag of an op.

    Raises RefusalError where it is not split as the main kernel is.
    """
    spec = function.args
    arguments = fake_arguments(facts.project, facts.op, function)
    if spec.vararg or spec.kwarg or spec.posonlyargs or len(arguments) != len(facts.arguments):
        raise RefusalError(
            function,
            "this kernel does not take the parameters of the op",
            "give every kernel the op's parameters",
            module,
        )
    main = facts.kernel
    order = [] if main is None else positional_names(main)
    called = dict(zip(order, (a.name for a in arguments), strict=False))
    declared = frozenset(called.get(n, n) for n in mutated_by(facts) or ())
    own = called.get(flag.name, flag.name)
    use = None
    if any(a.name == own for a in arguments):
        names = ProjectNames(facts.project, module)
        use = use_of_flag(function, arguments, own, names, declared=declared, stand_in=stand_in)
    written = called.get(flag.argument, flag.argument)
    if use is None or use.when is not flag.when or use.argument != written:
        raise RefusalError(
            function,
            f"what `{own}` decides in this kernel is not what it decides in the others",
            f"let every kernel return `{written}` where `{own}` says so, and nowhere else",
            module,
        )
    obstacle = obstacle_to_flag_split(function, use, declared)
    if obstacle is not None:
        raise RefusalError(obstacle.node, obstacle.reason, obstacle.remedy, module)
    return use


@dataclass(frozen=True, slots=True)
class FlagKernelSplitter(KernelSplitter):
    """Splits the kernels that are attached to one op by a flag."""

    flag: Flag
    ending: ClassVar[str] = "_"

    def use_of(self, module: Module, function: AnyFunction) -> BufferUse:
        """How a kernel treats the flag. Raises RefusalError where that forbids a split."""
        if isinstance(function, ast.Lambda):
            raise RefusalError(function, "its kernel is a lambda", "write it as a function", module)
        return flag_use_in(self.facts, self.flag, module, function).as_buffer()

    def halve(
        self, syntax: Syntax, function: ast.FunctionDef, cut: Cut, decorate: Decorate
    ) -> Halves:
        """The parts of one kernel."""
        cut = Cut(cut.use, 0 if self.flag.void else None, cut.out_name, cut.kernel_name)
        written = self.flag.argument
        return split_by_flag(syntax, function, cut, decorate, when=self.flag.when, written=written)


class FlagAttachments(Attachments):
    """Plans what is attached to one op, after its callers are planned."""

    flag: Flag

    def splitter(self) -> KernelSplitter:
        """What splits the kernels."""
        return FlagKernelSplitter(
            self.context,
            self.facts,
            self.bindings,
            self.signature.buffer,
            0,
            self.bindings.qualname.removeprefix(self.op.qualname),
            self.edits_of,
            self.flag,
        )

    def plan_one(self, registration: Registration) -> None:
        """Plan one registration that is no kernel. Raises RefusalError."""
        name = self.flag.name
        match registration.role:
            case Role.IMPL:
                FlagFakeEditor(
                    self.context.project,
                    self.context.syntaxes,
                    self.facts.arguments,
                    name,
                    when=self.flag.when,
                ).edit(registration, self.edits)
            case Role.VMAP | Role.TORCH_DISPATCH:
                raise RefusalError(
                    registration.statement,
                    f"`{registration.role.value}` is attached to the op, and is handed `{name}`",
                    f"take `{name}` out of that rule and of the op by hand",
                    registration.module,
                )
            case Role.AUTOCAST:
                why = f"a cast copy of `{self.flag.argument}` would be written instead"
                self.note(registration, "autocast rule", why)
            case _:
                super().plan_one(registration)

    def note_calls_under_grad(self) -> None:
        """A call that worked in place raised before, under grad or not."""
