"""Following assignments: what names, elements and attributes stand for afterwards."""

from __future__ import annotations

import ast
from dataclasses import replace

from opscaffold.effects.calls import Calls
from opscaffold.effects.expressions import covers_all, literal_key
from opscaffold.effects.trace import Effect, Names, Trace
from opscaffold.effects.values import UNSEEN, Env, Value, join, merged


class Assignments(Calls):
    """Adds binding values to targets.

    ``lasting`` are local names of what is bound outside, ``put`` the values that were stored into
    containers, by the target of the assignment.
    """

    def __init__(self, names: Names, trace: Trace) -> None:
        super().__init__(names, trace)
        self.lasting: set[str] = set()
        self.put: dict[ast.expr, Value] = {}

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
                    known = self.put.get(target)
                    self.put[target] = value if known is None else join(known, value)
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
                if target.attr == "data" and isinstance(target.value, ast.Name) and value.refs:
                    env.names[target.value.id] = value.viewed(whole=True)
                    return
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
            part = value.element(index)
            self.bind(element, replace(part, null=False if known else None), env)

    def capture(self, pattern: ast.pattern, value: Value, env: Env) -> None:
        """Bind the names of a pattern that a value fits."""
        match pattern:
            case ast.MatchAs(pattern=inner, name=name):
                if inner is not None:
                    self.capture(inner, value, env)
                if name is not None:
                    env.names[name] = value
            case ast.MatchSequence(patterns=parts) if (
                value.items is not None
                and value.keys is None
                and len(parts) == len(value.items)
                and not any(isinstance(part, ast.MatchStar) for part in parts)
            ):
                for part, item in zip(parts, value.items, strict=True):
                    self.capture(part, item, env)
            case _:
                for inside in ast.walk(pattern):
                    name = getattr(inside, "name", None) or getattr(inside, "rest", None)
                    if isinstance(name, str):
                        env.names[name] = Value(refs=value.guessed() | {UNSEEN})

    def augment(self, node: ast.AugAssign, env: Env) -> None:
        """Follow ``x += y``: in place where x is a tensor."""
        value = self.value(node.value, env)
        match node.target:
            case ast.Name() as name:
                current = self.lookup(name, env)
                if current.items is not None and value.items is not None and not current.keys:
                    joined = current.items + value.items
                    env.names[name.id] = Value(False, items=joined, container=current.container)
                    return
                if current.container or current.items is not None or value.items is not None:
                    self.store(name, current, [value], node, env, more=True)
                    return
                self.read([value], node, env)
                if isinstance(node.op, ast.MatMult) and not any(r.array for r in current.refs):
                    # Tensors have no matrix product in place.
                    self.read([current], node, env)
                    env.names[name.id] = self.computed(node.value, [current, value])
                    return
                self.emit(Effect.UPDATE, current, node, env)
                if not current.all_refs():
                    env.names[name.id] = self.computed(node.value, [value])
            case ast.Subscript() | ast.Attribute():
                self.read([value], node, env)
                owner = self.value(node.target.value, env)
                if isinstance(node.target, ast.Subscript):
                    key = literal_key(node.target.slice)
                    known = None if key is None else owner.at(key)
                    if known is not None:
                        self.emit(Effect.UPDATE, known, node, env)
                        return
                    if owner.container and len(owner.roots) > 1:
                        # Which of the elements that is cannot be told.
                        owner = replace(owner, refs=owner.guessed(), items=None)
                if isinstance(node.target, ast.Subscript) and _is_key(node.target.slice):
                    owner = replace(owner, refs=owner.guessed(), items=None)
                self.emit(Effect.UPDATE, owner, node, env)


def _is_key(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str)
