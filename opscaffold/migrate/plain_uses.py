"""Where a function that is registered for an op is used as a function too."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from opscaffold.rules.functions import AnyFunction
from opscaffold.source.model import Module, Op, Registration
from opscaffold.source.project import Project


def other_use(
    project: Project, function: AnyFunction, registrations: Iterable[Registration]
) -> tuple[Module, ast.AST] | None:
    """A use of a function outside these registrations; None where there is none in sight."""
    if isinstance(function, ast.Lambda) or function.name == "_":
        return None
    inside = {id(n) for r in registrations for n in _registering(r)}
    for module in _naming(project, function.name):
        for node in module.parents:
            match node:
                case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                    if name != function.name or id(node) in inside:
                        continue
                case _:
                    continue
            if any(t.node is function for t in project.resolve(module, node).targets):
                return module, node
    return None


def _naming(project: Project, name: str) -> Iterator[Module]:
    """The modules that hold a name: also those that know nothing of ops."""
    for path in project.files:
        if name.encode() in (project.read(path) or b""):
            module = project.module_for(path)
            if module is not None:
                yield module


def registrations_of(op: Op, function: AnyFunction) -> list[Registration]:
    """The registrations of an op that hand over a function."""
    return [r for r in (op.definition, *op.attached) if r.function is function]


def _registering(registration: Registration) -> Iterator[ast.AST]:
    yield from ast.walk(registration.call or registration.statement)
    if registration.result is not None:
        yield from ast.walk(registration.result)
