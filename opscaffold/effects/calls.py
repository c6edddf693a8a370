"""Following calls: ATen functions and methods, numpy, ops of the project, code out of sight."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import reduce

from opscaffold.contract.kinds import infer_kind
from opscaffold.contract.model import Kind, ListType, OpContract
from opscaffold.effects import arrays, aten, chances, terms
from opscaffold.effects.conversions import RETYPING, staying, target_of, told_apart
from opscaffold.effects.objects import Objects
from opscaffold.effects.trace import Effect, FunctionNode, Names
from opscaffold.effects.values import (
    ANYTHING,
    SCALAR,
    UNSEEN,
    Env,
    Made,
    Value,
    gathered,
    join,
    merged,
)

# Builtins that look at an argument's metadata at most.
_METADATA_BUILTINS = frozenset({"isinstance", "len", "type", "id", "hasattr", "callable", "slice"})
_READING_BUILTINS = frozenset(
    {"int", "float", "bool", "str", "repr", "print", "min", "max", "abs", "round", "any"}
    | {"all", "range", "hash", "format", "divmod", "pow"}
)
_RUNNING_BUILTINS = frozenset({"exec", "eval", "locals", "vars"})
# Functions of torch that give back one tensor for each argument.
_MANY = frozenset({"broadcast_tensors", "meshgrid"})
_CONTAINER_BUILTINS = frozenset(
    {"tuple", "list", "set", "dict", "zip", "enumerate", "reversed", "sorted", "iter", "frozenset"}
)


class Calls(Objects):
    """Adds the understanding of calls to the evaluation of expressions."""

    def call(self, node: ast.Call, env: Env) -> Value:
        """Evaluate a call."""
        contract = self.names.op(node.func)
        if contract is not None:
            return self.op_call(node, contract, env)
        wrapped = self.launcher(node, env)
        if wrapped is not None:
            return Value(null=False, made=wrapped)
        of_object = self.object_call(node, env)
        if of_object is not None:
            return of_object
        dotted = self.names.dotted(node.func) or _unimported(node.func, env)
        if dotted is not None and dotted.startswith("torch."):
            return self.torch_call(node, dotted, env)
        numpy_name = None if dotted is None else arrays.function_name(dotted)
        if numpy_name is not None:
            return self.numpy_call(node, numpy_name, env)
        function = self.names.function(node.func)
        if function is not None:
            return self.project_call(node, function, env)
        if dotted == "typing.cast" and len(node.args) == 2:
            return self.value(node.args[1], env)
        if dotted == "functools.partial" and node.args:
            return self.partial(node, env)
        called = None
        kernel = self.launcher(node.func, env)
        if kernel is not None:
            return self.launch(node, kernel, env)
        if isinstance(node.func, ast.Subscript):
            # The grid of a Triton launch looks at metadata only.
            called = self.value(node.func.value, env)
        elif not isinstance(node.func, ast.Name | ast.Attribute):
            called = self.value(node.func, env)
        elif isinstance(node.func, ast.Name):
            called = env.names.get(node.func.id)
        made = None if called is None else called.made
        if made is not None and not isinstance(node.func, ast.Subscript):
            return self.made_call(node, made, env)
        if isinstance(node.func, ast.Name):
            return self.builtin_call(node, node.func.id, env)
        if isinstance(node.func, ast.Attribute) and dotted is None:
            return self.method_call(node, node.func, env)
        held = [] if called is None else [called]
        return self.opaque_call(node, [*held, *self.arguments(node, env)], env)

    def project_call(self, node: ast.Call, target: tuple[FunctionNode, Names], env: Env) -> Value:
        """Evaluate a call of a function of the project. Overridden where bodies are followed."""
        del target
        return self.opaque_call(node, self.arguments(node, env), env)

    def made_call(self, node: ast.Call, made: Made, env: Env) -> Value:
        """Evaluate a call of a function that was made here. Overridden like ``project_call``."""
        del made
        return self.opaque_call(node, self.arguments(node, env), env)

    def partial(self, node: ast.Call, env: Env) -> Value:
        """Evaluate ``functools.partial``: what it holds may be changed by whoever calls it."""
        values = self.arguments(node, env)
        for value in values:
            self.emit(Effect.OPAQUE, value, node, env)
        base, found = values[0].made, self.names.function(node.args[0])
        if base is None and found is not None:
            base = Made(*found)
        held = Value(refs=frozenset({UNSEEN}).union(*(v.guessed() for v in values)))
        plain = not any(isinstance(a, ast.Starred) for a in node.args)
        if base is None or not plain or any(k.arg is None for k in node.keywords):
            return held
        named = [(k.arg or "", self.value(k.value, env)) for k in node.keywords]
        given = (*base.given, *values[1 : len(node.args)])
        return replace(held, made=Made(base.function, base.home, given, (*base.named, *named)))

    def op_call(self, node: ast.Call, contract: OpContract, env: Env) -> Value:
        """Evaluate a call of an op: it does what it declares."""
        positional = [p.name for p in contract.parameters if not p.kw_only]
        starred = any(isinstance(a, ast.Starred) for a in node.args)
        if starred or len(node.args) > len(positional) or any(k.arg is None for k in node.keywords):
            return self.opaque_call(node, self.arguments(node, env), env)
        given = {n: self.value(a, env) for n, a in zip(positional, node.args, strict=False)}
        given |= {k.arg or "": self.value(k.value, env) for k in node.keywords}
        mutated = [given[name] for name in contract.mutated if name in given]
        self.read([v for n, v in given.items() if n not in contract.mutated], node, env)
        kind = infer_kind(contract)
        for value in mutated:
            self.emit(Effect.WRITE if kind is Kind.OUT else Effect.UPDATE, value, node, env)
        if contract.tags and kind in {Kind.INPLACE, Kind.OUT} and mutated:
            return mutated[0] if len(mutated) == 1 else Value(null=False, items=tuple(mutated))
        if not contract.returns:
            return Value(null=True, truth=False)
        if mutated:
            # Whether it keeps from returning what it writes is no more than declared.
            return Value(refs=frozenset({UNSEEN}).union(*(v.guessed() for v in mutated)))
        lists = any(isinstance(r.type, ListType) for r in contract.returns)
        return self.new(node, several=lists or len(contract.returns) > 1)

    def torch_call(self, node: ast.Call, dotted: str, env: Env) -> Value:
        """Evaluate a call below ``torch``."""
        parts = dotted.split(".")
        aten_op = parts[:3] == ["torch", "ops", "aten"] and len(parts) > 3
        if parts[:2] == ["torch", "ops"] and not aten_op:
            return self.opaque_call(node, self.arguments(node, env), env)
        name = parts[3] if aten_op else parts[-1]
        if not aten_op and len(parts) > 2 and aten.is_known(f"{parts[-2]}_{name}"):
            name = f"{parts[-2]}_{name}"
        out = next((k for k in node.keywords if k.arg == "out"), None)
        values = [self.value(a, env) for a in node.args]
        values += [self.value(k.value, env) for k in node.keywords if k is not out]
        first = values[0] if values else ANYTHING
        if name in aten.METADATA_METHODS or name in aten.METADATA_FUNCTIONS:
            plain = first.is_tensor and first.term is not None and len(values) == 1
            return replace(SCALAR, term=f"{name}({first.term})" if plain else None)
        if parts[:2] == ["torch", "distributed"] and name in aten.COLLECTIVES:
            self.read(values[1:], node, env)
            self.emit(Effect.UPDATE, first, node, env)
            return ANYTHING
        initialises = parts[:3] == ["torch", "nn", "init"] and name.endswith("_")
        if any(k.arg is None for k in node.keywords):
            # An out= may be among what is unpacked here.
            return self.opaque_call(node, values, env)
        inplace = _inplace_argument(node, name, functional=parts[1:3] == ["nn", "functional"])
        asked = None if inplace is None else self.truth(inplace, env)
        if inplace is not None and asked is not False:
            self.read(values[1:], node, env)
            if asked is True:
                return self.mutate(node, name, first, env)
            left = env.mutated
            result = join(self.mutate(node, name, first, env), self.new(node))
            env.mutated = left
            return result
        if (aten.is_inplace(name) or initialises) and node.args:
            self.read(values[1:], node, env)
            return self.mutate(node, name, first, env)
        new = self.torch_result(node, name, values, env, pure=parts[1:3] == ["nn", "functional"])
        if aten_op and len(parts) > 4 and parts[4] != "default":
            for keyword in node.keywords:
                if keyword is not out:
                    self.emit(Effect.OPAQUE, self.value(keyword.value, env), node, env)
        if out is not None:
            return self.write_out(node, out.value, new, env)
        return new

    def torch_result(
        self, node: ast.Call, name: str, values: list[Value], env: Env, *, pure: bool
    ) -> Value:
        """Record what a function of torch looks at; return what it returns without ``out=``."""
        if aten.is_allocator(name):
            return self.allocated(node, name)
        known = aten.is_known(name)
        if aten.may_mutate(name) or not (known or pure):
            for value in values:
                self.emit(Effect.OPAQUE, value, node, env)
        else:
            self.read(values, node, env)
        if not known and not aten.is_view(name):
            refs = frozenset[str]().union(*(v.roots for v in values))
            guessed = frozenset({UNSEEN}).union(*(v.guessed() for v in values))
            return Value(refs=guessed if refs else frozenset())
        if name in _MANY and node.args and not any(isinstance(a, ast.Starred) for a in node.args):
            return Value(null=False, items=tuple(self.view_of(v, name) for v in values))
        if name == "einsum":
            return self.new(node) if len(values) > 2 else self.view_of(values[-1], name)
        copies = name in chances.NAMES and chances.makes_new(
            node, name, values, self.assumed, functional=pure
        )
        if copies or not aten.is_view(name):
            return self.new(node, several=aten.returns_several(name))
        if not values:
            return ANYTHING
        if name == "asarray" and _copies(node):
            return self.new(node)
        if name in {"as_tensor", "asarray"} and values[0].refs:
            # An array lends its memory unless another dtype or device is asked for.
            array = all(r.array for r in values[0].refs)
            viewed = values[0].viewed(perhaps=not array or bool(node.keywords), hidden=array)
            return replace(viewed, refs=frozenset(replace(r, array=False) for r in viewed.refs))
        base = merged(values) if name in aten.VIEWS_OF_ALL else values[0]
        return self.view_of(base, name)

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
        viewed = value.viewed(
            whole=name in aten.WHOLE_VIEWS,
            perhaps=name in aten.MAYBE_VIEWS,
            hidden=name in aten.HIDDEN_VIEWS,
        )
        if name in RETYPING:
            viewed = replace(viewed, refs=frozenset(replace(r, dtype="") for r in viewed.refs))
        several = name in aten.PARTS
        array = name in aten.ARRAYS
        if not several and not array and not any(r.array for r in viewed.refs):
            return viewed
        return replace(
            viewed, refs=frozenset(replace(r, several=several, array=array) for r in viewed.refs)
        )

    def method_call(self, node: ast.Call, func: ast.Attribute, env: Env) -> Value:
        """Evaluate ``receiver.method(...)``, where the receiver may be a tensor."""
        receiver = self.value(func.value, env)
        name = func.attr
        held = self.container_call(node, func, receiver, env)
        if held is not None:
            return held
        tensor_like = bool(receiver.all_refs() - {UNSEEN})
        values = self.arguments(node, env)
        if not tensor_like and not (aten.is_known(name) and UNSEEN in receiver.refs):
            if not receiver.all_refs() and not any(v.all_refs() for v in values):
                return Value()
            return self.opaque_call(node, values, env)
        if not tensor_like and any(v.all_refs() - {UNSEEN} for v in values):
            return self.opaque_call(node, values, env)
        if not receiver.is_tensor:
            if aten.is_allocator(name) and not name.startswith("new_"):
                # No method of tensors: some other object has a method of that name.
                return self.opaque_call(node, [receiver, *values], env)
            return replace(self.tensor_method(node, name, receiver, values, env), null=None)
        return self.tensor_method(node, name, receiver, values, env)

    def tensor_method(
        self, node: ast.Call, name: str, receiver: Value, values: list[Value], env: Env
    ) -> Value:
        """Evaluate a method of what is taken for a tensor."""
        out = next((k for k in node.keywords if k.arg == "out"), None)
        if name in aten.METADATA_METHODS:
            asked = terms.of_parts(name, values)
            term = None if asked is None else self.metadata_term(receiver, asked)
            return replace(SCALAR, term=term)
        if receiver.refs and all(r.array for r in receiver.refs):
            return self.array_method(node, name, receiver, values, env)
        if name in {"storage", "untyped_storage"}:
            return receiver.viewed(whole=True)
        if name in {"item", "tolist"}:
            self.read([receiver], node, env)
            return Value(null=False, container=name == "tolist")
        if aten.is_allocator(name):
            return self.allocated(node, name)
        if name in aten.SETTINGS:
            return receiver
        if any(k.arg is None for k in node.keywords):
            return self.opaque_call(node, [receiver, *values], env)
        if name == "set_" and values and isinstance(node.func, ast.Attribute):
            self.emit(Effect.RESHAPE, receiver, node, env)
            shared = values[0].viewed()
            if isinstance(node.func.value, ast.Name):
                env.names[node.func.value.id] = shared
            return shared
        if aten.is_inplace(name):
            self.read(values, node, env)
            return self.mutate(node, name, receiver, env)
        if not aten.is_known(name):
            return self.opaque_call(node, [receiver, *values], env)
        if aten.may_mutate(name):
            self.opaque_call(node, [receiver, *values], env)
            return self.new(node)
        self.read(values, node, env)
        if aten.is_view(name):
            return self.maybe_view(node, name, receiver, values)
        self.read([receiver], node, env)
        new = self.new(node, several=aten.returns_several(name))
        return new if out is None else self.write_out(node, out.value, new, env)

    def maybe_view(self, node: ast.Call, name: str, receiver: Value, values: list[Value]) -> Value:
        """A view, unless the call forbids one (``to(..., copy=True)``)."""
        last = node.args[-1] if len(node.args) >= 3 else None
        # The last of to(dtype, non_blocking, copy) or to(device, dtype, non_blocking, copy).
        if name == "to" and (_copies(node) or (last is not None and _is_true(last))):
            return self.new(node)
        if name == "type" and not node.args and not node.keywords:
            return SCALAR
        plain = name == "contiguous" and not node.args and not node.keywords
        if plain and self.assumed.get(f"{receiver.term}.is_contiguous()") is False:
            return self.new(node)
        if receiver.items is not None:
            return self.view_of(receiver, name)
        if name == "to" and told_apart(receiver, values, self.assumed):
            return self.new(node)
        kept = staying(receiver, target_of(node, name, self.names), self.devices, self.assumed)
        if len(kept.refs) == len(receiver.refs):
            return self.view_of(kept, name)
        copied = self.new(node)
        return join(self.view_of(kept, name), copied) if kept.refs else copied

    def builtin_call(self, node: ast.Call, name: str, env: Env) -> Value:
        """Evaluate a call of a plain name that no definition in the project explains."""
        values = self.arguments(node, env)
        if name in env.names:
            # A function out of sight may hold what it was made of: a bound method, a closure.
            return self.opaque_call(node, [env.names[name], *values], env)
        if name in _RUNNING_BUILTINS:
            for local in list(env.names.values()):
                self.emit(Effect.OPAQUE, local, node, env)
            return ANYTHING
        if name == "getattr" and len(values) > 1 and values[0].is_tensor:
            asked = node.args[1]
            if isinstance(asked, ast.Constant) and isinstance(asked.value, str):
                return self.attribute_of(values[0], asked.value)
        if name == "setattr" and len(values) == 3 and not values[0].all_refs() - {UNSEEN}:
            self.emit(Effect.KEEP, values[2], node, env)
            return Value(null=True)
        if name in {"min", "max"} and any(v.all_refs() for v in values):
            self.read(values, node, env)
            chosen = [v.element() for v in values] if len(node.args) == 1 else values
            return reduce(join, chosen[: len(node.args)])
        if name in _METADATA_BUILTINS:
            return replace(SCALAR, term=terms.of_parts(name, values))
        if name in _READING_BUILTINS:
            self.read(values, node, env)
            return replace(SCALAR, term=terms.of_parts(name, values))
        if name == "sum":
            self.read(values, node, env)
            return self.computed(node, values)
        if name == "next" and values:
            return reduce(join, values[1:], values[0].element())
        if name in _CONTAINER_BUILTINS:
            if name in {"tuple", "list"} and len(values) == 1:
                one = values[0]
                if one.items is not None or any(r.several for r in one.refs):
                    return replace(one, container=name == "list")
            inner = [v.element() for v in values]
            return gathered(inner)
        return self.opaque_call(node, values, env)


def _unimported(expr: ast.expr, env: Env) -> str | None:
    """The dotted name below ``torch``, for an example that leaves its import to the reader."""
    parts: list[str] = []
    while isinstance(expr, ast.Attribute):
        parts.append(expr.attr)
        expr = expr.value
    if not parts or not isinstance(expr, ast.Name) or expr.id != "torch" or "torch" in env.names:
        return None
    return ".".join(["torch", *reversed(parts)])


def _copies(node: ast.Call) -> bool:
    return any(k.arg == "copy" and _is_true(k.value) for k in node.keywords)


def _inplace_argument(node: ast.Call, name: str, *, functional: bool) -> ast.expr | None:
    place = aten.INPLACE_POSITION.get(name) if functional else None
    if place is not None and len(node.args) > place:
        return node.args[place]
    return next((k.value for k in node.keywords if k.arg == "inplace"), None)


def _is_true(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is True
