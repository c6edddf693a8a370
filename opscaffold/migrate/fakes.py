"""Writing the fake kernel that an op lacks, behind its definition, where it can be derived."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from opscaffold.effects.derive_fake import UnderivableError
from opscaffold.findings.model import Severity
from opscaffold.migrate.attached import new_fake
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.rewrite import Rewriter
from opscaffold.migrate.syntax import code_of
from opscaffold.rules import missing_fake
from opscaffold.rules.base import OpFacts
from opscaffold.rules.declared import maybe_outs
from opscaffold.rules.flags import flagged
from opscaffold.rules.functions import AnyFunction
from opscaffold.rules.kernels import kernels_of
from opscaffold.rules.returned import Sharing, shared_arguments
from opscaffold.source.model import Form, Module, Registration, Role

_REGISTER = "register_fake"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fake kernel goes, and the decorator that registers it there."""

    module: Module
    statement: ast.stmt
    decorator: str


def torch_name(module: Module, function: AnyFunction) -> str | None:
    """The name that torch surely has in the body of a function, None where it has none."""
    found = None
    for statement in module.tree.body:
        if not isinstance(statement, ast.Import) or statement.lineno > function.lineno:
            continue
        for alias in statement.names:
            if alias.name == "torch":
                found = found or alias.asname or "torch"
            elif alias.name.startswith("torch.") and alias.asname is None:
                found = found or "torch"
    stored = {
        n.id
        for n in ast.walk(module.tree)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    }
    stored |= {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
    return None if found in stored else found


def add_fake(context: Context, facts: OpFacts, plan: OpPlan) -> None:
    """Give an op that lacks one a fake kernel of what its kernel becomes by the plan.

    Where none can be derived, the plan says so: the op had none before either.
    """
    if not missing_fake.lacks_fake(facts) or maybe_outs(facts) or flagged(facts):
        return
    if any(shared.sharing is Sharing.MUTATED for shared in shared_arguments(facts)):
        return  # What it returns will change first.
    try:
        place, fake = derived(context, facts, plan)
    except UnderivableError as error:
        plan.notes.append(
            missing_fake.RULE.finding(
                facts.module,
                facts.kernel or facts.op.definition.statement,
                "the op has no fake kernel, so it cannot be compiled or exported, and none can be "
                f"derived: {error}",
                op=facts.op.qualname,
                severity=Severity.INFO,
            )
        )
        return
    key = context.syntaxes.of(place.module).key(place.statement)
    plan.edits_for(place.module).behind[key] = [fake]


def derived(context: Context, facts: OpFacts, plan: OpPlan) -> tuple[Place, cst.FunctionDef]:
    """The fake kernel of an op as the plan leaves its kernels. Raises UnderivableError."""
    place = _place(facts)
    kernels = kernels_of(facts)
    if not kernels:
        raise UnderivableError("its kernel is not in sight")
    module = place.module
    taken = context.project.bindings_in_scope(module, place.statement) | context.names_in(module)
    plain = getattr(facts.kernel, "name", "_").strip("_") or facts.op.name
    wanted = f"_{plain.replace('.', '_')}_fake"
    name = next(
        n for n in (wanted, *(f"{wanted}_{i}" for i in range(2, len(taken) + 3))) if n not in taken
    )
    found: cst.FunctionDef | None = None
    for kernel in kernels:
        if not isinstance(kernel.function, ast.FunctionDef):
            raise UnderivableError("the kernel is not a plain function")
        if kernel.module is not module:
            raise UnderivableError("its kernel stands in another module")
        if any(kernel.declared.get(a.name, a.name) != a.name for a in kernel.arguments):
            raise UnderivableError("its kernel calls the arguments otherwise than the op")
        edited = _edited(context, kernel.module, kernel.function, plan)
        tensors = [a.name for a in kernel.arguments if a.tensor]
        fake = new_fake(
            context.project,
            facts.op,
            edited,
            tensors,
            name,
            place.decorator,
            kernel.function,
            torch_name(module, kernel.function),
        )
        if found is not None and code_of(fake.body) != code_of(found.body):
            raise UnderivableError("its kernels allocate what they return in different ways")
        found = found or fake
    if found is None:
        raise UnderivableError("its kernel is not in sight")
    context.names_in(module).add(name)
    return place, _spaced(module, place.statement, found)


def _spaced(module: Module, statement: ast.stmt, fake: cst.FunctionDef) -> cst.FunctionDef:
    """The fake kernel with the blank lines that it needs before and behind it."""
    wanted = 1 if statement.col_offset else 2
    blank = cst.EmptyLine(indent=False)
    following = module.source.text.splitlines()[statement.end_lineno or 0 :]
    empty = next((i for i, line in enumerate(following) if line.strip()), None)
    footer = [blank] * max(0, wanted - empty) if empty is not None else []
    body = fake.body.with_changes(footer=footer)
    return fake.with_changes(leading_lines=[blank] * wanted, body=body)


def _edited(
    context: Context, module: Module, function: ast.FunctionDef, plan: OpPlan
) -> cst.FunctionDef:
    """A kernel with the changes of the plan."""
    syntax = context.syntaxes.of(module)
    node = syntax.find(function, cst.FunctionDef)
    edits = plan.edits.get(module.path)
    made = node if edits is None else node.visit(Rewriter(syntax, edits))
    return cst.ensure_type(made, cst.FunctionDef)


def _place(facts: OpFacts) -> Place:
    """Where the fake of an op goes, by how the op is defined."""
    definition = facts.op.definition
    if definition.qualname is None:
        raise UnderivableError("its name is computed")
    if definition.form is Form.HELPER:
        raise UnderivableError("a helper of the project registers it")
    if any(isinstance(n, ast.Lambda) for n in _around(definition)):
        raise UnderivableError("a lambda registers it, which may never be called")
    kernel = next((r for r in _kernels(facts) if r.function is facts.kernel), definition)
    module = definition.module
    if kernel.module is not module or not isinstance(facts.kernel, ast.FunctionDef):
        raise UnderivableError("its kernel is not a plain function beside its definition")
    root = torch_name(module, facts.kernel)
    statement = max((definition.statement, kernel.statement), key=lambda s: s.lineno)
    if module.parents.get(definition.statement) is not module.parents.get(statement):
        raise UnderivableError("its kernel stands in another block than its definition")
    name = _name_of_op(definition)
    if name is not None:
        return Place(module, statement, f"{name}.{_REGISTER}")
    if root is None:
        raise UnderivableError("the module has no plain name for torch")
    return Place(module, statement, f'{root}.library.{_REGISTER}("{definition.qualname}")')


def _around(definition: Registration) -> Iterator[ast.AST]:
    """The nodes between a registering call and its statement."""
    node = definition.module.parents.get(definition.call) if definition.call else None
    while node is not None and node is not definition.statement:
        yield node
        node = definition.module.parents.get(node)


def _kernels(facts: OpFacts) -> list[Registration]:
    return [r for r in facts.op.attached if r.role in {Role.IMPL, Role.KERNEL}]


def _name_of_op(definition: Registration) -> str | None:
    """The name under which a custom_op stands in its module."""
    if definition.role not in {Role.CUSTOM_OP, Role.TRITON_OP} or definition.fallback:
        return None
    function, statement = definition.function, definition.statement
    if definition.form is Form.DECORATOR and isinstance(function, ast.FunctionDef):
        first = function.decorator_list[0]
        mine = first is definition.call or first is definition.result
        return function.name if function.name != "_" and mine else None
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is definition.result:
            return name
    return None
