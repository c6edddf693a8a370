"""Whether callers pass None for a parameter that is annotated as a plain Tensor."""

from __future__ import annotations

import ast
import re
from weakref import WeakKeyDictionary

from opscaffold.effects.trace import FunctionNode
from opscaffold.source.model import Module
from opscaffold.source.project import Project

_FOUND: WeakKeyDictionary[Project, dict[ast.AST, frozenset[str]]] = WeakKeyDictionary()


def may_be_passed_none(project: Project, function: FunctionNode, parameter: str) -> bool:
    """Whether a call anywhere in the project may pass None for a parameter.

    Calls are told by the function's name alone: any call of something of that name counts.
    """
    known = _FOUND.setdefault(project, {})
    if function not in known:
        known[function] = frozenset(_passed(project, function))
    return parameter in known[function]


def _passed(project: Project, function: FunctionNode) -> set[str]:
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    every = {*names, *(a.arg for a in spec.kwonlyargs)}
    literal = function.name.encode()
    word = re.compile(rb"\b" + re.escape(literal) + rb"\s*\(")
    found: set[str] = set()
    for path in project.files:
        data = project.read(path) or b""
        # Found many times as fast as the pattern, which starts with no literal.
        if literal not in data or not word.search(data):
            continue
        module = project.module_for(path)
        for call in [] if module is None else ast.walk(module.tree):
            if module is None or not isinstance(call, ast.Call) or _name(call) != function.name:
                continue
            # A method may be called with its object in front or not.
            shifts = (0, 1) if names[:1] in (["self"], ["cls"]) else (0,)
            for index, value in enumerate(call.args):
                if _may_be_none(module, value):
                    found.update(n for s in shifts for n in names[index + s : index + s + 1])
            found.update(
                k.arg for k in call.keywords if k.arg in every and _may_be_none(module, k.value)
            )
    return found


def _name(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _may_be_none(module: Module, value: ast.expr) -> bool:
    """Whether an argument shows that it may be None."""
    match value:
        case ast.Constant(value=None):
            return True
        case ast.IfExp(body=body, orelse=orelse):
            return _may_be_none(module, body) or _may_be_none(module, orelse)
        case ast.Name(id=name):
            return name in _optional_names(module, value)
    return False


def _optional_names(module: Module, node: ast.AST) -> set[str]:
    """The parameters of the functions around a node that may be omitted, or say so."""
    found: set[str] = set()
    current = module.parents.get(node)
    while current is not None:
        if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            spec = current.args
            positional = [*spec.posonlyargs, *spec.args]
            start = len(positional) - len(spec.defaults)
            pairs = [*zip(positional[start:], spec.defaults, strict=True)]
            pairs += [(a, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d]
            found |= {a.arg for a, d in pairs if isinstance(d, ast.Constant) and d.value is None}
            found |= {
                a.arg
                for a in (*positional, *spec.kwonlyargs)
                if a.annotation is not None
                and re.search(r"\b(Optional|None)\b", ast.unparse(a.annotation))
            }
        current = module.parents.get(current)
    return found
