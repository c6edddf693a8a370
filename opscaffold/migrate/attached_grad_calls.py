"""Calls of an out= op whose arguments visibly require grad.

PyTorch raises there: functions with out= do not support automatic differentiation (FACTS
section 1).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.edits import CallForm
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
_WITHOUT_GRAD = frozenset({"torch.no_grad", "torch.inference_mode"})
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})


def calls_under_grad(
    project: Project, op: Op, bindings: Bindings
) -> Iterator[tuple[Module, ast.Call]]:
    """The calls that are given the buffer, and an argument that was made to require grad."""
    for reference in project.references(op):
        call, module = reference.call, reference.module
        edits = bindings.edits.get(module.path)
        if call is None or edits is None:
            continue
        edit = edits.calls.get(bindings.syntaxes.of(module).key(call))
        if edit is None or edit.form is CallForm.FRESH:
            continue
        names = ProjectNames(project, module)
        if _without_grad(module, names, call):
            continue
        arguments = [*call.args, *(k.value for k in call.keywords)]
        if any(_requires_grad(module, names, a) for a in arguments):
            yield module, call


def _without_grad(module: Module, names: ProjectNames, call: ast.Call) -> bool:
    """Whether a call stands where no grad is recorded, as far as the text around it shows."""
    node = module.parents.get(call)
    while node is not None:
        used: list[ast.expr] = []
        if isinstance(node, ast.With | ast.AsyncWith):
            used = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            used = node.decorator_list
        for expr in used:
            target = expr.func if isinstance(expr, ast.Call) else expr
            if names.dotted(target) in _WITHOUT_GRAD:
                return True
        node = module.parents.get(node)
    return False


def _requires_grad(module: Module, names: ProjectNames, expr: ast.expr) -> bool:
    """Whether an expression, or what its name is bound to around it, asks for grad."""
    if _asks(names, expr):
        return True
    attribute = isinstance(expr, ast.Attribute)
    text = ast.unparse(expr) if isinstance(expr, ast.Name | ast.Attribute) else None
    if text is None:
        return False
    node: ast.AST | None = module.parents.get(expr)
    while node is not None:
        if isinstance(node, ast.ClassDef) and attribute:
            if _asked_in(names, node, text):
                return True
        elif isinstance(node, _SCOPES) and _asked_in(names, node, text):
            return True
        elif isinstance(node, _SCOPES) and _binds(node, text):
            return False
        node = module.parents.get(node)
    return False


def _asked_in(names: ProjectNames, scope: ast.AST, text: str) -> bool:
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=targets, value=value) if _asks(names, value):
                if any(ast.unparse(t) == text for t in targets):
                    return True
            case ast.Assign(targets=[ast.Attribute(attr="requires_grad", value=of)], value=value):
                if ast.unparse(of) == text and _is_true(value):
                    return True
            case ast.Call(func=ast.Attribute(attr="requires_grad_", value=of)) as call:
                if ast.unparse(of) == text and not any(_is_false(a) for a in call.args):
                    return True
    return False


def _binds(scope: ast.AST, text: str) -> bool:
    spec = getattr(scope, "args", None)
    if spec is not None and any(isinstance(a, ast.arg) and a.arg == text for a in ast.walk(spec)):
        return True
    return not isinstance(scope, ast.Module) and any(
        isinstance(n, ast.Name) and n.id == text and isinstance(n.ctx, ast.Store)
        for n in ast.walk(scope)
    )


def _asks(names: ProjectNames, value: ast.expr) -> bool:
    for node in ast.walk(value):
        if not isinstance(node, ast.Call):
            continue
        if any(k.arg == "requires_grad" and _is_true(k.value) for k in node.keywords):
            return True
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "requires_grad_":
            return not any(_is_false(a) for a in node.args)
        if names.dotted(func) in _PARAMETERS and value is node:
            return not any(k.arg == "requires_grad" for k in node.keywords)
    return False


def _is_true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False
