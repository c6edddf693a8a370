"""Where an op is registered, in whichever form, as the pieces that a split writes twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from opscaffold.migrate.branches import alternatives_of, twins_of
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.registering import Parts
from opscaffold.rules.fakes import is_fake
from opscaffold.source.model import Form, Op, Registration, Role
from opscaffold.source.project import Project

_BY_HAND = "split this op by hand, as the message of the finding says"
_FUNCTION_ARGUMENTS = ("fn", "func")
_NAME_ARGUMENTS = ("name", "qualname", "op_name")


@dataclass(frozen=True, slots=True)
class Place:
    """One registration in the text: the statement that holds it, or the function it decorates."""

    node: ast.stmt
    call: ast.Call
    parts: Parts


@dataclass(frozen=True, slots=True)
class KernelSite:
    """One kernel that is to be split. ``decorators`` are the registrations that stand on it."""

    function: ast.FunctionDef
    decorators: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class DefinitionForm:
    """All of an op's definition: its kernels, and the statements that register.

    ``variable`` is the name that stands for the op in its module, None where none does;
    ``twins`` are plain functions that have this name where the op is not registered,
    ``alternatives`` other definitions of the op, in branches of their own.
    """

    kernels: tuple[KernelSite, ...]
    statements: tuple[Place, ...]
    variable: str | None
    twins: tuple[ast.FunctionDef, ...] = ()
    alternatives: tuple[Op, ...] = ()

    @property
    def same(self) -> tuple[ast.FunctionDef, ...]:
        """The other functions that the op's name may stand for."""
        registered = [o.definition.function for o in self.alternatives]
        return (*self.twins, *(f for f in registered if isinstance(f, ast.FunctionDef)))

    @property
    def main(self) -> ast.FunctionDef:
        """The first kernel."""
        return self.kernels[0].function


def read_form(project: Project, op: Op) -> DefinitionForm:
    """How an op is defined. Raises RefusalError for a form that cannot be written twice."""
    definition = op.definition
    if definition.qualname is None:
        raise RefusalError(
            definition.statement,
            f"its name is computed ({definition.name_hint})",
            "write the name as one string",
        )
    if "." in definition.qualname.partition("::")[2]:
        raise RefusalError(definition.statement, "it is an overload", "give it a name of its own")
    registrations = [definition, *_implementations(op)]
    decorators: dict[ast.FunctionDef, list[Place]] = {}
    statements: list[Place] = []
    for registration in registrations:
        function = _kernel(registration)
        if registration.module is not definition.module:
            raise RefusalError(
                registration.statement, "its kernel is registered in another module", _BY_HAND,
                registration.module,
            )  # fmt: skip
        place = _place(project, op, registration)
        if isinstance(place.node, ast.FunctionDef):
            decorators.setdefault(place.node, []).append(place)
            continue
        statements.append(place)
        if function is not None:
            decorators.setdefault(function, [])
    if not decorators:
        raise RefusalError(
            definition.statement, "its kernel is not a plain function in sight", _BY_HAND
        )
    kernels = tuple(KernelSite(f, tuple(places)) for f, places in decorators.items())
    variable, main = _variable(definition), kernels[0].function
    others = alternatives_of(project, op)
    twins = twins_of(definition.module, main, others) if variable == main.name != "_" else []
    return DefinitionForm(kernels, tuple(statements), variable, tuple(twins), others)


def _implementations(op: Op) -> Iterator[Registration]:
    """The kernels of a low-level op that are registered by themselves."""
    definition = op.definition
    if definition.role is not Role.DEFINE:
        return
    fakes = stand_ins_of(op)
    for registration in op.attached:
        own = registration.statement is definition.statement
        if registration.role is Role.IMPL and not own and registration not in fakes:
            yield registration


def stand_ins_of(op: Op) -> list[Registration]:
    """What is registered as a fake kernel of an op, and is not one of its kernels as well.

    A low-level op's is often an implementation under Meta. It belongs to the functional half:
    an op that writes all it makes to a buffer, by its schema, runs on fake tensors without one.
    """
    low_level = op.definition.role is Role.DEFINE
    if not low_level:
        return [r for r in op.attached if r.role is Role.FAKE]
    kernels = {r.function for r in op.attached if r.role is Role.IMPL and not is_fake(r)}
    kernels.add(op.definition.function)
    return [
        r
        for r in op.attached
        if r.role is Role.FAKE or (is_fake(r) and r.function not in kernels - {None})
    ]


def _kernel(registration: Registration) -> ast.FunctionDef | None:
    """The kernel that a registration brings; None for a definition by schema alone."""
    function = registration.function
    if (
        function is None
        and registration.role is Role.DEFINE
        and registration.form is not (Form.HELPER)
    ):
        return None
    if not isinstance(function, ast.FunctionDef):
        raise RefusalError(
            registration.statement, "its kernel is not a plain function in sight", _BY_HAND
        )
    if registration.function_module is not registration.module:
        raise RefusalError(
            registration.statement, "its kernel is defined in another module", _BY_HAND
        )
    if function.args.vararg or function.args.kwarg or function.args.posonlyargs:
        raise RefusalError(function, "its parameters are not plain", "name every parameter")
    return function


def _place(project: Project, op: Op, registration: Registration) -> Place:
    call, statement = registration.call, registration.statement
    if call is None:
        raise RefusalError(statement, "it is registered without a call in sight", _BY_HAND)
    if any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg is None for k in call.keywords
    ):
        raise RefusalError(call, "it is registered with star arguments", "spell them out")
    if registration.form is Form.HELPER:
        return Place(statement, call, _helper_parts(project, op, registration, call))
    given = registration.arguments
    kernel = next((given[k] for k in _FUNCTION_ARGUMENTS if k in given), None)
    if registration.form is Form.CURRIED:
        kernel = _curried_kernel(registration)
    names_op = registration.role is Role.DEFINE and "qualname" not in given
    name = next((given[k] for k in _NAME_ARGUMENTS if k in given), None)
    parts = Parts(
        name=None if names_op else name,
        mutates=given.get("mutates_args"),
        schema=given.get("schema"),
        kernel=None if isinstance(statement, ast.FunctionDef) else kernel,
        tags=given.get("tags"),
        names_op=names_op,
        declares=registration.role is not Role.IMPL,
    )
    return Place(statement, call, parts)


def _curried_kernel(registration: Registration) -> ast.expr | None:
    result, call = registration.result, registration.call
    if isinstance(result, ast.FunctionDef):
        return None
    if isinstance(result, ast.Call) and result.func is call and len(result.args) == 1:
        return result.args[0]
    raise RefusalError(
        registration.statement,
        "what registers it is kept under a name first",
        "register it in one statement",
    )


def _helper_parts(project: Project, op: Op, registration: Registration, call: ast.Call) -> Parts:
    """What the arguments of a project's helper are, by what they hold."""
    module, definition = registration.module, op.definition
    arguments = [*call.args, *(k.value for k in call.keywords)]
    fakes = {r.function for r in op.attached if r.role is Role.FAKE}
    name = mutates = schema = kernel = fake = None
    for argument in arguments:
        text = argument.value if isinstance(argument, ast.Constant) else None
        if text in (op.name, op.qualname):
            name = argument
        elif isinstance(text, str) and "->" in text and "(" in text:
            schema = argument
        elif isinstance(argument, ast.Tuple | ast.List | ast.Set):
            if _strings(argument) == tuple(definition.mutates or ()):
                mutates = argument
        elif isinstance(argument, ast.Name | ast.Attribute):
            target = project.resolve(module, argument).certain
            node = None if target is None else target.node
            if node is not None and node is definition.function:
                kernel = argument
            elif node is not None and node in fakes:
                fake = argument
    decorates = isinstance(registration.statement, ast.FunctionDef)
    if kernel is None and not decorates:
        raise RefusalError(
            call, "its kernel does not stand by name in the call that registers it", _BY_HAND
        )
    if name is None and not decorates:
        raise RefusalError(call, "its name does not stand in the call that registers it", _BY_HAND)
    if fake is not None and not any(k.value is fake for k in call.keywords):
        raise RefusalError(
            call, "its fake kernel is passed by position, and a mutable op needs none", _BY_HAND
        )
    return Parts(name, mutates, schema, kernel, fake)


def _strings(display: ast.Tuple | ast.List | ast.Set) -> tuple[str, ...] | None:
    names = [e.value for e in display.elts if isinstance(e, ast.Constant)]
    plain = all(isinstance(n, str) for n in names) and len(names) == len(display.elts)
    return tuple(map(str, names)) if plain else None


def _variable(definition: Registration) -> str | None:
    """The name that a definition binds to the op."""
    statement = definition.statement
    if isinstance(statement, ast.FunctionDef):
        return statement.name if definition.role is not Role.DEFINE else None
    match statement:
        case ast.Expr():
            return None
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            if value is definition.result:
                return name
    raise RefusalError(
        statement, "the op is not assigned to one plain name", "assign it in a statement of its own"
    )
