"""Calls of what classes give: methods that are in sight, and modules of ``torch.nn``."""

from __future__ import annotations

import ast
from abc import abstractmethod

from opscaffold.effects.launches import Launches
from opscaffold.effects.trace import Effect
from opscaffold.effects.values import Env, Made, Value

# Values of these terms are modules that hand back their argument, or write to it first.
_UNCHANGED = "torch.nn.Identity()"
_IN_PLACE = "torch.nn.Module(inplace=True)"
# Modules whose first argument is ``inplace``.
_FIRST = frozenset({"ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid"})


class Objects(Launches):
    """Adds methods and modules to the evaluation of calls."""

    @abstractmethod
    def made_call(self, node: ast.Call, made: Made, env: Env) -> Value:
        """Evaluate a call of a function with what it was given before."""

    def object_call(self, node: ast.Call, env: Env) -> Value | None:
        """Evaluate a call of a method or module; None for any other."""
        func = node.func
        module = self.nn_module(node)
        if module is not None:
            return Value(null=False, term=module)
        if isinstance(func, ast.Attribute):
            found = self.names.method(func)
            if found is None:
                return None
            function, home, bound = found
            return self.made_call(node, Made(function, home, (Value(null=False),) * bound), env)
        called = None
        if isinstance(func, ast.Call):
            called = self.nn_module(func)
        elif isinstance(func, ast.Name) and func.id in env.names:
            called = env.names[func.id].term
        if called not in {_UNCHANGED, _IN_PLACE} or len(node.args) != 1 or node.keywords:
            return None
        value = self.value(node.args[0], env)
        if called == _IN_PLACE:
            self.emit(Effect.UPDATE, value, node, env)
        return value

    def nn_module(self, node: ast.Call) -> str | None:
        """The term of a module that hands back its argument, where a call makes one."""
        package, _, name = (self.names.dotted(node.func) or "").rpartition(".")
        if package not in {"torch.nn", "torch.nn.modules"}:
            return None
        if name == "Identity":
            return _UNCHANGED
        flags = [k.value for k in node.keywords if k.arg == "inplace"]
        flags += node.args[:1] if name in _FIRST else []
        return _IN_PLACE if any(_is_true(flag) for flag in flags) else None


def _is_true(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is True
