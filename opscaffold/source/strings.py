"""Strings as far as the source tells them: literals, concatenation, f-strings, constants."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.resolve import Resolver
from opscaffold.source.scopes import How
from opscaffold.source.torch_api import INFER_SCHEMA

_MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression (or the definition a decorator stands on), and where its names are read."""

    module: Module
    node: ast.AST
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """What the parameters of functions that are being looked into stand for."""

    parameters: Mapping[ast.AST, Operand] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Text:
    """A string in pieces. A piece that is not known is a hole that shows its source."""

    pieces: tuple[tuple[str, bool], ...] = ()

    @property
    def value(self) -> str | None:
        """The string, or None where part of it is not known."""
        return (
            "".join(p for p, _ in self.pieces) if all(known for _, known in self.pieces) else None
        )

    @property
    def hint(self) -> str:
        """The string with ``{source}`` for what is not known."""
        return "".join(piece if known else f"{{{piece}}}" for piece, known in self.pieces)

    @property
    def start(self) -> str:
        """What is known of the string before the first hole."""
        known = ""
        for piece, sure in self.pieces:
            if not sure:
                break
            known += piece
        return known

    def __add__(self, other: Text) -> Text:
        """Join two strings."""
        return Text(self.pieces + other.pieces)


def known(text: str) -> Text:
    """Return a string that is fully known."""
    return Text(((text, True),))


def unknown(node: ast.AST) -> Text:
    """Return a string of which only the source is known."""
    try:
        return Text(((ast.unparse(node) if isinstance(node, ast.expr) else "?", False),))
    except RecursionError:
        return Text((("...", False),))


class Strings:
    """Reads strings out of expressions; parameters are looked up in a frame."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def text(self, operand: Operand, depth: int = 0) -> Text:
        """Return the string an expression yields, with holes where that is not known."""
        node, module, frame = operand.node, operand.module, operand.frame
        if depth > _MAX_DEPTH or not isinstance(node, ast.expr):
            return unknown(node)
        found = self._known(module, node, frame, depth)
        return unknown(node) if found is None else found

    def _known(
        self, module: Module, node: ast.expr, frame: Frame | None, depth: int
    ) -> Text | None:
        """Return the string of an expression whose form says something; else None."""

        def part(expression: ast.expr) -> Text:
            return self.text(Operand(module, expression, frame), depth + 1)

        if isinstance(node, ast.Constant):
            return known(str(node.value)) if isinstance(node.value, (str, int)) else None
        if isinstance(node, ast.JoinedStr):
            text = Text()
            for value in node.values:
                if isinstance(value, ast.Constant):
                    text += known(str(value.value))
                elif isinstance(value, ast.FormattedValue):
                    plain = value.format_spec is None and value.conversion in (-1, ord("s"))
                    text += part(value.value) if plain else unknown(value.value)
            return text
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return part(node.left) + part(node.right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return self._filled(part(node.left), "%s", [part(value) for value in values])
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "format"
            and not node.keywords
        ):
            given = [part(value) for value in node.args]
            return self._filled(part(node.func.value), "{}", given)
        if isinstance(node, ast.Attribute) and node.attr == "__name__":
            function = self.definition(Operand(module, node.value, frame))
            return None if isinstance(function, (ast.Lambda, type(None))) else known(function.name)
        if isinstance(node, ast.Call) and self.is_infer_schema(module, node):
            # Its text starts with the parenthesis, unless it is told to put a name before.
            named = any(k.arg == "op_name" for k in node.keywords)
            return None if named else known("(") + unknown(node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            followed = self.follow(Operand(module, node, frame))
            if followed is not None and followed.node is not node:
                return self.text(followed, depth + 1)
        return None

    def follow(self, operand: Operand) -> Operand | None:
        """Return what a parameter, or a name or attribute bound once, stands for.

        None where that is not sure.
        """
        node, module, frame = operand.node, operand.module, operand.frame
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings_of(module, node)
            if len(bindings) == 1:
                binding = bindings[0]
                if binding.how is How.PARAMETER and frame is not None:
                    return frame.parameters.get(binding.node)
                if binding.how is How.VALUE and binding.value is not None:
                    # Stay in the frame: the value may hold parameters of the same function.
                    return Operand(module, binding.value, frame)
        if isinstance(node, (ast.Name, ast.Attribute)):
            target = self.resolver.resolve(module, node).certain
            if target is not None and target.module is not None and target.node is not None:
                return Operand(target.module, target.node)
        return None

    def settle(self, operand: Operand) -> Operand:
        """Follow names and parameters as far as they lead."""
        for _ in range(_MAX_DEPTH):
            node = operand.node
            if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
                # `fake or fn`: the first that is not None decides.
                first = self.settle(Operand(operand.module, node.values[0], operand.frame))
                absent = isinstance(first.node, ast.Constant) and first.node.value is None
                if not absent or len(node.values) != 2:
                    return first
                operand = Operand(operand.module, node.values[1], operand.frame)
                continue
            followed = self.follow(operand) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if followed is None or followed.node is node:
                return operand
            operand = followed
        return operand

    def definition(self, operand: Operand) -> FunctionNode | ast.Lambda | None:
        """Return the function definition or lambda that an operand stands for, if it is sure."""
        node = self.settle(operand).node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return node
        return None

    def is_infer_schema(self, module: Module, node: ast.Call) -> bool:
        """Say whether a call is one of ``torch.library.infer_schema``."""
        return any(
            t.dotted == INFER_SCHEMA for t in self.resolver.resolve(module, node.func).targets
        )

    def inferred(self, operand: Operand, depth: int = 0) -> Operand | None:
        """Return the ``infer_schema`` call that a schema expression is made with, or None."""
        node = operand.node
        if depth > _MAX_DEPTH:
            return None
        if isinstance(node, ast.Call):
            return operand if self.is_infer_schema(operand.module, node) else None
        parts: list[ast.AST] = []
        if isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.JoinedStr):
            parts = [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
        elif isinstance(node, ast.Name):
            followed = self.follow(operand)
            return self.inferred(followed, depth + 1) if followed is not None else None
        for part in parts:
            found = self.inferred(Operand(operand.module, part, operand.frame), depth + 1)
            if found is not None:
                return found
        return None

    def names(self, operand: Operand) -> tuple[str, ...] | str | None:
        """Return the literal value of ``mutates_args``: names, or a string; None if not literal."""
        found = self.settle(operand)
        node = found.node
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Call) and not node.args and not node.keywords:
            empty = isinstance(node.func, ast.Name) and node.func.id in {"set", "tuple", "list"}
            return () if empty or ast.unparse(node.func) == "frozenset" else None
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            texts = [self.text(Operand(found.module, e, found.frame)).value for e in node.elts]
            values = tuple(text for text in texts if text is not None)
            return values if len(values) == len(texts) else None
        return None

    def _filled(self, template: Text, mark: str, values: list[Text]) -> Text | None:
        pieces = (template.value or "").split(mark)
        if template.value is None or len(pieces) != len(values) + 1:
            return None
        text = known(pieces[0])
        for value, piece in zip(values, pieces[1:], strict=True):
            text = text + value + known(piece)
        return text
