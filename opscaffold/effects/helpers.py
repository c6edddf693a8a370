"""What decorators and context managers make of code of the project, as far as can be told."""

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

# Context managers that let every exception through; those of torch all do.
_LETTING_THROUGH = frozenset(
    {"contextlib.nullcontext", "contextlib.closing", "contextlib.redirect_stdout"}
    | {"contextlib.redirect_stderr", "contextlib.chdir", "warnings.catch_warnings"}
    | {"builtins.open", "io.open", "decimal.localcontext", "numpy.errstate"}
    | {"threading.Lock", "threading.RLock", "threading.Condition", "threading.Semaphore"}
    | {"tempfile.TemporaryDirectory", "tempfile.NamedTemporaryFile", "tempfile.TemporaryFile"}
    | {"concurrent.futures.ThreadPoolExecutor", "concurrent.futures.ProcessPoolExecutor"}
)


def lets_through(manager: ast.expr, names: Names) -> bool:
    """Whether a context manager surely lets exceptions out of its ``with`` statement."""
    node = manager.func if isinstance(manager, ast.Call) else manager
    dotted = names.dotted(node)
    if dotted is not None:
        return dotted.startswith("torch.") or dotted in _LETTING_THROUGH
    if isinstance(node, ast.Name) and node.id == "open":
        return True
    found = names.function(node) if isinstance(manager, ast.Call) else None
    if found is None or len(found[0].decorator_list) != 1:
        return False
    function, own = found
    made = own.dotted(function.decorator_list[0])
    # Without a handler or another manager around its yield, what is raised there goes on.
    return made in {"contextlib.contextmanager", "contextlib.asynccontextmanager"} and not any(
        isinstance(n, ast.ExceptHandler | ast.With | ast.AsyncWith) for n in ast.walk(function)
    )


def decoration(function: FunctionNode, names: Names) -> bool | None:
    """Whether the results are cached; None where a decorator may do anything."""
    cached = False
    for decorator in function.decorator_list:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        dotted = names.dotted(node)
        if isinstance(node, ast.Name) and node.id in {"staticmethod", "classmethod"}:
            continue
        if dotted in _CACHING:
            cached = True
        elif dotted not in _PLAIN:
            return None
    return cached


def statements_of(function: FunctionNode | ast.Lambda) -> list[ast.stmt]:
    """The statements of a function; a lambda's expression counts as a return."""
    if isinstance(function, ast.Lambda):
        return [ast.copy_location(ast.Return(function.body), function.body)]
    return function.body


def own_names(function: FunctionNode | ast.Lambda) -> set[str]:
    """The names that a function binds for itself, and not for the function around it."""
    nodes = list(ast.walk(function))
    shared = {n for s in nodes if isinstance(s, ast.Nonlocal | ast.Global) for n in s.names}
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored - shared


def stored_names(node: ast.AST) -> set[str]:
    """The names that anything below a node binds."""
    return {
        child.id
        for child in ast.walk(node)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
    }


def plain_calls(loop: ast.For | ast.AsyncFor | ast.While) -> frozenset[ast.AST]:
    """The calls that stand as statements of a loop that every round runs as a whole."""
    if any(isinstance(n, ast.Break | ast.Continue | ast.Return) for n in ast.walk(loop)):
        return frozenset()
    return frozenset(s.value for s in loop.body if isinstance(s, ast.Expr))


def defaults_of(spec: ast.arguments) -> dict[str, ast.expr]:
    """The defaults of a function, by parameter."""
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    found = dict(
        zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True)
    )
    for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        if default is not None:
            found[arg.arg] = default
    return found


def as_kept(value: Value, name: str) -> Value:
    """A result that the next call with the same arguments gets again."""
    kept = {r for r in value.refs if r.root.startswith("fresh:")}
    refs = (value.refs - kept) | {replace(r, root=f"global:{name}", several=False) for r in kept}
    items = None if value.items is None else tuple(as_kept(i, name) for i in value.items)
    return replace(value, refs=frozenset[Ref](refs), items=items)
