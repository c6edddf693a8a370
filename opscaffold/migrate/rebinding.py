"""Which names of modules other code may rebind: what they stand for is not for long."""

from __future__ import annotations

import ast
from dataclasses import replace
from weakref import WeakKeyDictionary

from opscaffold.effects.trace import FunctionNode, Names, Outer, OuterKind
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module
from opscaffold.source.nodes import walk
from opscaffold.source.project import Project

_SETTERS = frozenset({"setattr", "__setattr__", "delattr", "patch", "object"})
_NAMESPACES = frozenset({"globals", "vars", "exec"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_KNOWN: WeakKeyDictionary[Project, dict[str, bool]] = WeakKeyDictionary()


class CallerNames(ProjectNames):
    """The names a caller sees, of which those that other code may rebind may be None."""

    def outer(self, expr: ast.expr) -> Outer | None:
        """What a name or attribute that is bound outside the function stands for, if in sight."""
        found = super().outer(expr)
        if found is None or found.null or not isinstance(expr, ast.Name | ast.Attribute):
            return found
        name = expr.id if isinstance(expr, ast.Name) else expr.attr
        target = self.project.resolve(self.module, expr).certain
        steps = () if target is None else target.via
        if not may_be_rebound(self.project, self.module, name) and not any(
            may_be_rebound(self.project, s.target or s.module, s.alias.name) for s in steps
        ):
            return found
        return None if found.kind is OuterKind.CONSTANT else replace(found, null=True)

    def function(self, expr: ast.expr) -> tuple[FunctionNode, Names] | None:
        """The function of the tree that an expression denotes, if that is sure."""
        found = super().function(expr)
        if found is None or not isinstance(found[1], ProjectNames):
            return found
        return found[0], CallerNames(self.project, found[1].module)


def may_be_rebound(project: Project, module: Module, name: str) -> bool:
    """Whether code anywhere may rebind a name or attribute that is bound in a module."""
    if any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in _NAMESPACES
        for n in walk(module.tree)
    ):
        return True
    known = _KNOWN.setdefault(project, {})
    if name not in known:
        known[name] = any(_rebinds(m.tree, name) for m in _mentioning(project, name))
    return known[name]


def stored_names(scope: ast.AST) -> list[str]:
    """The names bound or deleted by assignments below a node, one by one."""
    return [
        n.id
        for n in walk(scope)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)
    ]


def _mentioning(project: Project, name: str) -> list[Module]:
    text = name.encode()
    paths = [p for p in project.files if text in (project.read(p) or b"")]
    return [m for m in map(project.module_for, paths) if m is not None]


def _rebinds(tree: ast.Module, name: str) -> bool:
    """Whether a module rebinds a name of a module: its own or another."""
    for node in walk(tree):
        match node:
            case ast.Global(names=names) if name in names:
                return True
            case ast.Attribute(attr=attr, value=owner, ctx=ast.Store() | ast.Del()):
                # What methods assign to attributes of their own object is resolved.
                if attr == name and not (isinstance(owner, ast.Name) and owner.id == "self"):
                    return True
            case ast.Call(func=ast.Name(id=setter) | ast.Attribute(attr=setter), args=args):
                if setter in _SETTERS and any(_is_named(a, name) for a in args):
                    return True
    return False


def _is_named(expr: ast.expr, name: str) -> bool:
    text = expr.value if isinstance(expr, ast.Constant) else None
    return isinstance(text, str) and text.rpartition(".")[2] == name
