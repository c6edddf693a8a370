"""Definitions of one name of which a run of the module takes exactly one."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from opscaffold.migrate.refusal import RefusalError
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def alternatives_of(project: Project, op: Op) -> tuple[Op, ...]:
    """The other definitions of an op, each in a branch of its own.

    Raises RefusalError where the op may be defined twice in one run.
    """
    definition = op.definition
    found = []
    for other in project.all_ops:
        if other.qualname != op.qualname or other is op:
            continue
        here = other.definition
        if here.module is not definition.module or not _is_exclusive(
            here.module, here.statement, definition.statement
        ):
            raise RefusalError(
                definition.statement,
                f"`{op.qualname}` is registered more than once",
                "keep one registration",
            )
        found.append(other)
    return tuple(found)


def twins_of(
    module: Module, function: ast.FunctionDef, alternatives: Iterable[Op] = ()
) -> list[ast.FunctionDef]:
    """The plain functions that stand for an op in the branches where it is not registered.

    They have its name and parameters, and stand in another arm of an ``if`` or ``try`` around it.
    Functions that ``alternatives`` register are none. Raises RefusalError where one has other
    parameters.
    """
    registered = {function, *(o.definition.function for o in alternatives)}
    found = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef) or node.name != function.name:
            continue
        if node in registered:
            continue
        if not _is_exclusive(module, function, node):
            continue
        if _shape(node) != _shape(function):
            raise RefusalError(
                node,
                f"`{node.name}` has other parameters in this branch",
                "give it the same parameters in every branch",
            )
        found.append(node)
    return found


def _shape(function: ast.FunctionDef) -> tuple[object, ...]:
    """The parameters of a function: their names, kinds, and which may be omitted."""
    spec = function.args
    return (
        [a.arg for a in spec.posonlyargs],
        [a.arg for a in spec.args],
        len(spec.defaults),
        [(a.arg, d is None) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)],
        None if spec.vararg is None else spec.vararg.arg,
        None if spec.kwarg is None else spec.kwarg.arg,
    )


def _is_exclusive(module: Module, one: ast.AST, other: ast.AST) -> bool:
    """Whether two nodes stand in different arms, of which one is taken."""
    ones, others = _arms(module, one), _arms(module, other)
    if ones is None or others is None:
        return False
    for holder, arm in ones.items():
        if holder not in others:
            continue
        arms = {arm, others[holder]}
        if isinstance(holder, ast.If) and arms == {"body", "orelse"}:
            return True
        if isinstance(holder, ast.Try) and "handlers" in arms and arms & {"body", "orelse"}:
            return True
    return False


def _arms(module: Module, node: ast.AST) -> dict[ast.AST, str] | None:
    """The statements around a node with the arm of each that it stands in; None in a scope."""
    arms: dict[ast.AST, str] = {}
    parent = module.parents.get(node)
    while parent is not None:
        if isinstance(parent, _SCOPES):
            return None
        for name in ("body", "orelse", "handlers", "finalbody"):
            if any(child is node for child in getattr(parent, name, ()) or ()):
                arms[parent] = name
        node, parent = parent, module.parents.get(parent)
    return arms
