"""Following calls: ATen functions and methods, project functions, and code out of sight."""

from __future__ import annotations

import ast

from opscaffold.effects import aten
from opscaffold.effects.expressions import Expressions
from opscaffold.effects.trace import Effect, FunctionNode, Names
from opscaffold.effects.values import ANYTHING, SCALAR, UNSEEN, Env, Ref, Value, fresh, join

# Builtins that look at an argument's metadata at most.
_METADATA_BUILTINS = frozenset({"isinstance", "len", "type", "id", "hasattr", "callable"})
_READING_BUILTINS = frozenset(
    {"int", "float", "bool", "str", "repr", "print", "sum", "min", "max", "abs", "round", "any"}
    | {"all", "range", "hash", "format", "divmod", "pow"}
)
_CONTAINER_BUILTINS = frozenset(
    {"tuple", "list", "set", "dict", "zip", "enumerate", "reversed", "sorted", "iter", "next"}
    | {"map", "filter", "frozenset"}
)


class Calls(Expressions):
    """Adds the understanding of calls to the evaluation of expressions."""

    def call(self, node: ast.Call, env: Env) -> Value:
        """Evaluate a call."""
        dotted = self.names.dotted(node.func)
        if dotted is not None and dotted.startswith("torch."):
            return self.torch_call(node, dotted, env)
        function = self.names.function(node.func)
        if function is not None:
            return self.project_call(node, function, env)
        if isinstance(node.func, ast.Name):
            return self.builtin_call(node, node.func.id, env)
        if isinstance(node.func, ast.Attribute) and dotted is None:
            return self.method_call(node, node.func, env)
        return self.opaque_call(node, self.arguments(node, env), env)

    def project_call(self, node: ast.Call, target: tuple[FunctionNode, Names], env: Env) -> Value:
        """Evaluate a call of a function of the project. Overridden where bodies are followed."""
        del target
        return self.opaque_call(node, self.arguments(node, env), env)

    def torch_call(self, node: ast.Call, dotted: str, env: Env) -> Value:
        """Evaluate a call below ``torch``."""
        parts = dotted.split(".")
        if parts[:2] == ["torch", "ops"] and parts[2:3] != ["aten"]:
            return self.opaque_call(node, self.arguments(node, env), env)
        name = parts[3] if parts[:3] == ["torch", "ops", "aten"] and len(parts) > 3 else parts[-1]
        out = next((k for k in node.keywords if k.arg == "out"), None)
        values = [self.value(a, env) for a in node.args]
        values += [self.value(k.value, env) for k in node.keywords if k is not out]
        if any(k.arg == "inplace" and not _is_false(k.value) for k in node.keywords) or (
            aten.is_inplace(name) and node.args
        ):
            self.read(values[1:], node, env)
            return self.mutate(node, name, values[0] if values else ANYTHING, env)
        new = fresh(node.lineno, node.col_offset)
        if not aten.is_allocator(name):
            self.read(values, node, env)
        if aten.is_view(name):
            new = self.view_of(values[0], name) if values else ANYTHING
        elif not aten.is_known(name):
            refs = frozenset(Ref(r.root) for value in values for r in value.all_refs())
            new = Value(refs=refs | ({UNSEEN} if refs else frozenset()))
        if out is not None:
            return self.write_out(node, out.value, new, env)
        return new

    def write_out(self, node: ast.Call, expr: ast.expr, new: Value, env: Env) -> Value:
        """The effect and result of an ``out=`` argument, which may be None."""
        target = self.value(expr, env)
        if target.null is True:
            self.trace.absent_outs.add(expr)
            return new
        for part in target.items or (target,):
            self.emit(Effect.WRITE, part, node, env)
        return target if target.null is False else join(target, new)

    def mutate(self, node: ast.Call, name: str, receiver: Value, env: Env) -> Value:
        """The effect and result of an in-place method or function."""
        effect = Effect.UPDATE
        if aten.is_reshaping(name):
            effect = Effect.RESHAPE
        elif name in aten.FULL_WRITES:
            effect = Effect.WRITE
        self.emit(effect, receiver, node, env)
        return receiver

    def view_of(self, value: Value, name: str) -> Value:
        """A view of a value, which on some inputs may be a copy."""
        return value.viewed(
            whole=name in aten.WHOLE_VIEWS,
            perhaps=name in aten.MAYBE_VIEWS,
            hidden=name in aten.HIDDEN_VIEWS,
        )

    def method_call(self, node: ast.Call, func: ast.Attribute, env: Env) -> Value:
        """Evaluate ``receiver.method(...)``, where the receiver may be a tensor."""
        receiver = self.value(func.value, env)
        name = func.attr
        tensor_like = bool(receiver.all_refs() - {UNSEEN})
        values = self.arguments(node, env)
        out = next((k for k in node.keywords if k.arg == "out"), None)
        if not tensor_like and not (aten.is_known(name) and UNSEEN in receiver.refs):
            if not receiver.all_refs() and not any(v.all_refs() for v in values):
                return Value()
            return self.opaque_call(node, values, env)
        if not tensor_like and any(v.all_refs() - {UNSEEN} for v in values):
            return self.opaque_call(node, values, env)
        if name in aten.METADATA_METHODS:
            return SCALAR
        if aten.is_allocator(name):
            return fresh(node.lineno, node.col_offset)
        if aten.is_inplace(name):
            self.read(values, node, env)
            return self.mutate(node, name, receiver, env)
        if not aten.is_known(name):
            return self.opaque_call(node, [receiver, *values], env)
        self.read(values, node, env)
        if aten.is_view(name):
            return self.maybe_view(node, name, receiver)
        self.read([receiver], node, env)
        if out is not None:
            return self.write_out(node, out.value, fresh(node.lineno, node.col_offset), env)
        return fresh(node.lineno, node.col_offset)

    def maybe_view(self, node: ast.Call, name: str, receiver: Value) -> Value:
        """A view, unless the call forbids one (``to(..., copy=True)``)."""
        if name == "to" and any(k.arg == "copy" and _is_true(k.value) for k in node.keywords):
            return fresh(node.lineno, node.col_offset)
        return self.view_of(receiver, name)

    def builtin_call(self, node: ast.Call, name: str, env: Env) -> Value:
        """Evaluate a call of a plain name that no definition in the project explains."""
        values = self.arguments(node, env)
        if name in _METADATA_BUILTINS:
            return SCALAR
        if name in _READING_BUILTINS:
            self.read(values, node, env)
            return SCALAR
        refs = frozenset(Ref(r.root) for value in values for r in value.all_refs())
        if name in _CONTAINER_BUILTINS:
            if name in {"tuple", "list"} and len(values) == 1 and values[0].items is not None:
                return values[0]
            return Value(null=False, refs=refs)
        return self.opaque_call(node, values, env)


def _is_true(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is True


def _is_false(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is False
