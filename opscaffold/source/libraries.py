"""The Library objects that an expression may stand for, and the namespaces they define in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.source.classes import class_of_self
from opscaffold.source.frames import Use, bind, of_instance, returned_values
from opscaffold.source.model import Module
from opscaffold.source.operands import DEFINITIONS, Operand, Operands, parts
from opscaffold.source.scopes import How
from opscaffold.source.torch_api import LIBRARY, SCOPED_LIBRARY

_MAX_DEPTH = 8


class Libraries:
    """Finds Library objects: by name, in a container, from a function, of a subclass."""

    def __init__(self, operands: Operands) -> None:
        self._operands = operands
        self._resolver = operands.resolver

    def any(self, operand: Operand) -> bool:
        """Say whether an expression may be a Library made in sight."""
        return next(self.namespaces(operand), None) is not None

    def namespaces(self, operand: Operand, depth: int = 0) -> Iterator[Operand]:
        """Yield the namespace argument of each Library that an expression may be.

        It is the call that makes the Library where that gives none.
        """
        if depth > _MAX_DEPTH:
            return
        settled = self._operands.settle(operand)
        for node in parts(settled.node):
            yield from self._of(Operand(settled.module, node, settled.frame), depth)

    def _of(self, operand: Operand, depth: int) -> Iterator[Operand]:
        node, module, frame = operand.node, operand.module, operand.frame
        if isinstance(node, ast.Call):
            yield from self._made(operand, depth)
        elif isinstance(node, ast.Subscript):
            entries = self._operands.entries(Operand(module, node.value, frame)) or {}
            for entry in entries.values():
                yield from self.namespaces(entry, depth + 1)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            if isinstance(node, ast.Name):
                yield from self._bound(operand, node, depth)
            for target in self._resolver.resolve(module, node).targets:
                if target.module is None or target.node is node:
                    continue
                if isinstance(target.node, ast.expr):
                    made = Operand(target.module, target.node, frame)
                    yield from self.namespaces(made, depth + 1)

    def _bound(self, operand: Operand, node: ast.Name, depth: int) -> Iterator[Operand]:
        for binding in self._resolver.bindings_of(operand.module, node):
            if binding.how is How.ENTERED and binding.value is not None:
                yield from self._made(Operand(operand.module, binding.value, operand.frame), depth)
            holder = class_of_self(operand.module, binding.node)
            if holder is not None and self.is_kind(operand.module, holder):
                yield operand

    def _made(self, operand: Operand, depth: int) -> Iterator[Operand]:
        node, module, frame = operand.node, operand.module, operand.frame
        if not isinstance(node, ast.Call):
            return
        for target in self._resolver.resolve(module, node.func).targets:
            if target.dotted in (LIBRARY, SCOPED_LIBRARY):
                given = self._operands.arguments(node, module, frame, ("ns",)).get("ns")
                yield given or operand
            elif target.module is None:
                continue
            elif isinstance(target.node, ast.ClassDef):
                yield from self._of_kind(operand, node, Operand(target.module, target.node))
            elif isinstance(target.node, DEFINITIONS):
                use = Use(module, node.func, node, None)
                inner = bind(self._operands, target.module, target.node, use, frame)
                for value in returned_values(target.node):
                    yield from self.namespaces(Operand(target.module, value, inner), depth + 1)

    def _of_kind(self, made: Operand, call: ast.Call, kind: Operand) -> Iterator[Operand]:
        """Yield the namespace of an instance of a subclass of Library."""
        if not isinstance(kind.node, ast.ClassDef) or not self.is_kind(kind.module, kind.node):
            return
        frame = of_instance(self._operands, made, kind, made.frame)
        for inner in ast.walk(kind.node):
            match inner:
                case ast.Call(
                    func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__")
                ):
                    given = self._operands.arguments(inner, kind.module, frame, ("ns",))
                    yield given.get("ns", made)
                    return
        given = self._operands.arguments(call, made.module, made.frame, ("ns",))
        yield given.get("ns", made)

    def is_kind(self, module: Module, node: ast.ClassDef, depth: int = 0) -> bool:
        """Say whether a class is made from Library."""
        targets = [
            target
            for base in (node.bases if depth <= _MAX_DEPTH else ())
            for target in self._resolver.resolve(module, base).targets
        ]
        return any(
            target.dotted == LIBRARY
            or (
                target.module is not None
                and isinstance(target.node, ast.ClassDef)
                and self.is_kind(target.module, target.node, depth + 1)
            )
            for target in targets
        )
