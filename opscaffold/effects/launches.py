"""Launches of Triton kernels in sight: ``kernel[grid](x, out, n)``."""

from __future__ import annotations

import ast

from opscaffold.effects.array_calls import ArrayCalls
from opscaffold.effects.trace import Effect
from opscaffold.effects.triton import Access, accesses, bound_to, is_jit
from opscaffold.effects.values import UNSEEN, Env, Made, Value

_WRAPPING = frozenset({"torch.library.wrap_triton", "torch._library.triton.wrap_triton"})


class Launches(ArrayCalls):
    """Adds launches to the evaluation of calls."""

    def launcher(self, expr: ast.expr, env: Env) -> Made | None:
        """The Triton kernel that an expression launches, or would with a grid."""
        match expr:
            case ast.Subscript(value=value):
                return self.launcher(value, env)
            case ast.Call(func=func, args=[kernel], keywords=[]):
                return self.launcher(kernel, env) if self.names.dotted(func) in _WRAPPING else None
            case ast.Name(id=name) if name in env.names:
                made = env.names[name].made
                return made if made is not None and is_jit(made.function, made.home) else None
            case ast.Name() | ast.Attribute():
                found = self.names.function(expr)
                return Made(*found) if found is not None and is_jit(*found) else None
        return None

    def launch(self, node: ast.Call, kernel: Made, env: Env) -> Value:
        """Record what a launch does to the arguments; the order of stores is not known."""
        function = kernel.function
        bound = None if isinstance(function, ast.Lambda) else bound_to(node, function)
        if bound is None or isinstance(function, ast.Lambda):
            return self.opaque_call(node, self.arguments(node, env), env)
        done = accesses(function, kernel.home)
        for name, expr in bound.items():
            value, kinds = self.value(expr, env), done.get(name, set())
            if Access.ATOMIC in kinds:
                self.emit(Effect.UPDATE, value, node, env)
            elif Access.STORE in kinds:
                self.emit(Effect.WRITE_PART, value, node, env)
            if kinds - {Access.ATOMIC}:
                # Which elements are written, and whether they are read before, is not known.
                self.emit(Effect.OPAQUE, value, node, env)
            elif not kinds:
                self.emit(Effect.READ, value, node, env)
        return Value(refs=frozenset({UNSEEN}))
