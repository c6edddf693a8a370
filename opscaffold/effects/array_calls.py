"""Following calls of numpy: functions, and methods of arrays that share a tensor's memory."""

from __future__ import annotations

import ast
from dataclasses import replace

from opscaffold.effects import arrays
from opscaffold.effects.containers import Containers
from opscaffold.effects.trace import Effect
from opscaffold.effects.values import ANYTHING, SCALAR, Env, Value, join


class ArrayCalls(Containers):
    """Adds the understanding of numpy to the evaluation of calls."""

    def numpy_call(self, node: ast.Call, name: str, env: Env) -> Value:
        """Evaluate a call of a numpy function."""
        out = next((k for k in node.keywords if k.arg == "out"), None)
        values = [self.value(a, env) for a in node.args]
        values += [self.value(k.value, env) for k in node.keywords if k is not out]
        if arrays.is_mutating(name) and values:
            self.read(values[1:], node, env)
            self.emit(Effect.UPDATE, values[0], node, env)
            return Value(null=True)
        self.read(values, node, env)
        copies = {"array": True, "nan_to_num": True}
        if name in copies:
            copy = next((k.value for k in node.keywords if k.arg == "copy"), None)
            if copy is None or not (isinstance(copy, ast.Constant) and copy.value is False):
                return as_array(self.new(node))
        elif not arrays.is_view(name):
            place = arrays.out_position(name)
            if place is not None and len(node.args) > place:
                return self.write_out(node, node.args[place], as_array(self.new(node)), env)
            new = as_array(self.new(node))
            return new if out is None else self.write_out(node, out.value, new, env)
        copy = next((k.value for k in node.keywords if k.arg == "copy"), None)
        if isinstance(copy, ast.Constant) and copy.value is True:
            return as_array(self.new(node))
        if not values:
            return ANYTHING
        viewed = values[0].viewed(perhaps=arrays.is_maybe_view(name), hidden=True)
        return as_array(viewed)

    def write_out(self, node: ast.Call, expr: ast.expr, new: Value, env: Env) -> Value:
        """The effect and result of an ``out=`` argument, which may be None."""
        target = self.value(expr, env)
        if target.null is True:
            self.trace.absent_outs.add(expr)
            return new
        for part in target.items or (target,):
            self.emit(Effect.WRITE, part, node, env)
        return target if target.null is False else join(target, new)

    def array_method(
        self, node: ast.Call, name: str, receiver: Value, values: list[Value], env: Env
    ) -> Value:
        """Evaluate a method of a numpy array."""
        self.read(values, node, env)
        if name in arrays.METADATA:
            return SCALAR
        if arrays.is_method_mutating(name):
            self.emit(Effect.UPDATE, receiver, node, env)
            return Value(null=True)
        if arrays.is_method_view(name):
            return receiver.viewed(perhaps=arrays.is_maybe_view(name))
        if name == "astype" and any(k.arg == "copy" for k in node.keywords):
            return receiver.viewed(perhaps=True)
        self.read([receiver], node, env)
        out = next((k for k in node.keywords if k.arg == "out"), None)
        new = as_array(self.new(node))
        return new if out is None else self.write_out(node, out.value, new, env)


def as_array(value: Value) -> Value:
    """A value taken for a numpy array, or for one that shares its memory."""
    return replace(value, refs=frozenset(replace(r, array=True) for r in value.refs))
