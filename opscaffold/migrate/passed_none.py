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
from opscaffold.source.questions import named

_FOUND: WeakKeyDictionary[Project, dict[ast.AST, frozenset[str]]] = WeakKeyDictionary()
_CALLERS: WeakKeyDictionary[Project, dict[str, list[Path]]] = WeakKeyDictionary()

# Which files hold the names that may be asked for, once more than these few were.
_HOLDERS: WeakKeyDictionary[Project, dict[str, list[Path]]] = WeakKeyDictionary()
_FEW = 20
_DEFINED = re.compile(rb"\bdef[ \t]+([A-Za-z0-9_]+)[ \t]*\(")


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
    wanted = {name for name in names if name not in known}
    if len(known) + len(wanted) > _FEW and project not in _HOLDERS:
        _HOLDERS[project] = _holders(project, wanted)
    among = _HOLDERS.get(project, {})
    known.update((name, []) for name in wanted)
    patterns = {n: (n.encode(), re.compile(re.escape(n.encode()) + rb"\s*\(")) for n in wanted}
    for name in wanted & among.keys():
        called = patterns.pop(name)[1]
        known[name] += [p for p in among[name] if _calls(called, project.read(p) or b"")]
    for path in project.files if patterns else ():
        data = project.read(path) or b""
        for name, (text, called) in patterns.items():
            # Found many times as fast as the pattern.
            if text in data and _calls(called, data):
                known[name].append(path)


def _holders(project: Project, names: Iterable[str]) -> dict[str, list[Path]]:
    """The files that hold each name as a word: these, and all that may be asked for.

    Those are the functions that are defined where ops are mentioned. To look for them all at
    once takes as long as to look for a score.
    """
    defined = {name for name in names if name.isascii()}
    for path in project.mentioning_ops():
        found = _DEFINED.findall(project.read(path) or b"")
        defined.update(name.decode() for name in found)
    holders: dict[str, list[Path]] = {name: [] for name in defined}
    for path, words in project.ask(named(defined)).items() if defined else ():
        for word in words:
            holders[word].append(path)
    return holders


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
