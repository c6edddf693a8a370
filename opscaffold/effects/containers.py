"""Lists, dicts and the like: what they hold, and what is kept in those that outlive a call."""

from __future__ import annotations

import ast
from dataclasses import replace

from opscaffold.effects.expressions import Expressions, literal_key
from opscaffold.effects.trace import Effect
from opscaffold.effects.values import Env, Value, gathered, is_made_once, merged

_ADDING = frozenset(
    {"append", "appendleft", "insert", "extend", "extendleft", "update", "setdefault"}
)
_TAKING = frozenset({"get", "setdefault", "__getitem__"})
_REMOVING = frozenset({"pop", "popleft", "popitem"})
_LISTING = frozenset({"items", "values", "keys", "copy"})


class Containers(Expressions):
    """Adds the understanding of containers to the evaluation of expressions.

    ``each_round`` are the calls that every round of the loop around them comes to.
    """

    each_round: frozenset[ast.AST] = frozenset()

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
        if func.attr == "clear":
            if isinstance(func.value, ast.Name) and not is_lasting(receiver):
                keys = None if receiver.keys is None else ()
                env.names[func.value.id] = Value(False, items=(), container=True, keys=keys)
            return Value(null=True, truth=False)
        if func.attr == "get" and receiver.keys is not None and len(node.args) == 1:
            key = node.args[0]
            known = receiver.at(key.value) if isinstance(key, ast.Constant) else None
            if known is not None:
                return known
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
        if isinstance(node, ast.Subscript) and len(values) == 1:
            key = literal_key(node.slice)
            changed = None if key is None else holder.with_element(key, values[0])
            if changed is not None:
                env.names[owner.id] = changed
                return
        appends = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "append"
        if node in self.each_round:
            values = [_repeated(value, self.trace.repeated) for value in values]
        if appends and holder.items is not None and len(values) == 1:
            env.names[owner.id] = replace(holder, items=(*holder.items, values[0]), container=True)
        elif more:
            env.names[owner.id] = merged([holder, *values])
        else:
            env.names[owner.id] = merged([holder], values)


def _repeated(value: Value, anew: set[str]) -> Value:
    """A value that is put into a container round by round; ``anew`` is made in each round."""
    same = frozenset(
        replace(r, exact=False, whole=False, several=True)
        if is_made_once(r) and r.root not in anew
        else r
        for r in value.refs
    )
    return replace(value, refs=same)


def is_lasting(value: Value) -> bool:
    """Whether a value is bound outside the function and so outlives the call."""
    return any(ref.root.startswith("global:") for ref in value.all_refs())
