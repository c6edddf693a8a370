"""Which definitions can be split where they stand, and what the rest lack."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from opscaffold.contract.releases import supports_tags
from opscaffold.effects.buffers import Handed
from opscaffold.migrate.forms import DefinitionForm, KernelSite, Place
from opscaffold.migrate.plan import Options
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.split import Half
from opscaffold.rules.base import OpFacts
from opscaffold.rules.declared import mutated_by
from opscaffold.rules.names import ProjectNames
from opscaffold.source.load import span
from opscaffold.source.model import Form, Module, Op, Role
from opscaffold.source.project import Project

_KEYWORDS = frozenset({"name", "fn", "mutates_args", "device_types", "schema", "tags"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_HARMLESS_DECORATORS = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.compiler.disable"}
)
_REPEATED = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.For,
    ast.AsyncFor,
    ast.While,
)
_BY_HAND = "split this op by hand, as the message of the finding says"


def check_definition(project: Project, op: Op, form: DefinitionForm, buffer: str) -> None:
    """Raise RefusalError where an op cannot be split where it stands."""
    definition = op.definition
    module = definition.module
    named = form.variable is not None
    for place in form.statements:
        _check_place(module, place.node, named=named)
    for kernel in form.kernels:
        _check_place(module, kernel.function, named=named)
        _check_decorators(project, module, kernel, named=named)
        _check_parameters(kernel.function)
    if form.variable is not None:
        _check_name(module, form)
    _check_keywords(op, form, buffer)
    _check_handed_over(project, op)


def others_of(facts: OpFacts, buffer: str) -> tuple[str, ...]:
    """What an op declares to mutate beside the buffer, in order. Raises RefusalError."""
    definition = facts.op.definition
    if isinstance(definition.mutates, tuple):
        names: Iterable[str] = definition.mutates
    else:
        declared = mutated_by(facts)
        if declared is None:
            where = definition.call or definition.statement
            said = f'"{definition.mutates}"' if definition.mutates else "not written as names"
            reason = f"`mutates_args` is {said}"
            raise RefusalError(where, reason, "name the mutated arguments")
        names = [a.name for a in facts.arguments if a.name in declared]
    return tuple(name for name in names if name != buffer)


def half_of(facts: OpFacts, buffer: str, others: tuple[str, ...], options: Options) -> Half:
    """Which mutable half an op gets.

    An out= op where the old out branch always raised; where it could succeed, or where the out=
    contract does not fit, an untagged op that returns nothing. Where an older torch is reckoned
    with, the branch could succeed, and there is no tag.
    """
    definition = facts.op.definition
    raised = definition.role is Role.CUSTOM_OP and definition.form is not Form.HELPER
    raised = raised and not definition.fallback
    fits = facts.buffers[buffer].handed is Handed.BUFFER and not others
    return Half.OUT if raised and fits and supports_tags(options.target) else Half.INTO


def _check_parameters(function: ast.FunctionDef) -> None:
    """Refuse the parameter name with which no mutable op compiles on torch 2.13 (measured)."""
    spec = function.args
    for argument in (*spec.args, *spec.kwonlyargs):
        if argument.arg == "mode":
            raise RefusalError(
                argument,
                "torch.compile fails for every op that mutates an argument and has a parameter "
                "called `mode`",
                "rename the parameter",
            )


def _check_handed_over(project: Project, op: Op) -> None:
    """Refuse a helper that is given a function of which it is not known what becomes of it.

    Both halves would be registered with it, and it may be right for neither.
    """
    definition = op.definition
    if definition.form is not Form.HELPER or definition.call is None:
        return
    known = {registration.function for registration in (definition, *op.attached)}
    call, module = definition.call, definition.module
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, ast.Lambda):
            functions: list[ast.AST | None] = [argument]
        elif isinstance(argument, (ast.Name, ast.Attribute)):
            functions = [target.node for target in project.resolve(module, argument).targets]
        else:
            continue
        if any(isinstance(f, _FUNCTIONS) and f not in known for f in functions):
            raise RefusalError(
                argument,
                "the helper is given this function, and what it does with it is not known here",
                _BY_HAND,
            )


def _check_place(module: Module, statement: ast.stmt, *, named: bool) -> None:
    """Refuse what may be registered for an object that differs from run to run.

    A registration by name alone may stand in a function or loop: both halves then do.
    """
    node = module.parents.get(statement)
    while node is not None:
        if isinstance(node, _REPEATED if named else (ast.ClassDef, ast.Lambda)):
            what = "a class" if isinstance(node, ast.ClassDef) else "a function or loop"
            raise RefusalError(
                statement,
                f"it is registered inside {what}, so it may be registered any number of times",
                "register it at the top of a module",
            )
        node = module.parents.get(node)


def _check_name(module: Module, form: DefinitionForm) -> None:
    """The op's name must stand for the op alone: call sites are rewritten by it."""
    name, function = form.variable, form.main
    if name == "_":
        return
    registered = {o.definition.function for o in form.alternatives}
    twins = {*form.twins, *registered}
    bound = 0
    for node in ast.walk(module.tree):
        if node in twins:
            continue
        same = (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and (node is not function or name != function.name)
            and node.name == name
            and _is_top_level(module, node)
        )
        stored = (
            isinstance(node, ast.Name)
            and node.id == name
            and isinstance(node.ctx, ast.Store | ast.Del)
            and _is_top_level(module, node)
        )
        imported = isinstance(node, ast.alias) and name == (node.asname or node.name)
        bound += stored and name != function.name
        if same or (stored and bound != 1) or (imported and _is_top_level(module, node)):
            line = getattr(node, "lineno", 1)
            raise RefusalError(
                function,
                f"the name `{name}` is bound again on line {line}, so a call may mean either",
                "give the two different names, or split both the same way",
            )


def _is_top_level(module: Module, node: ast.AST) -> bool:
    current = module.parents.get(node)
    while current is not None:
        if isinstance(current, _REPEATED[:4]):
            return False
        current = module.parents.get(current)
    return True


def _check_decorators(project: Project, module: Module, kernel: KernelSite, *, named: bool) -> None:
    names = ProjectNames(project, module)
    function = kernel.function
    registering = [place.call for place in kernel.decorators]
    if named and registering and function.decorator_list[0] is not registering[0]:
        raise RefusalError(
            function.decorator_list[0],
            "a decorator stands above the registration, so its name may not be the op",
            "register the op last",
        )
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if decorator in registering or names.dotted(target) in _HARMLESS_DECORATORS:
            continue
        raise RefusalError(
            decorator,
            f"`@{ast.unparse(target)}` wraps the kernel, and what it does is not known here",
            "apply it inside the kernel",
        )


def _check_keywords(op: Op, form: DefinitionForm, buffer: str) -> None:
    definition = op.definition
    if definition.form is Form.HELPER:
        _check_helper(op, form, buffer)
    elif definition.role is not Role.DEFINE:
        unknown = sorted(set(definition.keywords) - _KEYWORDS)
        if unknown:
            where = definition.call or definition.statement
            raise RefusalError(where, f"`{unknown[0]}=` of the registration is not known", _BY_HAND)


def _check_helper(op: Op, form: DefinitionForm, buffer: str) -> None:
    """A helper must be told of everything that differs between the halves."""
    place = _defining(op, form)
    mutates = op.definition.mutates
    if place.parts.mutates is None and place.parts.schema is None:
        takes = op.definition.helper is not None and any(
            a.arg == "mutates_args"
            for a in ast.walk(op.definition.helper.args)
            if isinstance(a, ast.arg)
        )
        declared = mutates if isinstance(mutates, tuple) else ()
        if buffer in declared or not takes:
            raise RefusalError(
                place.call, "what it mutates does not stand in the call that registers it", _BY_HAND
            )


def _defining(op: Op, form: DefinitionForm) -> Place:
    call = op.definition.call
    every = [*form.statements, *(p for k in form.kernels for p in k.decorators)]
    return next(place for place in every if place.call is call)


def torch_tag(project: Project, module: Module, form: DefinitionForm) -> str:
    """The text of ``torch.Tag.out`` as the module can write it."""
    names = ProjectNames(project, module)
    calls = [p.call for p in form.statements]
    calls += [p.call for kernel in form.kernels for p in kernel.decorators]
    for call in calls:
        for node in ast.walk(call):
            if isinstance(node, ast.Name | ast.Attribute) and names.dotted(node) == "torch":
                start, end = span(module, node)
                return f"{module.source.text[start:end]}.Tag.out"
    name = torch_import(module, form.main)
    return f"{name or 'torch'}.Tag.out"


def torch_import(module: Module, function: ast.FunctionDef) -> str | None:
    """The name that an unconditional import ahead of a function binds to torch, or None."""
    for statement in module.tree.body:
        if isinstance(statement, ast.Import) and statement.lineno < function.lineno:
            for alias in statement.names:
                if alias.name == "torch":
                    return alias.asname or "torch"
                if alias.name.startswith("torch.") and alias.asname is None:
                    return "torch"
    return None
