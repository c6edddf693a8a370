"""The names that a function reads of its module, and what binds them there."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_WRITING = frozenset(
    {"append", "extend", "insert", "update", "setdefault", "pop", "popitem", "clear", "add"}
    | {"remove", "discard", "sort", "reverse", "appendleft", "popleft"}
)


def free_names(node: ast.AST) -> dict[str, ast.Name]:
    """The names that a definition or expression reads and does not bind, with the first use."""
    found: dict[str, ast.Name] = {}
    for name in _loads(node, frozenset()):
        found.setdefault(name.id, name)
    return found


def _loads(node: ast.AST, bound: frozenset[str]) -> Iterator[ast.Name]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            yield from _of_function(node, bound)
        case ast.ClassDef():
            outside = [*node.bases, *(k.value for k in node.keywords), *node.decorator_list]
            for part in outside:
                yield from _loads(part, bound)
            # A class's own names are seen in its body, not in its methods.
            own = frozenset(_stored(node.body))
            for statement in node.body:
                inner = bound if isinstance(statement, ast.FunctionDef) else bound | own
                yield from _loads(statement, inner)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            own = frozenset(_stored(list(node.generators)))
            for child in ast.iter_child_nodes(node):
                yield from _loads(child, bound | own)
        case ast.Constant(value=str(text)):
            del text
        case ast.Name(id=name, ctx=ast.Load()):
            if name not in bound:
                yield node
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _loads(child, bound)


def _of_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, bound: frozenset[str]
) -> Iterator[ast.Name]:
    spec = node.args
    arguments = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    arguments += [a for a in (spec.vararg, spec.kwarg) if a is not None]
    outside: list[ast.AST | None] = [*spec.defaults, *spec.kw_defaults]
    annotations: list[ast.AST | None] = [a.annotation for a in arguments]
    if not isinstance(node, ast.Lambda):
        outside += node.decorator_list
        annotations.append(node.returns)
    outside += [None if a is None else _unquoted(a) for a in annotations]
    for part in outside:
        if part is not None:
            yield from _loads(part, bound)
    body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
    inner = bound | {a.arg for a in arguments} | frozenset(_stored(body))
    for statement in body:
        yield from _loads(statement, inner)


def _unquoted(annotation: ast.AST) -> ast.AST:
    """An annotation in quotes as what it says, where it is one."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return ast.parse(annotation.value.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return annotation
    return annotation


def _stored(nodes: list[ast.AST] | list[ast.stmt] | list[ast.comprehension]) -> Iterator[str]:
    """The names that code binds in its own scope."""
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
                continue
            case ast.ClassDef(name=name):
                yield name
                continue
            case ast.Lambda():
                continue
            case ast.Import() | ast.ImportFrom():
                yield from (a.asname or a.name.partition(".")[0] for a in node.names)
            case ast.ExceptHandler(name=str(name)):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
        yield from _stored(list(ast.iter_child_nodes(node)))


@dataclass(slots=True)
class Bindings:
    """What binds each name at the top level of a module, and what changes it elsewhere."""

    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    changed: dict[str, ast.AST] = field(default_factory=dict)
    starred: bool = False

    def of(self, name: str) -> list[ast.stmt] | None:
        """The statements that bind a name; None for a builtin that nothing hides."""
        if name in self.statements:
            return self.statements[name]
        return None if hasattr(builtins, name) else []


def bindings_of(tree: ast.Module) -> Bindings:
    """Read the top level of a module."""
    found = Bindings()
    for statement in tree.body:
        names = list(_stored([statement]))
        for node in ast.walk(statement):
            if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
                found.starred = True
        for name in dict.fromkeys(names):
            found.statements.setdefault(name, []).append(statement)
    for node in ast.walk(tree):
        for name in _changes(node):
            found.changed.setdefault(name, node)
    return found


def _changes(node: ast.AST) -> Iterator[str]:
    """The names whose object a statement or call changes, or that it rebinds from within."""
    match node:
        case ast.Global(names=names):
            yield from names
        case ast.AugAssign(target=target):
            yield from _root(target)
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for each in targets:
                if not isinstance(each, ast.Name | ast.Tuple | ast.List):
                    yield from _root(each)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
            if attr in _WRITING or (attr.endswith("_") and not attr.startswith("_")):
                yield name


def _root(target: ast.expr) -> Iterator[str]:
    node: ast.expr = target
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
