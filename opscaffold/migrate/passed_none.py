"""Whether callers pass None for a parameter that is annotated as a plain Tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

from opscaffold.effects.trace import FunctionNode
from opscaffold.migrate.named_calls import calls_named
from opscaffold.source.model import Module
from opscaffold.source.project import Project

_FOUND: WeakKeyDictionary[Project, dict[ast.AST, frozenset[str]]] = WeakKeyDictionary()
_CALLERS: WeakKeyDictionary[Project, dict[str, list[Path]]] = WeakKeyDictionary()


def may_be_passed_none(project: Project, function: FunctionNode, parameter: str) -> bool:
    """Whether a call anywhere in the project may pass None for a parameter.

    Calls are told by the function's name alone: any call of something of that name counts.
    """
    known = _FOUND.setdefault(project, {})
    if function not in known:
        known[function] = frozenset(_passed(project, function))
    return parameter in known[function]


def look_for_callers(project: Project, names: Iterable[str]) -> None:
    """Find the files that may call functions of these names, in one pass for all of them.

    It saves time to say at once whom ``may_be_passed_none`` will be asked of.
    """
    known = _CALLERS.setdefault(project, {})
    wanted = {name: name.encode() for name in names if name not in known}
    known.update((name, []) for name in wanted)
    calls = {name: re.compile(re.escape(text) + rb"\s*\(") for name, text in wanted.items()}
    for path in project.files if wanted else ():
        data = project.read(path) or b""
        for name, text in wanted.items():
            # Found many times as fast as the pattern.
            if text in data and _calls(calls[name], data):
                known[name].append(path)


def _calls(pattern: re.Pattern[bytes], data: bytes) -> bool:
    """Whether a call matches the pattern, as a whole word that is not being defined."""
    for match in pattern.finditer(data):
        before = data[max(match.start() - 4, 0) : match.start()]
        if before != b"def " and not re.match(rb"\w", before[-1:]):
            return True
    return False


def _passed(project: Project, function: FunctionNode) -> set[str]:
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    every = {*names, *(a.arg for a in spec.kwonlyargs)}
    # A method may be called with its object in front or not.
    shifts = (0, 1) if names[:1] in (["self"], ["cls"]) else (0,)
    look_for_callers(project, [function.name])
    found: set[str] = set()
    for path in _CALLERS[project][function.name]:
        module = project.module_for(path)
        if module is None:
            continue
        for call in calls_named(module, function.name):
            for index, value in enumerate(call.args):
                if _may_be_none(module, value):
                    found.update(n for s in shifts for n in names[index + s : index + s + 1])
            found.update(
                k.arg for k in call.keywords if k.arg in every and _may_be_none(module, k.value)
            )
    return found


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
