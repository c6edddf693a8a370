"""Strings as far as the source tells them: literals, concatenation, f-strings, constants."""

from __future__ import annotations

import ast
from collections.abc import Callable

from opscaffold.source.model import Module
from opscaffold.source.operands import MAX_DEPTH, Frame, Operand, Operands
from opscaffold.source.resolve import Resolver
from opscaffold.source.scopes import How
from opscaffold.source.texts import Text, known, unknown
from opscaffold.source.torch_api import INFER_SCHEMA

_BUILT = frozenset({"set", "tuple", "list", "frozenset", "sorted"})
# Methods of str that are applied to a string that is fully known.
_METHODS = frozenset(
    {
        "capitalize",
        "lower",
        "lstrip",
        "removeprefix",
        "removesuffix",
        "replace",
        "rstrip",
        "strip",
        "title",
        "upper",
    }
)
_STRIPPING = frozenset({"lstrip", "rstrip", "strip"})
_SPLITTING = frozenset({"partition", "rpartition", "split", "rsplit"})


PartReader = Callable[[ast.expr], Text]


class Strings(Operands):
    """Reads strings out of expressions; parameters are looked up in a frame."""

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(resolver)
        self._agreeing: set[ast.AST] = set()

    def constant(self, operand: Operand) -> ast.Constant | None:
        """Return the constant that an operand comes to, strings put together where need be."""
        found = super().constant(operand)
        if found is not None:
            return found
        text = self.text(operand).value
        return None if text is None else ast.Constant(text)

    def text(self, operand: Operand, depth: int = 0) -> Text:
        """Return the string an expression yields, with holes where that is not known."""
        node = operand.node
        if depth > MAX_DEPTH or not isinstance(node, ast.expr):
            return unknown(node)
        found = self._known(operand.module, node, operand.frame, depth)
        return unknown(node) if found is None else found

    def _known(
        self, module: Module, node: ast.expr, frame: Frame | None, depth: int
    ) -> Text | None:
        """Return the string of an expression whose form says something; else None."""

        def part(expression: ast.expr) -> Text:
            return self.text(Operand(module, expression, frame), depth + 1)

        match node:
            case ast.Constant(value=str() | int() as value):
                return known(str(value))
            case ast.Constant():
                return None
            case ast.JoinedStr(values=values):
                text = Text()
                for piece in values:
                    if isinstance(piece, ast.Constant):
                        text += known(str(piece.value))
                    elif isinstance(piece, ast.FormattedValue):
                        plain = piece.format_spec is None and piece.conversion in (-1, ord("s"))
                        text += part(piece.value) if plain else unknown(piece.value)
                return text
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return part(left) + part(right)
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                values = right.elts if isinstance(right, ast.Tuple) else [right]
                return self._filled(part(left), "%s", [part(value) for value in values])
            case ast.Attribute(value=base, attr="__name__"):
                function = self.definition(Operand(module, base, frame))
                if isinstance(function, (ast.Lambda, type(None))):
                    return None
                return known(function.name)
            case ast.Attribute(value=ast.Attribute() as base, attr="value"):
                return part(base) if self._is_enum_member(module, base) else None
            case ast.Call() if self.is_infer_schema(module, node):
                # Its text starts with the parenthesis, unless it is told to put a name before.
                given = next((k.value for k in node.keywords if k.arg == "op_name"), None)
                start = part(given) if given is not None else Text()
                return start + known("(") + unknown(node)
            case ast.Call(func=ast.Attribute(value=base, attr=method)):
                found = self._method(node, part, base, method)
                if found is not None:
                    return found
            case ast.Subscript(value=base, slice=index):
                found = self._cut(module, base, index, frame, depth)
                if found is not None:
                    return found
        followed = self.follow(Operand(module, node, frame))
        if followed is not None and followed.node is not node:
            return self.text(followed, depth + 1)
        if isinstance(node, ast.Name):
            return self._agreed(module, node, frame, depth)
        return None

    def _method(self, call: ast.Call, part: PartReader, base: ast.expr, method: str) -> Text | None:
        if method == "format":
            template = part(base)
            for keyword in call.keywords:
                if keyword.arg is None or template.value is None:
                    return None
            return self._formatted(template, call, part)
        if method == "join" and len(call.args) == 1 and not call.keywords:
            given = call.args[0]
            if not isinstance(given, (ast.List, ast.Tuple)) or not given.elts:
                return None
            text, mark = part(given.elts[0]), part(base)
            for element in given.elts[1:]:
                text = text + mark + part(element)
            return text
        if method not in _METHODS or call.keywords:
            return None
        text = part(base)
        value = text.value
        if value is None and method in _STRIPPING and not call.args:
            return text
        arguments = [part(argument).value for argument in call.args]
        if value is None or None in arguments:
            return None
        try:
            return known(str(getattr(value, method)(*arguments)))
        except (TypeError, ValueError):
            return None

    def _cut(
        self, module: Module, base: ast.expr, index: ast.expr, frame: Frame | None, depth: int
    ) -> Text | None:
        """Return ``name[1:]`` and ``schema.split("(")[0]`` of a string."""

        def number(expression: ast.expr) -> int | None:
            match expression:
                case ast.Call(func=ast.Name(id="len"), args=[measured], keywords=[]):
                    text = self.text(Operand(module, measured, frame), depth + 1).value
                    return None if text is None else len(text)
                case ast.Call(
                    func=ast.Attribute(value=searched, attr="index" | "find"),
                    args=[mark],
                    keywords=[],
                ):
                    text = self.text(Operand(module, searched, frame), depth + 1).value
                    by = self.text(Operand(module, mark, frame), depth + 1).value
                    return None if text is None or not by or by not in text else text.index(by)
            return _number(expression)

        if isinstance(index, ast.Slice):
            value = self.text(Operand(module, base, frame), depth + 1).value
            lower = None if index.lower is None else number(index.lower)
            upper = None if index.upper is None else number(index.upper)
            lost = (lower is None) is not (index.lower is None)
            lost = lost or (upper is None) is not (index.upper is None)
            if value is None or index.step is not None or lost:
                return None
            return known(value[lower:upper])
        match base:
            case ast.Call(
                func=ast.Attribute(value=whole, attr=method), args=[mark, *most], keywords=named
            ) if method in _SPLITTING:
                text = self.text(Operand(module, whole, frame), depth + 1)
                by = self.text(Operand(module, mark, frame), depth + 1).value
                at = _number(index)
                limits = [*most, *(keyword.value for keyword in named)]
                limit = _number(limits[0]) if limits else -1
                if not by or at is None or limit is None:
                    return None
                if text.value is None:
                    if at != 0 or method not in ("split", "partition"):
                        return None
                    return text.before(by) if text.has(by) else known(text.start) + unknown(whole)
                arguments = (by, limit) if "split" in method else (by,)
                try:
                    return known(getattr(text.value, method)(*arguments)[at])
                except IndexError:
                    return None
        at = _number(index)
        value = None if at is None else self.text(Operand(module, base, frame), depth + 1).value
        if value is not None and at is not None and -len(value) <= at < len(value):
            return known(value[at])
        return None

    def _agreed(
        self, module: Module, name: ast.Name, frame: Frame | None, depth: int
    ) -> Text | None:
        """Return what all values that a name may have say alike."""
        values = [
            binding.value if binding.how is How.VALUE else None
            for binding in self.resolver.bindings_of(module, name)
        ]
        if len(values) < 2 or None in values or name in self._agreeing:
            return None
        self._agreeing.add(name)
        texts = [self.text(Operand(module, v, frame), depth + 1) for v in values if v is not None]
        self._agreeing.discard(name)
        if all(text == texts[0] for text in texts):
            return texts[0]
        if all(text.start.startswith("(") for text in texts):
            # Schemas without a name, in whatever way each release writes them.
            return known("(") + unknown(name)
        return None

    def _is_enum_member(self, module: Module, node: ast.Attribute) -> bool:
        for target in self.resolver.resolve(module, node.value).targets:
            if target.module is not None and isinstance(target.node, ast.ClassDef):
                bases = target.node.bases
                return any(
                    (self.dotted(Operand(target.module, base)) or "").startswith("enum.")
                    for base in bases
                )
        return False

    def is_infer_schema(self, module: Module, node: ast.Call) -> bool:
        """Say whether a call is one of ``torch.library.infer_schema``."""
        return any(
            t.dotted in INFER_SCHEMA for t in self.resolver.resolve(module, node.func).targets
        )

    def inferred(self, operand: Operand, depth: int = 0) -> Operand | None:
        """Return the ``infer_schema`` call that a schema expression is made with, or None."""
        node = operand.node
        if depth > MAX_DEPTH:
            return None
        if isinstance(node, ast.Call) and self.is_infer_schema(operand.module, node):
            return operand
        parts: list[ast.AST] = []
        if isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.JoinedStr):
            parts = [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
        else:
            followed = self.follow(operand)
            if followed is not None and followed.node is not node:
                return self.inferred(followed, depth + 1)
            if isinstance(node, ast.Name):
                bindings = self.resolver.bindings_of(operand.module, node)
                parts = [b.value for b in bindings if b.value is not None]
        for part in parts:
            found = self.inferred(Operand(operand.module, part, operand.frame), depth + 1)
            if found is not None:
                return found
        return None

    def names(self, operand: Operand, depth: int = 0) -> tuple[str, ...] | str | None:
        """Return the literal value of ``mutates_args``: names, or a string; None if not literal.

        A dict stands for its keys, as it does for torch.
        """
        found = self.settle(operand)
        node = found.node

        def inner(expression: ast.expr) -> tuple[str, ...] | None:
            names = self.names(Operand(found.module, expression, found.frame), depth + 1)
            return names if isinstance(names, tuple) else None

        if depth > MAX_DEPTH:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Call) and not node.keywords and len(node.args) < 2:
            called = self.dotted(Operand(found.module, node.func)) or ""
            if called == "builtins.dict" and not node.args:
                return ()
            if called.removeprefix("builtins.") in _BUILT:
                return inner(node.args[0]) if node.args else ()
            return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.BitOr)):
            left, right = inner(node.left), inner(node.right)
            return None if left is None or right is None else (*left, *right)
        elements: list[ast.expr] = []
        if isinstance(node, ast.Dict):
            elements = [key for key in node.keys if key is not None]
            if len(elements) != len(node.keys):
                return None
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            elements = node.elts
        else:
            return None
        values: list[str] = []
        for element in elements:
            if isinstance(element, ast.Starred):
                several = inner(element.value)
                if several is None:
                    return None
                values += several
                continue
            text = self.text(Operand(found.module, element, found.frame)).value
            if text is None:
                return None
            values.append(text)
        return tuple(values)

    def _formatted(self, template: Text, call: ast.Call, part: PartReader) -> Text | None:
        """Fill ``"{}::{name}".format(ns, name=...)``; only plain fields."""
        pieces = (template.value or "").split("{")
        text = known(pieces[0])
        unnumbered = 0
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        for piece in pieces[1:]:
            field, closed, rest = piece.partition("}")
            if not closed or "}" in rest:
                return None
            value: ast.expr | None = None
            if not field:
                value = call.args[unnumbered] if unnumbered < len(call.args) else None
                unnumbered += 1
            elif field.isdigit():
                value = call.args[int(field)] if int(field) < len(call.args) else None
            else:
                value = named.get(field)
            if value is None or isinstance(value, ast.Starred):
                return None
            text = text + part(value) + known(rest)
        return text

    def _filled(self, template: Text, mark: str, values: list[Text]) -> Text | None:
        pieces = (template.value or "").split(mark)
        if template.value is None or len(pieces) != len(values) + 1:
            return None
        text = known(pieces[0])
        for value, piece in zip(values, pieces[1:], strict=True):
            text = text + value + known(piece)
        return text


def _number(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    return None
