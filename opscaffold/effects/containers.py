"""Lists, dicts and the like: what they hold, and what is kept in those that outlive a call."""

from __future__ import annotations

import ast
from dataclasses import replace

from opscaffold.effects.expressions import Expressions
from opscaffold.effects.trace import Effect
from opscaffold.effects.values import Env, Value, gathered, merged

_ADDING = frozenset(
    {"append", "appendleft", "insert", "extend", "extendleft", "update", "setdefault"}
)
_TAKING = frozenset({"get", "setdefault", "__getitem__"})
_REMOVING = frozenset({"pop", "popleft", "popitem"})
_LISTING = frozenset({"items", "values", "keys", "copy"})


class Containers(Expressions):
    """Adds the understanding of containers to the evaluation of expressions."""

    def container_call(
        self, node: ast.Call, func: ast.Attribute, receiver: Value, env: Env
    ) -> Value | None:
        """Evaluate a method of a container; None where the receiver is none, or is not known."""
        if not (receiver.container or receiver.items is not None):
            return None
        if func.attr in _ADDING:
            values = self.arguments(node, env)
            more = func.attr in {"extend", "extendleft", "update"}
            self.store(func.value, receiver, values, node, env, more=more)
            if func.attr == "setdefault":
                return merged([receiver], values[1:]).element()
            return Value(null=True, truth=False)
        if func.attr in _TAKING | _REMOVING:
            self.read(self.arguments(node, env), node, env)
            found = receiver.element()
            if func.attr in _REMOVING and is_lasting(receiver):
                # What is taken out is not kept for the next call.
                return Value(refs=found.guessed())
            return replace(found, null=None)
        if func.attr in _LISTING:
            return replace(gathered([receiver.element()]), container=True)
        return None

    def store(
        self,
        owner: ast.expr,
        holder: Value,
        values: list[Value],
        node: ast.AST,
        env: Env,
        *,
        more: bool = False,
    ) -> None:
        """Put values into a container; ``more`` says that they hold what goes in."""
        if is_lasting(holder):
            for value in values:
                self.emit(Effect.KEEP, value, node, env)
        if not isinstance(owner, ast.Name) or is_lasting(holder):
            return
        appends = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "append"
        if appends and holder.items is not None and len(values) == 1:
            env.names[owner.id] = replace(holder, items=(*holder.items, values[0]), container=True)
        elif more:
            env.names[owner.id] = merged([holder, *values])
        else:
            env.names[owner.id] = merged([holder], values)


def is_lasting(value: Value) -> bool:
    """Whether a value is bound outside the function and so outlives the call."""
    return any(ref.root.startswith("global:") for ref in value.all_refs())
