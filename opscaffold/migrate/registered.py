"""What is registered for an op whose returns change: its kernels, its fakes, and the rest."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator

from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.rules.base import OpFacts
from opscaffold.rules.fakes import is_fake
from opscaffold.rules.functions import AnyFunction
from opscaffold.rules.kernels import kernels_of
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Form, Module, Op, Registration, Role
from opscaffold.source.project import Project

_KERNELS = frozenset({Role.CUSTOM_OP, Role.TRITON_OP, Role.DEFINE, Role.IMPL, Role.KERNEL})
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
_CHECKS = re.compile(r"_?check|_?assert|require|validate")
_BY_HAND = "change this op by hand"


def check_registered(facts: OpFacts) -> None:
    """Refuse an op whose registrations do not all stand in sight, once, at the top of a module."""
    op, definition = facts.op, facts.op.definition
    if definition.qualname is None:
        raise RefusalError(
            definition.statement,
            f"its name is computed ({definition.name_hint})",
            "write the name as one string",
        )
    if Counter(o.qualname for o in facts.project.all_ops)[op.qualname] > 1:
        raise RefusalError(
            definition.statement, f"`{op.qualname}` is registered more than once",
            "keep one registration",
        )  # fmt: skip
    for registration in (definition, *op.attached):
        module, node = registration.module, module_parent(registration)
        if registration.fallback:
            raise RefusalError(
                registration.statement, "it is registered only in some versions of torch",
                _BY_HAND, module,
            )  # fmt: skip
        while node is not None:
            if isinstance(node, _REPEATED):
                raise RefusalError(
                    registration.statement,
                    "it is registered inside a function, class or loop, so it may be registered "
                    "any number of times",
                    "register it at the top of a module",
                    module,
                )
            node = module.parents.get(node)


def module_parent(registration: Registration) -> ast.AST | None:
    """What holds the statement of a registration."""
    return registration.module.parents.get(registration.statement)


def check_attached(facts: OpFacts, why: Callable[[Registration], str]) -> None:
    """Refuse what is attached to an op beside kernels and fakes; ``why`` says what is wrong."""
    known = {kernel.function for kernel in kernels_of(facts)}
    for registration in facts.op.attached:
        kernel = registration.role in _KERNELS and registration.function in known
        if kernel or is_fake(registration):
            continue
        unseen = registration.role in _KERNELS and registration.function is None
        reason = "one of its kernels is not in sight" if unseen else why(registration)
        raise RefusalError(registration.statement, reason, _BY_HAND, registration.module)


def kernels_to_change(facts: OpFacts) -> Iterator[tuple[Registration, Module, ast.FunctionDef]]:
    """Each kernel with where it stands. Raises RefusalError for one that cannot be changed."""
    seen: set[AnyFunction] = set()
    for registration in (facts.op.definition, *facts.op.attached):
        function = registration.function
        if registration.role not in _KERNELS or is_fake(registration):
            continue
        if function is None or function in seen:
            continue
        seen.add(function)
        module = registration.function_module or registration.module
        if not isinstance(function, ast.FunctionDef):
            raise RefusalError(
                registration.statement, "its kernel is not a plain function",
                "write the kernel as a function", registration.module,
            )  # fmt: skip
        _check_decorators(facts, module, function)
        if not _is_the_op(facts.op, function) and is_used_elsewhere(
            facts.project, facts.op, module, function
        ):
            raise RefusalError(
                function,
                f"its kernel `{function.name}` is used elsewhere too",
                "give the op a kernel of its own",
                module,
            )
        yield registration, module, function


def _is_the_op(op: Op, function: ast.FunctionDef) -> bool:
    """Whether the name of a kernel stands for the op itself."""
    definition = op.definition
    decorated = definition.form is Form.DECORATOR and definition.statement is function
    return decorated and definition.role in {Role.CUSTOM_OP, Role.TRITON_OP}


def _check_decorators(facts: OpFacts, module: Module, function: ast.FunctionDef) -> None:
    names = ProjectNames(facts.project, module)
    calls = {r.call for r in (facts.op.definition, *facts.op.attached) if r.call is not None}
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if decorator not in calls and names.dotted(target) not in _HARMLESS_DECORATORS:
            raise RefusalError(
                decorator,
                f"`@{ast.unparse(target)}` wraps the kernel, and what it does with its result is "
                "not known here",
                "apply it inside the kernel",
                module,
            )


def is_used_elsewhere(project: Project, op: Op, module: Module, function: ast.FunctionDef) -> bool:
    """Whether anything but the op's registrations may use a function by its name."""
    if function.name == "_":
        return False
    registering: set[ast.AST] = set()
    for registration in (op.definition, *op.attached):
        if registration.function is function and registration.statement is not function:
            registering |= set(ast.walk(registration.statement))
    for node in ast.walk(module.tree):
        if node in registering:
            continue
        match node:
            case ast.Name(id=name) | ast.Constant(value=name) if name == function.name:
                return True
    word = re.compile(rf"\b{re.escape(function.name)}\b".encode())
    inside = (r.module.path for r in (op.definition, *op.attached) if r.function is function)
    others = set(project.files) - {module.path, *inside}
    return any(word.search(project.read(path) or b"") for path in others)


def drop_fakes(
    context: Context,
    facts: OpFacts,
    plan: OpPlan,
    change: Callable[[Module, ast.FunctionDef], None] | None,
) -> None:
    """Plan the removal of an op's fake kernels.

    A fake that also checks its arguments is left to ``change``, if there is one. Raises
    RefusalError for one that cannot be taken out.
    """
    for registration in facts.op.attached:
        if not is_fake(registration):
            continue
        function, module = registration.function, registration.module
        if change is not None and isinstance(function, ast.FunctionDef):
            shared = is_used_elsewhere(context.project, facts.op, module, function)
            if (_checks(function) or registration.form is Form.HELPER) and not shared:
                change(registration.function_module or module, function)
                continue
        _drop(context, facts, plan, registration)


def _drop(context: Context, facts: OpFacts, plan: OpPlan, registration: Registration) -> None:
    function, module, statement = registration.function, registration.module, registration.statement
    syntax = context.syntaxes.of(module)
    if isinstance(function, ast.FunctionDef) and statement is function:
        used = is_used_elsewhere(context.project, facts.op, module, function)
        if len(function.decorator_list) == 1 and not used:
            plan.edits_for(module).removed.add(syntax.key(function))
            return
        raise RefusalError(
            statement, "its fake kernel is used elsewhere too", "delete the fake kernel", module
        )
    if registration.form is Form.HELPER or not isinstance(statement, ast.Expr):
        raise RefusalError(
            statement, "its fake kernel is registered by more than a statement of its own",
            "delete the fake kernel", module,
        )  # fmt: skip
    if any(
        isinstance(n, ast.stmt) and n is not statement and n.lineno == statement.lineno
        for n in ast.walk(module.tree)
    ):
        raise RefusalError(
            statement, "another statement stands on the line that registers its fake kernel",
            "give it a line of its own", module,
        )  # fmt: skip
    plan.edits_for(module).removed.add(syntax.key(statement))
    own = registration.function_module is module and isinstance(function, ast.FunctionDef)
    if not own or not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return
    if not is_used_elsewhere(context.project, facts.op, module, function):
        plan.edits_for(module).removed.add(syntax.key(function))


def _checks(function: ast.FunctionDef) -> bool:
    """Whether a fake does more than to say what is returned."""
    for node in ast.walk(function):
        match node:
            case ast.Raise() | ast.Assert():
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                if _CHECKS.match(name):
                    return True
    return False
