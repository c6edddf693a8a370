"""Strings that name an op: its qualname, or the dotted path to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opscaffold.patterns import pattern
from opscaffold.source.model import Module, Op, Reference, Use

if TYPE_CHECKING:
    from opscaffold.source.references import ReferenceFinder

_DOTTED = pattern(r"(?<![\w.])[^\W\d]\w*(?:\.[^\W\d]\w*)+(?![\w(]|::)")
_QUALNAME = pattern(r"(?<![\w.:])[^\W\d]\w*::\w+(?:\.\w+)?(?!\w|::)")


class StringReader:
    """Finds the ops that string constants name."""

    def __init__(self, finder: ReferenceFinder, ops: list[Op]) -> None:
        self.finder = finder
        self.by_bound_name: dict[str, list[Op]] = {}
        self._by_text: dict[str, list[Op]] = {}
        for op in ops:
            node = op.definition.result
            for name in self._names(op, node):
                self.by_bound_name.setdefault(name, []).append(op)
            if op.definition.qualname is not None:
                name, _, overload = op.name.partition(".")
                texts = {op.qualname, op.qualname.replace("::", ".")}
                if not overload:
                    texts |= {f"{op.qualname}.default", f"{op.namespace}.{name}.default"}
                for text in texts:
                    self._by_text.setdefault(text, []).append(op)

    def references(self, module: Module, node: ast.Constant, text: str) -> Iterator[Reference]:
        """Yield a reference for each op that a string names as a whole word."""
        ops: dict[Op, None] = {}
        if "::" in text:
            for match in _QUALNAME.finditer(text):
                ops.update(dict.fromkeys(self._by_text.get(match.group(), ())))
        if "." in text:
            for match in _DOTTED.finditer(text):
                word = match.group()
                found = self._by_text.get(word.removeprefix("torch.ops."), ())
                ops.update(dict.fromkeys(found or self._by_path(module, word)))
        for op in ops:
            yield Reference(op, module, node, Use.STRING)

    def in_call(self, module: Module, call: ast.Call) -> Iterator[Reference]:
        """Yield references for ``f(ops, "scale")``: an owner, and a name to read or set on it."""
        if isinstance(call.func, ast.Name) and call.func.id == "getattr":
            return
        resolver = self.finder.resolver
        for owner, name in zip(call.args, call.args[1:], strict=False):
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                continue
            if not isinstance(owner, (ast.Name, ast.Attribute)) or not name.value.isidentifier():
                continue
            base = resolver.resolve(module, owner)
            found = resolver.attribute(module, base, name.value, owner)
            for hit in self.finder.index.hits(found):
                yield Reference(hit.op, module, name, Use.STRING)

    def _by_path(self, module: Module, word: str) -> list[Op]:
        """Return the ops at ``package.module.name``."""
        head, _, last = word.rpartition(".")
        if last not in self.by_bound_name and not self._has_alias(last):
            return []
        resolver = self.finder.resolver
        found = resolver.dotted(head, module)
        if found.certain is None or not found.certain.is_module:
            return []
        return [h.op for h in self.finder.index.hits(resolver.attribute(module, found, last))]

    def _has_alias(self, name: str) -> bool:
        return name in self.finder.words

    def _names(self, op: Op, node: ast.AST | None) -> set[str]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return {node.name}
        if node is None:
            return set()
        parent = op.definition.module.parents.get(node)
        targets = parent.targets if isinstance(parent, ast.Assign) else []
        return {target.id for target in targets if isinstance(target, ast.Name)}
