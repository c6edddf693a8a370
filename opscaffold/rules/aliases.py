"""Annotations that go by another name: ``OptTensor = Optional[Tensor]``, ``Optional as Opt``.

PyTorch reads the object that an annotation stands for, so an alias declares what it was made of.
"""

from __future__ import annotations

import ast

from opscaffold.source.model import Module
from opscaffold.source.project import Project

_MAX_DEPTH = 8


def spelled_out(project: Project, module: Module, annotation: ast.expr) -> ast.expr:
    """The annotation without the project's own names for types; itself where it has none.

    What an alias stands for is written with full names, so that any module may read it.
    """
    return _spelled(project, module, annotation, depth=0)


def _spelled(project: Project, module: Module, node: ast.expr, *, depth: int) -> ast.expr:
    def part(inner: ast.expr) -> ast.expr:
        return _spelled(project, module, inner, depth=depth)

    match node:
        case ast.Name() | ast.Attribute():
            return _named(project, module, node, depth)
        case ast.Constant(value=str(text)):
            try:
                inner = ast.parse(text.strip(), mode="eval").body
            except (SyntaxError, ValueError):
                return node
            spelled = part(inner)
            same = spelled is inner
            return node if same else ast.copy_location(ast.Constant(ast.unparse(spelled)), node)
        case ast.Subscript(value=value, slice=index, ctx=ctx):
            head, rest = part(value), part(index)
            if head is value and rest is index:
                return node
            return ast.copy_location(ast.Subscript(head, rest, ctx), node)
        case ast.BinOp(left=left, op=op, right=right):
            one, other = part(left), part(right)
            if one is left and other is right:
                return node
            return ast.copy_location(ast.BinOp(one, op, other), node)
        case ast.Tuple(elts=parts, ctx=ctx):
            found = [part(p) for p in parts]
            if all(a is b for a, b in zip(found, parts, strict=True)):
                return node
            return ast.copy_location(ast.Tuple(found, ctx), node)
    return node


def _named(
    project: Project, module: Module, node: ast.Name | ast.Attribute, depth: int
) -> ast.expr:
    target = project.resolve(module, node).certain
    if target is None:
        return node
    if target.dotted is not None:
        word = node.id if isinstance(node, ast.Name) else node.attr
        if target.dotted.startswith("builtins.") or (
            depth == 0 and target.dotted.rpartition(".")[2] == word
        ):
            return node
        return ast.copy_location(ast.parse(target.dotted, mode="eval").body, node)
    made = target.node
    if target.module is None or depth >= _MAX_DEPTH:
        return node
    if isinstance(made, ast.Subscript | ast.BinOp) or (
        isinstance(made, ast.Constant) and isinstance(made.value, str)
    ):
        return _spelled(project, target.module, made, depth=depth + 1)
    return node
