"""Kernels for single devices of a split op: each is split as the main one is.

The functional part stays registered where it was, its out part is registered for the new op in
the same way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import libcst as cst

from opscaffold.effects.buffers import BufferUse, use_of_buffer
from opscaffold.migrate.aliased import tensors_by_alias
from opscaffold.migrate.attached_change import AnyFunction, edits_inside
from opscaffold.migrate.attached_functions import Functions, curried_function, imports_of
from opscaffold.migrate.attached_slots import refuse_hidden_names
from opscaffold.migrate.attached_swaps import Renamer, Swaps, words_of
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.definition import others_of
from opscaffold.migrate.delegates import Decorate
from opscaffold.migrate.edits import FileEdits, ImportEdit
from opscaffold.migrate.plan import Context
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registering import renamed
from opscaffold.migrate.signature import with_keyword_out, without_parameter
from opscaffold.migrate.split import (
    Cut,
    Half,
    Halves,
    refuse_lost_effects,
    specialised,
    split,
)
from opscaffold.migrate.syntax import Syntax, SyntaxMismatchError
from opscaffold.rules.base import OpFacts
from opscaffold.rules.fakes import dispatch_key, fake_arguments
from opscaffold.rules.functions import positional_names
from opscaffold.rules.names import ProjectNames
from opscaffold.rules.outputs import obstacle_to_split
from opscaffold.source.model import Module, Op, Registration, Role

# Dispatch keys, and the types of device that torch.library.impl takes, that stand for a kernel.
_KEYS = frozenset(
    {"CPU", "CUDA", "HIP", "XPU", "MPS", "HPU", "XLA", "IPU", "VE", "MTIA", "MAIA", "Lazy"}
    | {"PrivateUse1", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"}
    | {"cpu", "cuda", "hip", "xpu", "mps", "hpu", "xla", "ipu", "ve", "mtia", "maia", "lazy"}
    | {"privateuseone", "default"}
)
_FUNCTIONS = ("fn", "func")


@dataclass(frozen=True, slots=True)
class KernelSplitter:
    """Splits the kernels that are attached to one op.

    ``index`` is the place of the buffer among the positional parameters of the mutable half, None
    for a keyword-only out=. ``suffix`` goes behind the op's name.
    """

    context: Context
    facts: OpFacts
    bindings: Bindings
    buffer: str
    index: int | None
    suffix: str
    edits_of: Callable[[Module], FileEdits]

    ending: ClassVar[str] = "_out"
    """What stands behind a kernel's name for its part that is not functional."""

    def halve(
        self, syntax: Syntax, function: ast.FunctionDef, cut: Cut, decorate: Decorate
    ) -> Halves:
        """The parts of one kernel."""
        return split(syntax, function, cut, decorate)

    @property
    def op(self) -> Op:
        """The op."""
        return self.facts.op

    def split_all(self, registrations: list[Registration]) -> list[RefusalError]:
        """Plan every kernel; return what stands against it."""
        groups: dict[int, list[Registration]] = {}
        for registration in registrations:
            key = id(registration.function) if registration.function else id(registration)
            groups.setdefault(key, []).append(registration)
        functions = Functions(self.context.project, registrations)
        found = [self._refusal(functions, group) for group in groups.values()]
        return [refusal for refusal in found if refusal is not None]

    def _refusal(self, functions: Functions, group: list[Registration]) -> RefusalError | None:
        """Plan one kernel; return what stands against it."""
        try:
            self._split(functions, group)
        except RefusalError as refusal:
            refusal.where = refusal.where or group[0].function_module or group[0].module
            refusal.node = refusal.node or group[0].statement
            return refusal
        return None

    def _split(self, functions: Functions, group: list[Registration]) -> None:
        for registration in group:
            self._check_key(registration)
        first = group[0]
        decorates = isinstance(first.statement, ast.FunctionDef)
        given = first.arguments
        argument = next((given[k] for k in _FUNCTIONS if k in given), None)
        if argument is None and not decorates:
            argument = curried_function(first)
        if argument is None and not decorates:
            raise functions.refusal(first, "its kernel is not in sight")
        module, function = functions.given(first, argument, "kernel")
        self._refuse_double_use(module, function, group)
        use = self.use_of(module, function)
        syntax = self.context.syntaxes.of(module)
        inside = self.bindings.edits.get(module.path, FileEdits())
        if edits_inside(inside, syntax.key(function)):
            raise RefusalError(
                function, "the kernel calls its own op with the buffer", "split it by hand", module
            )
        if isinstance(function, ast.Lambda):
            self._split_lambda(module, syntax, function, use, first)
        elif isinstance(function, ast.FunctionDef):
            self._split_function(module, syntax, function, use, group)

    def _check_key(self, registration: Registration) -> None:
        call = registration.call
        if call is not None and (
            any(isinstance(a, ast.Starred) for a in call.args)
            or any(k.arg is None for k in call.keywords)
        ):
            raise RefusalError(
                call, "it is registered with star arguments", "spell them out", registration.module
            )
        if registration.role is not Role.IMPL:
            return
        key = dispatch_key(registration)
        if key is None or not set(key.split()) <= _KEYS:
            raise RefusalError(
                registration.statement,
                f"the implementation for {key or 'a computed key'} is no kernel for a device, and "
                "which half it belongs to is not known",
                "register it for each half by hand",
                registration.module,
            )

    def _refuse_double_use(
        self, module: Module, function: AnyFunction, group: list[Registration]
    ) -> None:
        others = [r for r in (self.op.definition, *self.op.attached) if r not in group]
        for other in others:
            if other.function is function:
                raise RefusalError(
                    other.statement,
                    f"the kernel is registered here as `{other.role.value}` as well",
                    "register a function of its own",
                    other.module,
                )
        del module

    def use_of(self, module: Module, function: AnyFunction) -> BufferUse:
        """How a kernel treats the buffer. Raises RefusalError where that forbids a split."""
        spec = function.args
        if spec.vararg or spec.kwarg or spec.posonlyargs:
            raise RefusalError(
                function, "the kernel's parameters are not plain", "name every parameter", module
            )
        arguments = fake_arguments(self.context.project, self.op, function)
        order = [a.name for a in self.facts.arguments]
        if len(arguments) != len(order):
            raise RefusalError(
                function,
                "the kernel does not take the parameters of the op",
                "give every kernel the op's parameters",
                module,
            )
        main = self.facts.kernel
        positional = [] if main is None else positional_names(main)
        called = {op: a.name for op, a in zip(positional, arguments, strict=False)}
        own = called.get(self.buffer, self.buffer)
        mutated = others_of(self.facts, self.buffer)
        declared = frozenset(called.get(name, name) for name in mutated)
        names = ProjectNames(self.context.project, module)
        uses = {
            a.name: use_of_buffer(function, arguments, a.name, names)
            for a in arguments
            if a.tensor and (a.optional or a.name == own)
        }
        outputs = {n: u for n, u in uses.items() if n == own or (u.is_output and n not in declared)}
        use = uses.get(own)
        if use is None:
            raise RefusalError(
                function, f"the kernel takes no `{self.buffer}`", "give it one", module
            )
        obstacle = obstacle_to_split(function, use, outputs, declared)
        if obstacle is not None:
            raise RefusalError(obstacle.node, obstacle.reason, obstacle.remedy, module)
        return use

    def _split_function(
        self,
        module: Module,
        syntax: Syntax,
        function: ast.FunctionDef,
        use: BufferUse,
        group: list[Registration],
    ) -> None:
        plain = function.name
        if plain == "_":
            out_name, base = "_", self.op.name
        else:
            out_name, base = self._free_name(module, function, f"{plain}{self.ending}"), plain
        kernel_name = self._free_name(module, function, f"_{base.lstrip('_')}_kernel")
        words = tensors_by_alias(self.context.project, module, function)
        cut = Cut(use, self.index, out_name, kernel_name, words)
        decorators = [r for r in group if isinstance(r.statement, ast.FunctionDef)]
        statements = [r for r in group if r not in decorators]
        swaps = Swaps(syntax)
        for registration in decorators:
            self._swap_operand(registration, swaps)

        def decorate(
            node: cst.FunctionDef, half: cst.FunctionDef, which: Half | None
        ) -> cst.FunctionDef:
            if which is None:
                return half
            return half.with_changes(
                decorators=[cst.ensure_type(d.visit(swaps), cst.Decorator) for d in node.decorators]
            )

        halves = self.halve(syntax, function, cut, decorate)
        own = use.argument.name
        if self.index is None and own != self.buffer:
            halves = replace(halves, out=self._with_buffer_name(module, function, halves.out, own))
        for registration in statements:
            self._register_again(syntax, registration, out_name)
        self.edits_of(module).statements[syntax.key(function)] = halves.statements()

    def _with_buffer_name(
        self, module: Module, function: ast.FunctionDef, half: cst.FunctionDef, own: str
    ) -> cst.FunctionDef:
        """An out= half whose buffer is called as PyTorch passes it: by the name in the schema."""
        taken = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        taken |= {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
        if self.buffer in taken:
            raise RefusalError(
                function,
                f"the kernel calls `{self.buffer}` by the name `{own}`, and has another "
                f"`{self.buffer}` of its own",
                f"call the buffer `{self.buffer}` in the kernel",
                module,
            )
        refuse_hidden_names(module, function, {own})
        return cst.ensure_type(half.visit(Renamer(own, self.buffer)), cst.FunctionDef)

    def _split_lambda(
        self,
        module: Module,
        syntax: Syntax,
        function: ast.Lambda,
        use: BufferUse,
        registration: Registration,
    ) -> None:
        if self.index is not None or module is not registration.module:
            raise RefusalError(function, "its kernel is a lambda", "write it as a function", module)
        own = use.argument.name
        node = syntax.find(function, cst.Lambda)
        refuse_lost_effects(use, use.omitted, use.given)
        refuse_lost_effects(use, use.given, use.omitted)
        fresh = node.with_changes(
            body=specialised(syntax, node.body, use.omitted, use.given),
            params=without_parameter(node.params, own),
        )
        given = node.with_changes(
            body=specialised(syntax, node.body, use.given, use.omitted),
            params=with_keyword_out(node.params, own),
        )
        if own in words_of(fresh.body):
            raise RefusalError(
                function, f"its kernel needs `{own}`", "write it as a function", module
            )
        self._register_again(syntax, registration, given, node)
        self.edits_of(module).lambdas[syntax.key(function)] = fresh

    def _register_again(
        self,
        syntax: Syntax,
        registration: Registration,
        kernel: str | cst.Lambda,
        old: cst.Lambda | None = None,
    ) -> None:
        """Put the registration of the out part behind that of the functional one."""
        statement = registration.statement
        home = self.context.syntaxes.of(registration.module)
        swaps = Swaps(home)
        self._swap_operand(registration, swaps)
        if isinstance(kernel, cst.Lambda) and old is not None:
            swaps.nodes[old] = kernel
        else:
            given = registration.arguments
            argument = next((given[k] for k in _FUNCTIONS if k in given), None)
            argument = argument if argument is not None else curried_function(registration)
            self._swap_kernel(registration, argument, str(kernel), swaps)
        try:
            node = home.find(statement, cst.SimpleStatementLine)
        except SyntaxMismatchError:
            node = None
        if node is None or len(node.body) != 1 or not isinstance(node.body[0], cst.Expr):
            raise RefusalError(
                statement,
                "what registers its kernel is no statement on a line of its own",
                "give the registration a line of its own",
                registration.module,
            )
        again = cst.ensure_type(node.visit(swaps), cst.SimpleStatementLine)
        again = again.with_changes(leading_lines=(), trailing_whitespace=cst.TrailingWhitespace())
        target = self.edits_of(registration.module)
        target.behind.setdefault(home.key(statement), []).append(again)
        del syntax

    def _swap_kernel(
        self, registration: Registration, argument: ast.expr | None, name: str, swaps: Swaps
    ) -> None:
        """Let a registration name the out part of its kernel, imported where it was imported."""
        syntax = swaps.syntax
        old = getattr(registration.function, "name", "")
        match argument:
            case ast.Attribute(attr=attr, value=owner) if attr == old and self._is_home(
                registration, owner
            ):
                node = syntax.find(argument, cst.Attribute)
                swaps.nodes[node] = node.with_changes(attr=cst.Name(name))
                return
            case ast.Name(id=local):
                if registration.function_module is registration.module and local == old:
                    swaps.nodes[syntax.find(argument, cst.Name)] = cst.Name(name)
                    return
                target = self.context.project.resolve(registration.module, argument).certain
                direct = target is not None and len(target.via) == 1
                for alias in imports_of(registration.module, local):
                    if alias.name != old or not direct:
                        continue
                    new = name if alias.asname is None else f"{alias.asname}{self.ending}"
                    taken = self.context.project.bindings_in_scope(registration.module, argument)
                    if new not in taken:
                        edit = ImportEdit(name, None if alias.asname is None else new)
                        imports = self.edits_of(registration.module).imports
                        imports.setdefault(syntax.key(alias), []).append(edit)
                        swaps.nodes[syntax.find(argument, cst.Name)] = cst.Name(new)
                        return
        raise RefusalError(
            registration.statement,
            "the kernel is not registered by a name that can be followed",
            "register it by its name, or with a decorator",
            registration.module,
        )

    def _is_home(self, registration: Registration, owner: ast.expr) -> bool:
        """Whether an expression is the module that defines a registered function."""
        target = self.context.project.resolve(registration.module, owner).certain
        home = registration.function_module
        return target is not None and target.is_module and target.module is home

    def _swap_operand(self, registration: Registration, swaps: Swaps) -> None:
        """Let a registration say the new op."""
        operand = registration.operand
        syntax = swaps.syntax
        if isinstance(operand, ast.Constant):
            node = syntax.find(operand, cst.SimpleString)
            swaps.nodes[node] = renamed(node, self.suffix)
            return
        for reference in self.context.project.references(self.op):
            if reference.node is operand and operand is not None:
                text = self.bindings.expression(reference)
                found = syntax.find(operand, cst.BaseExpression)  # type: ignore[type-abstract]
                swaps.nodes[found] = cst.parse_expression(text)
                return
        raise RefusalError(
            registration.statement,
            "which op the kernel is registered for is not written in a way that can be followed",
            "register it by the op's name",
            registration.module,
        )

    def _free_name(self, module: Module, function: ast.FunctionDef, wanted: str) -> str:
        reserved = self.context.names_in(module)
        taken = self.context.project.bindings_in_scope(module, function) | reserved
        taken |= {n.id for n in ast.walk(module.tree) if isinstance(n, ast.Name)}
        names = (wanted, *(f"{wanted}_{number}" for number in range(2, len(taken) + 3)))
        name = next(n for n in names if n not in taken)
        reserved.add(name)
        return name
