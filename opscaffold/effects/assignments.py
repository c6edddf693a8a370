"""Following assignments: what names, elements and attributes stand for afterwards."""

from __future__ import annotations

import ast
from dataclasses import replace

from opscaffold.effects.calls import Calls
from opscaffold.effects.expressions import covers_all
from opscaffold.effects.trace import Effect, Names, Trace
from opscaffold.effects.values import UNSEEN, Env, Ref, Value, merged


class Assignments(Calls):
    """Adds binding values to targets. ``lasting`` are local names of what is bound outside."""

    def __init__(self, names: Names, trace: Trace) -> None:
        super().__init__(names, trace)
        self.lasting: set[str] = set()

    def bind(self, target: ast.expr, value: Value, env: Env) -> None:
        """Assign a value to a target."""
        match target:
            case ast.Name():
                if target.id in self.lasting:
                    self.emit(Effect.KEEP, value, target, env)
                env.names[target.id] = value
            case ast.Tuple() | ast.List():
                self.unpack(target, value, env)
            case ast.Subscript():
                owner, index = self.value(target.value, env), self.value(target.slice, env)
                if owner.container or owner.items is not None:
                    self.store(target.value, owner, [value], target, env)
                    return
                if _is_key(target.slice):
                    # A dict among the elements of something: no tensor has words for an index.
                    self.emit(Effect.OPAQUE, value, target, env)
                    return
                self.read([value, index], target, env)
                whole = covers_all(target.slice)
                self.emit(Effect.WRITE if whole else Effect.WRITE_PART, owner, target, env)
            case ast.Attribute():
                owner = self.value(target.value, env)
                if target.attr == "data":
                    self.emit(Effect.RESHAPE, owner, target, env)
                elif target.attr in {"real", "imag"}:
                    self.emit(Effect.WRITE_PART, owner, target, env)
                local = owner.all_refs() - {UNSEEN}
                self.emit(Effect.OPAQUE if local else Effect.KEEP, value, target, env)
            case ast.Starred():
                self.bind(target.value, merged([value]), env)

    def unpack(self, target: ast.Tuple | ast.List, value: Value, env: Env) -> None:
        """Assign the elements of a value to the elements of a target."""
        items = value.items
        starred = any(isinstance(e, ast.Starred) for e in target.elts)
        if items is not None and len(items) == len(target.elts) and not starred:
            for element, item in zip(target.elts, items, strict=True):
                self.bind(element, item, env)
            return
        if items is not None and starred and len(items) >= len(target.elts) - 1:
            place = next(i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred))
            behind = len(target.elts) - place - 1
            rest = Value(False, items=items[place : len(items) - behind], container=True)
            parts = [*items[:place], rest, *items[len(items) - behind :]]
            for element, item in zip(target.elts, parts, strict=True):
                self.bind(element.value if isinstance(element, ast.Starred) else element, item, env)
            return
        inside = value.container or items is not None
        for index, element in enumerate(target.elts):
            known = not inside and value.is_tensor
            separate = replace(value, refs=_separate(value))
            part = separate.element(index)
            self.bind(element, replace(part, null=False if known else None), env)

    def augment(self, node: ast.AugAssign, env: Env) -> None:
        """Follow ``x += y``: in place where x is a tensor."""
        value = self.value(node.value, env)
        match node.target:
            case ast.Name() as name:
                current = self.lookup(name, env)
                if current.container or current.items is not None or value.items is not None:
                    self.store(name, current, [value], node, env, more=True)
                    return
                self.read([value], node, env)
                self.emit(Effect.UPDATE, current, node, env)
                if not current.all_refs():
                    env.names[name.id] = self.computed(node.value, [value])
            case ast.Subscript() | ast.Attribute():
                self.read([value], node, env)
                owner = self.value(node.target.value, env)
                if isinstance(node.target, ast.Subscript) and _is_key(node.target.slice):
                    owner = replace(owner, refs=owner.guessed(), items=None)
                self.emit(Effect.UPDATE, owner, node, env)


def _separate(value: Value) -> frozenset[Ref]:
    """The memory of a tuple of tensors: a call that returns several new ones keeps them apart."""
    return frozenset(
        replace(r, several=True) if r.exact and r.root.startswith("fresh:") else r
        for r in value.all_refs()
    )


def _is_key(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str)
