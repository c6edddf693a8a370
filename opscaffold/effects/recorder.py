"""Recording what happens to memory, and looking names up: what all evaluation stands on."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace

from opscaffold.effects import aten
from opscaffold.effects.terms import of_constant, split
from opscaffold.effects.trace import MUTATIONS, Effect, Event, Names, OuterKind, Trace
from opscaffold.effects.values import ANYTHING, UNSEEN, Env, Value, fresh, outer

_SHARED = frozenset({Effect.OPAQUE, Effect.KEEP})


class Recorder(ABC):
    """Holds the names and the trace; ``within`` and ``looping`` say where allocations are made.

    ``assumed`` says how tests of these terms come out, ``devices`` on which types of device the
    arguments stand (empty where that is not known).
    """

    def __init__(self, names: Names, trace: Trace) -> None:
        self.names = names
        self.trace = trace
        self.within = ""
        self.looping = 0
        self.assumed: Mapping[str, bool] = {}
        self.devices: frozenset[str] = frozenset()
        self.resized: set[str] = set()
        self.inner: set[ast.AST] = set()

    def emit(self, effect: Effect, value: Value, node: ast.AST, env: Env) -> None:
        """Record an effect on everything a value stands on."""
        every = value.all_refs()
        refs = every - {UNSEEN}
        roots = {ref.root for ref in refs}
        sure = len({ref.root for ref in every}) == 1
        for root in sorted(roots):
            own = [ref for ref in refs if ref.root == root]
            actual = effect
            if effect is Effect.WRITE and not (len(roots) == 1 and all(r.whole for r in own)):
                actual = Effect.WRITE_PART
            known = not all(ref.guess for ref in own)
            perhaps = all(ref.perhaps for ref in own)
            first = root not in env.touched
            event = Event(actual, root, node, root in env.written, sure, known, perhaps, first)
            self.trace.events.append(event)
            if actual is Effect.RESHAPE:
                self.resized.add(root)
            if actual is Effect.WRITE:
                env.written |= {root}
            if actual in MUTATIONS and sure and known and not any(ref.perhaps for ref in own):
                env.mutated |= {root}
            if actual in MUTATIONS or actual in _SHARED:
                env.touched |= {root}

    def new(self, node: ast.expr, *, several: bool = False) -> Value:
        """A tensor, or several, allocated by an expression."""
        value = fresh(node.lineno, node.col_offset, self.within, several=several)
        if self.looping:
            self.trace.repeated |= value.roots
        return value

    def allocated(self, node: ast.expr, name: str) -> Value:
        """What an allocator of this name returns: its contents may be undefined."""
        value = self.new(node)
        if name in aten.EMPTY_ALLOCATORS:
            self.trace.undefined |= value.roots
        return value

    def assume(self, term: str | None, node: ast.AST) -> bool | None:
        """How a test of this term comes out on the path that is followed."""
        if term is None:
            return None
        asked, positive = split(term)
        self.trace.asked.setdefault(asked, set()).add((node, self.within))
        answer = self.assumed.get(asked)
        return None if answer is None else answer is positive

    def told(self, term: str | None) -> bool | None:
        """How a test of this term comes out where another one asked it; nothing is asked."""
        if term is None:
            return None
        asked, positive = split(term)
        answer = self.assumed.get(asked)
        return None if answer is None else answer is positive

    def metadata_term(self, owner: Value, text: str) -> str | None:
        """The term of what is asked of a tensor's metadata, where those stay what they are."""
        if owner.term is None or owner.roots & self.resized:
            return None
        return f"{owner.term}.{text}"

    def read(self, values: Iterable[Value], node: ast.AST, env: Env) -> None:
        """Record a read of everything these values stand on."""
        for value in values:
            self.emit(Effect.READ, value, node, env)

    def opaque_call(self, node: ast.Call, values: list[Value], env: Env) -> Value:
        """A call of code out of sight: it may do anything to its arguments and return them."""
        for value in values:
            self.emit(Effect.OPAQUE, value, node, env)
        return Value(refs=frozenset({UNSEEN}).union(*(value.guessed() for value in values)))

    def arguments(self, node: ast.Call, env: Env) -> list[Value]:
        """Evaluate all arguments, positional ones first."""
        return [self.value(a, env) for a in node.args] + [
            self.value(k.value, env) for k in node.keywords
        ]

    def lookup(self, name: ast.Name, env: Env) -> Value:
        """The value of a name: a local one, or one that is bound outside the function."""
        if name.id not in env.names:
            found = self.outside(name)
            if found is None:
                dotted = self.names.dotted(name)
                return ANYTHING if dotted is None else replace(ANYTHING, term=dotted)
            env.names[name.id] = found
        return env.names[name.id].reread()

    def outside(self, expr: ast.Name | ast.Attribute) -> Value | None:
        """The value of what is not local, as far as it is in sight."""
        found = self.names.outer(expr)
        if found is None:
            return None
        if found.kind is OuterKind.CONSTANT:
            number = type(found.constant) in {int, float}
            term = of_constant(found.constant) if number else None
            return Value(null=False, term=term or ast.unparse(expr))
        container = found.kind is OuterKind.CONTAINER
        return outer(ast.unparse(expr), container=container, null=None if found.null else False)

    @abstractmethod
    def value(self, expr: ast.expr, env: Env) -> Value:
        """Evaluate an expression."""
