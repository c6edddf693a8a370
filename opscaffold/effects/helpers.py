"""What decorators make of a function of the project, as far as its callers can tell."""

from __future__ import annotations

import ast
from dataclasses import replace

from opscaffold.effects.trace import FunctionNode, Names
from opscaffold.effects.values import Ref, Value

_CACHING = frozenset({"functools.lru_cache", "functools.cache"})
# Leave what the function does to memory as it is.
_PLAIN = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.compile"}
    | {"torch.jit.script", "torch.jit.ignore", "torch.compiler.disable", "torch._dynamo.disable"}
    | {"torch.jit.unused", "torch.compiler.allow_in_graph", "torch.autograd.no_grad"}
)


def decoration(function: FunctionNode, names: Names) -> bool | None:
    """Whether the results are cached; None where a decorator may do anything."""
    cached = False
    for decorator in function.decorator_list:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        dotted = names.dotted(node)
        if dotted in _CACHING:
            cached = True
        elif dotted not in _PLAIN:
            return None
    return cached


def as_kept(value: Value, name: str) -> Value:
    """A result that the next call with the same arguments gets again."""
    kept = {r for r in value.refs if r.root.startswith("fresh:")}
    refs = (value.refs - kept) | {replace(r, root=f"global:{name}", several=False) for r in kept}
    items = None if value.items is None else tuple(as_kept(i, name) for i in value.items)
    return replace(value, refs=frozenset[Ref](refs), items=items)
