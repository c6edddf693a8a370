"""Reading kernels given as text, with names resolved as in a module that imports torch."""

from __future__ import annotations

import ast
import textwrap

from opscaffold.effects.trace import FunctionNode


class PlainNames:
    """The names of one module: torch, and the functions that stand in it."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}

    def dotted(self, expr: ast.expr) -> str | None:
        parts: list[str] = []
        while isinstance(expr, ast.Attribute):
            parts.append(expr.attr)
            expr = expr.value
        if isinstance(expr, ast.Name) and expr.id in {"torch", "math", "numpy", "functools"}:
            return ".".join([expr.id, *reversed(parts)])
        return None

    def function(self, expr: ast.expr) -> tuple[FunctionNode, PlainNames] | None:
        if isinstance(expr, ast.Name) and expr.id in self.functions:
            return self.functions[expr.id], self
        return None

    def method(self, expr: ast.Attribute) -> None:
        del expr

    def op(self, expr: ast.expr) -> None:
        return None

    def outer(self, expr: ast.expr) -> None:
        return None


def kernel(
    body: str, parameters: str = "x, out=None", more: str = ""
) -> tuple[ast.FunctionDef, PlainNames]:
    """A function with this body, behind more definitions."""
    head = textwrap.dedent(more)
    text = f"{head}\ndef kernel({parameters}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    tree = ast.parse(text)
    function = tree.body[-1]
    assert isinstance(function, ast.FunctionDef)
    return function, PlainNames(tree)
