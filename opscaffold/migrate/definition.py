"""Which definitions can be split in place, and what the rest lack."""

from __future__ import annotations

import ast
from collections import Counter

from opscaffold.migrate.refusal import RefusalError
from opscaffold.rules.names import ProjectNames
from opscaffold.source.load import span
from opscaffold.source.model import Form, Module, Op, Registration, Role
from opscaffold.source.project import Project

_KEYWORDS = frozenset({"name", "mutates_args", "device_types", "schema", "tags"})
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


def check_definition(project: Project, op: Op, buffer: str) -> tuple[ast.FunctionDef, ast.Call]:
    """The kernel and the registering call of an op that can be split where it stands.

    Raises RefusalError for every form that cannot.
    """
    definition = op.definition
    function, call = _form(definition)
    if Counter(o.qualname for o in project.all_ops)[op.qualname] > 1:
        raise RefusalError(
            function, f"`{op.qualname}` is registered more than once", "keep one registration"
        )
    _check_place(definition.module, function)
    _check_name(definition.module, function)
    _check_decorators(project, definition, function, call)
    _check_keywords(definition, call, buffer)
    _check_parameters(function)
    return function, call


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


def _form(definition: Registration) -> tuple[ast.FunctionDef, ast.Call]:
    function, call = definition.function, definition.call
    if definition.form is Form.HELPER:
        raise RefusalError(
            definition.statement,
            "it is registered by a helper of the project, which would have to register both halves",
            _BY_HAND,
        )
    if definition.role is Role.TRITON_OP:
        raise RefusalError(
            definition.statement,
            "it is registered with `triton_op`, which takes no tags; only custom_op is rewritten "
            "so far",
            "write a functional op, and a mutable op that takes the buffer and returns nothing",
        )
    if definition.role is not Role.CUSTOM_OP:
        raise RefusalError(
            definition.statement,
            f"it is registered with `{definition.role.value}`, where the buffer could be passed "
            "without an error; only custom_op is rewritten so far",
            "write a functional op, and a mutable op that takes the buffer and returns nothing",
        )
    if definition.form is not Form.DECORATOR or call is None:
        raise RefusalError(
            definition.statement,
            f"it is registered by a {definition.form.value}; only decorators are rewritten so far",
            "register it with a decorator",
        )
    if definition.fallback:
        raise RefusalError(
            definition.statement,
            "it is registered by custom_op only in some versions of torch",
            "split both halves by hand, for every version",
        )
    if definition.qualname is None or not isinstance(definition.operand, ast.Constant):
        raise RefusalError(
            definition.statement,
            f"its name is computed ({definition.name_hint})",
            "write the name as one string",
        )
    if "." in definition.qualname.partition("::")[2]:
        raise RefusalError(definition.statement, "it is an overload", "give it a name of its own")
    if not isinstance(function, ast.FunctionDef):
        raise RefusalError(
            definition.statement, "its kernel is not a plain function in sight", _BY_HAND
        )
    if function.args.vararg or function.args.kwarg or function.args.posonlyargs:
        raise RefusalError(function, "its parameters are not plain", "name every parameter")
    return function, call


def _check_place(module: Module, function: ast.FunctionDef) -> None:
    node = module.parents.get(function)
    while node is not None:
        if isinstance(node, _REPEATED):
            what = "a class" if isinstance(node, ast.ClassDef) else "a function or loop"
            raise RefusalError(
                function,
                f"it is registered inside {what}, so it may be registered any number of times",
                "register it at the top of a module",
            )
        node = module.parents.get(node)


def _check_name(module: Module, function: ast.FunctionDef) -> None:
    """The op's name must stand for the op alone: call sites are rewritten by it."""
    if function.name == "_":
        return
    for node in ast.walk(module.tree):
        same = (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and node is not function
            and node.name == function.name
            and _is_top_level(module, node)
        )
        stored = (
            isinstance(node, ast.Name)
            and node.id == function.name
            and isinstance(node.ctx, ast.Store | ast.Del)
            and _is_top_level(module, node)
        )
        imported = isinstance(node, ast.alias) and function.name == (node.asname or node.name)
        if same or stored or (imported and _is_top_level(module, node)):
            line = getattr(node, "lineno", 1)
            raise RefusalError(
                function,
                f"the name `{function.name}` is bound again on line {line}, so a call may mean "
                "either",
                "give the two different names, or split both the same way",
            )


def _is_top_level(module: Module, node: ast.AST) -> bool:
    current = module.parents.get(node)
    while current is not None:
        if isinstance(current, _REPEATED[:4]):
            return False
        current = module.parents.get(current)
    return True


def _check_decorators(
    project: Project, definition: Registration, function: ast.FunctionDef, call: ast.Call
) -> None:
    names = ProjectNames(project, definition.module)
    if function.decorator_list[0] is not call:
        raise RefusalError(
            function.decorator_list[0],
            "a decorator stands above the registration, so its name may not be the op",
            "register the op last",
        )
    for decorator in function.decorator_list[1:]:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if names.dotted(target) not in _HARMLESS_DECORATORS:
            raise RefusalError(
                decorator,
                f"`@{ast.unparse(target)}` wraps the kernel, and what it does is not known here",
                "apply it inside the kernel",
            )


def _check_keywords(definition: Registration, call: ast.Call, buffer: str) -> None:
    unknown = sorted(set(definition.keywords) - _KEYWORDS)
    if unknown:
        raise RefusalError(call, f"`{unknown[0]}=` of the registration is not known", _BY_HAND)
    if any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg is None for k in call.keywords
    ):
        raise RefusalError(call, "it is registered with star arguments", "spell them out")
    mutates = definition.mutates
    if not isinstance(mutates, tuple):
        said = f'"{mutates}"' if mutates else "not written as names"
        raise RefusalError(call, f"`mutates_args` is {said}", "name the mutated arguments")
    others = [name for name in mutates if name != buffer]
    if others:
        raise RefusalError(
            call,
            f"it declares that it mutates `{others[0]}` as well",
            f"if that is so, write one op that mutates `{others[0]}` and returns a fresh tensor, "
            "and one that mutates both and returns nothing; else leave it out of `mutates_args`",
        )


def torch_tag(project: Project, module: Module, function: ast.FunctionDef) -> str:
    """The text of ``torch.Tag.out`` as the module can write it."""
    names = ProjectNames(project, module)
    for decorator in function.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.Name | ast.Attribute) and names.dotted(node) == "torch":
                start, end = span(module, node)
                return f"{module.source.text[start:end]}.Tag.out"
    name = torch_import(module, function)
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
