"""How the analysis of effects resolves names: through the project that was read."""

from __future__ import annotations

import ast

from opscaffold.effects.trace import FunctionNode, Names
from opscaffold.source.model import Module
from opscaffold.source.project import Project
from opscaffold.source.resolve import Target


class ProjectNames:
    """The names one module sees."""

    def __init__(self, project: Project, module: Module) -> None:
        self.project = project
        self.module = module
        self._targets: dict[ast.expr, Target | None] = {}

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

    def _target(self, expr: ast.expr) -> Target | None:
        if not isinstance(expr, ast.Name | ast.Attribute):
            return None
        if expr not in self._targets:
            self._targets[expr] = self.project.resolve(self.module, expr).certain
        return self._targets[expr]
