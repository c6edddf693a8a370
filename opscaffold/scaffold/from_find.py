"""Finding the function that an op is to wrap, and why some callables are none."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from opscaffold.scaffold.from_error import FromError
from opscaffold.scaffold.from_origin import Origin

_HARMLESS = frozenset({"torch.no_grad", "torch.autograd.no_grad"})
_BODIES = (ast.If, ast.Try, ast.With, ast.For, ast.While)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def find_function(origin: Origin, name: str) -> ast.FunctionDef:
    """The plain function of a file with that name. Raises FromError where there is none."""
    if "." in name:
        _refuse_dotted(origin, name)
    found = [node for node in _top_level(origin.module.tree) if _binds(node, name)]
    if not found:
        _refuse_missing(origin, name)
    node = found[-1]
    if len(found) > 1:
        first = found[0]
        raise FromError(
            origin.shown,
            node,
            f"{name} is bound here and on line {first.lineno}, so what it is depends on the run",
            "give the function that you mean a name of its own",
        )
    if not isinstance(node, ast.FunctionDef):
        raise _refused(origin, name, node)
    if node not in origin.module.tree.body:
        raise FromError(
            origin.shown,
            node,
            f"{name} is defined under a condition",
            "define it at the top level of its module",
        )
    _refuse_form(origin, node)
    return node


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, those under conditions as well."""
    stack: list[ast.stmt] = list(reversed(tree.body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, _BODIES):
            inner = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
            handlers = node.handlers if isinstance(node, ast.Try) else []
            stack += reversed([*inner, *(s for h in handlers for s in h.body)])


def _binds(node: ast.stmt, name: str) -> bool:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name == name
        case ast.Assign(targets=targets):
            return any(isinstance(t, ast.Name) and t.id == name for t in targets)
        case ast.AnnAssign(target=ast.Name(id=target)):
            return target == name
        case ast.Import() | ast.ImportFrom():
            return any((a.asname or a.name) == name for a in node.names)
    return False


def _refuse_dotted(origin: Origin, name: str) -> None:
    owner, _, method = name.rpartition(".")
    for node in ast.walk(origin.module.tree):
        if isinstance(node, _DEFINITIONS) and node.name == owner.rpartition(".")[2]:
            kind = "a method" if isinstance(node, ast.ClassDef) else "a function inside another"
            inner = [n for n in node.body if isinstance(n, _DEFINITIONS) and n.name == method]
            raise FromError(
                origin.shown,
                inner[0] if inner else node,
                f"{name} is {kind}, and an op is called without an object or a scope around it",
                "move it to the top level of its module, with all that it reads as arguments",
            )
    raise FromError(
        origin.shown,
        None,
        f"{name!r} is no name of a function",
        "name a function at the top level, as in path/to/module.py:function",
    )


def _refuse_missing(origin: Origin, name: str) -> None:
    tree = origin.module.tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            owner = origin.module.parents.get(node)
            where = getattr(owner, "name", "")
            what = "a method of" if isinstance(owner, ast.ClassDef) else "a closure inside"
            raise FromError(
                origin.shown,
                node,
                f"{name} is {what} {where or 'another block'}, and no function of the module",
                "move it to the top level of its module, with all that it reads as arguments",
            )
    known = [n.name for n in _top_level(tree) if isinstance(n, ast.FunctionDef)]
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        remedy = f"did you mean {close[0]}?"
    elif known:
        remedy = f"it has {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}"
    else:
        remedy = "it has no function at its top level"
    raise FromError(origin.shown, None, f"there is no function {name!r}", remedy)


def _refused(origin: Origin, name: str, node: ast.stmt) -> FromError:
    match node:
        case ast.AsyncFunctionDef():
            reason, remedy = f"{name} is async, and an op is not", "write a plain def"
        case ast.ClassDef() if origin.is_autograd(node):
            reason = f"{name} is an autograd.Function, which is two functions and a context"
            remedy = (
                "make its forward a plain function and name that; its backward goes into "
                "register_autograd, with setup_context for what ctx saved"
            )
        case ast.ClassDef():
            reason = f"{name} is a class"
            remedy = "name a function at the top level of the module"
        case ast.ImportFrom():
            source = f"{'.' * node.level}{node.module or ''}"
            reason = f"{name} is imported from {source}"
            remedy = f"name the file of {source} that defines it"
        case ast.Import():
            reason, remedy = f"{name} is a module", "name a function of it, in its own file"
        case ast.Assign(value=ast.Lambda()) | ast.AnnAssign(value=ast.Lambda()):
            reason = f"{name} is a lambda, which has no annotations"
            remedy = "write it as a def with annotations"
        case _:
            reason = f"{name} is made by an expression, not by a def"
            remedy = "write it as a def at the top level of the module"
    return FromError(origin.shown, node, reason, remedy)


def _refuse_form(origin: Origin, node: ast.FunctionDef) -> None:
    qualname = origin.op_of(node)
    if qualname is not None:
        raise FromError(
            origin.shown,
            node.decorator_list[0] if node.decorator_list else node,
            f"{node.name} is registered as the op {qualname} already",
            "opscaffold check says what its contract breaks, opscaffold migrate repairs it",
        )
    for decorator in node.decorator_list:
        inner = decorator.func if isinstance(decorator, ast.Call) else decorator
        if origin.names.dotted(inner) not in _HARMLESS:
            raise FromError(
                origin.shown,
                decorator,
                f"{node.name} is decorated with @{ast.unparse(decorator)}, which decides what is "
                "called",
                "name a function without a decorator; wrap the op where it is used",
            )
    own = list(_own_nodes(node))
    for inner_node in own:
        if isinstance(inner_node, ast.Yield | ast.YieldFrom):
            raise FromError(
                origin.shown,
                inner_node,
                f"{node.name} is a generator: calling it computes nothing yet",
                "return a list of Tensors",
            )
        if isinstance(inner_node, ast.Global | ast.Nonlocal):
            raise FromError(
                origin.shown,
                inner_node,
                f"{node.name} rebinds {', '.join(inner_node.names)} of its module",
                "pass the state in as an argument, and return what is new",
            )
    spec = node.args
    for odd in (spec.vararg, spec.kwarg):
        if odd is not None:
            star = "*" if odd is spec.vararg else "**"
            raise FromError(
                origin.shown,
                odd,
                f"{node.name} takes {star}{odd.arg}, and a schema names each argument",
                "write the arguments out, or take a list[Tensor]",
            )
    if spec.posonlyargs:
        raise FromError(
            origin.shown,
            spec.posonlyargs[0],
            f"{spec.posonlyargs[0].arg} is positional-only, which a schema cannot say",
            "drop the '/'",
        )


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions and classes inside it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, (*_DEFINITIONS, ast.Lambda)):
            yield from _own_nodes(child)
