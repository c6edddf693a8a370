"""How the analysis of effects resolves names: through the project that was read."""

from __future__ import annotations

import ast
from weakref import WeakKeyDictionary

from opscaffold.contract.model import OpContract
from opscaffold.effects.trace import FunctionNode, Names, Outer
from opscaffold.rules.autograd_functions import is_autograd_function
from opscaffold.rules.contracts import contract_of
from opscaffold.rules.lasting import outer_of
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project
from opscaffold.source.resolve import Target


class ProjectNames:
    """The names one module sees."""

    def __init__(self, project: Project, module: Module) -> None:
        self.project = project
        self.module = module
        self._targets: dict[ast.expr, Target | None] = {}
        self._methods: dict[ast.expr, tuple[FunctionNode, Module, bool] | None] = {}

    def dotted(self, expr: ast.expr) -> str | None:
        """The dotted origin of an expression outside the tree, or None."""
        target = self._target(expr)
        return None if target is None else target.dotted

    def function(self, expr: ast.expr) -> tuple[FunctionNode, Names] | None:
        """The function of the tree that an expression denotes, if that is sure."""
        target = self._target(expr)
        if target is None or target.module is None:
            return None
        if isinstance(target.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return target.node, ProjectNames(self.project, target.module)
        return None

    def method(self, expr: ast.Attribute) -> tuple[FunctionNode, Names, bool] | None:
        """The method of a class of the tree that an expression denotes, if that is sure enough.

        Also whether it is given its object, or class, or context, before the arguments.
        """
        if expr not in self._methods:
            self._methods[expr] = self._method(expr)
        found = self._methods[expr]
        if found is None:
            return None
        function, module, bound = found
        return function, ProjectNames(self.project, module), bound

    def _method(self, expr: ast.Attribute) -> tuple[FunctionNode, Module, bool] | None:
        owner = self.project.resolve(self.module, expr.value).certain
        held = owner.node if owner is not None else None
        if expr.attr == "apply" and owner is not None and owner.module is not None:
            if not is_autograd_function(self.project, owner.module, held):
                return None
            own = {n.name: n for n in getattr(held, "body", ()) if isinstance(n, ast.FunctionDef)}
            forward = own.get("forward")
            if forward is None:
                return None
            return forward, owner.module, "setup_context" not in own
        targets = [t for t in self.project.resolve(self.module, expr).targets if not t.is_none]
        if len(targets) != 1 or targets[0].module is None:
            return None
        function, module = targets[0].node, targets[0].module
        if not isinstance(function, ast.FunctionDef) or not isinstance(
            module.parents.get(function), ast.ClassDef
        ):
            return None
        kinds = {d.id for d in function.decorator_list if isinstance(d, ast.Name)}
        if "staticmethod" in kinds:
            return None
        return function, module, "classmethod" in kinds or not isinstance(held, ast.ClassDef)

    def op(self, expr: ast.expr) -> OpContract | None:
        """The declared contract of the op of the tree that an expression denotes, if told."""
        target = self._target(expr)
        found = None if target is None else _ops_of(self.project).find(target)
        if found is None or found.definition.mutates == "unknown":
            return None
        return contract_of(self.project, found)

    def outer(self, expr: ast.expr) -> Outer | None:
        """What a name or attribute that is bound outside the function stands for, if in sight."""
        if not isinstance(expr, ast.Name | ast.Attribute):
            return None
        return outer_of(self.project, self.module, expr)

    def _target(self, expr: ast.expr) -> Target | None:
        if not isinstance(expr, ast.Name | ast.Attribute):
            return None
        if expr not in self._targets:
            self._targets[expr] = self.project.resolve(self.module, expr).certain
        return self._targets[expr]


class _Ops:
    """The ops of a project, by their names and by the nodes whose value they are."""

    def __init__(self, ops: list[Op]) -> None:
        self.by_name: dict[str, Op | None] = {}
        self.by_node: dict[ast.AST, Op | None] = {}
        for op in ops:
            if op.definition.qualname is not None:
                known = op.qualname in self.by_name
                self.by_name[op.qualname] = None if known else op
            node = op.definition.result
            if node is not None:
                self.by_node[node] = None if node in self.by_node else op

    def find(self, target: Target) -> Op | None:
        if target.node is not None:
            return self.by_node.get(target.node)
        parts = (target.dotted or "").split(".")
        if parts[:2] != ["torch", "ops"] or len(parts) < 4:
            return None
        overload = "" if len(parts) == 4 or parts[4] == "default" else f".{parts[4]}"
        return self.by_name.get(f"{parts[2]}::{parts[3]}{overload}")


_KNOWN: WeakKeyDictionary[Project, _Ops] = WeakKeyDictionary()


def _ops_of(project: Project) -> _Ops:
    if project not in _KNOWN:
        _KNOWN[project] = _Ops(project.all_ops)
    return _KNOWN[project]
