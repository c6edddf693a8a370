"""What the expressions of one kernel evaluate to: the analysis of effects, with all values kept."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from opscaffold.effects.buffers import Argument, body_of, start_value
from opscaffold.effects.follow import Follower
from opscaffold.effects.trace import MUTATIONS, Effect, FunctionNode, Names, Trace
from opscaffold.effects.values import Env, Ref, Value

_CHANGES = MUTATIONS | {Effect.OPAQUE, Effect.KEEP}


class Watched(Follower):
    """Follows a kernel on all its paths at once, and keeps the values of its expressions."""

    def __init__(self, names: Names) -> None:
        super().__init__(names, Trace())
        self.values: dict[ast.expr, list[Value]] = {}

    def value(self, expr: ast.expr, env: Env) -> Value:
        """Evaluate an expression, and remember what it came to."""
        result = super().value(expr, env)
        self.values.setdefault(expr, []).append(result)
        return result

    def refs(self, expr: ast.expr) -> frozenset[Ref]:
        """The memory that an expression may stand on, on any path."""
        return frozenset[Ref]().union(*(v.all_refs() for v in self.values.get(expr, [])))

    def is_several(self, expr: ast.expr) -> bool:
        """Whether an expression is a list or a tuple rather than a tensor."""
        return any(
            v.container or v.items is not None or any(r.several for r in v.refs)
            for v in self.values.get(expr, [])
        )

    def may_be_none(self, expr: ast.expr) -> bool:
        """Whether an expression is None on some path, or not known not to be."""
        return any(v.null is not False for v in self.values.get(expr, []))

    def is_changed(self, roots: Iterable[str]) -> bool:
        """Whether any of this memory is written to, kept or given to code out of sight."""
        wanted = set(roots)
        return any(e.effect in _CHANGES and e.root in wanted for e in self.trace.events)


def watch(
    function: FunctionNode | ast.Lambda,
    arguments: Iterable[Argument],
    names: Names,
    devices: frozenset[str],
) -> Watched:
    """Follow a kernel with everything that it may be given.

    ``devices`` are the types of device it is registered for, empty where that is not known.
    """
    watched = Watched(names)
    watched.devices = devices
    start = {a.name: start_value(a) for a in arguments}
    watched.run(list(body_of(function)), Env(start))
    return watched
