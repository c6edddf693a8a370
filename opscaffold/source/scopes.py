"""The scopes of a module and what binds each name in them, by Python's own rules."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator

from opscaffold.patterns import pattern
from opscaffold.records import dataclass, field
from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.nodes import children

_COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Nodes whose children need not belong to the scope the node stands in.
_OUTER_NAMES = pattern(r"\b(?:global|nonlocal)\s")
_OPENING = frozenset({*_FUNCTIONS, ast.Lambda, ast.ClassDef, ast.comprehension, *_COMPREHENSION})
# The commonest nodes that bind nothing.
_SILENT = frozenset(
    {ast.Constant, ast.Attribute, ast.Call, ast.Expr, ast.keyword, ast.Subscript, ast.Return}
)

Position = tuple[int, int]
Step = tuple[ast.AST, str]


class Kind(enum.Enum):
    """What a scope is."""

    MODULE = "module"
    CLASS = "class"
    FUNCTION = "function"
    COMPREHENSION = "comprehension"


class How(enum.Enum):
    """What binds a name."""

    IMPORT = "import"
    FROM_IMPORT = "from import"
    FUNCTION = "function"
    CLASS = "class"
    VALUE = "assignment of a value in sight"
    ENTERED = "with"
    PARAMETER = "parameter"
    DELETED = "del"
    DECLARED = "annotation without a value"
    OTHER = "loop, except, match, unpacking or augmented assignment"


@dataclass(slots=True, eq=False)
class Binding:
    """One place that binds a name.

    ``node`` is the alias, definition, parameter or Name that does it, ``statement`` the
    statement around it, ``value`` what a VALUE binds, or what is
    entered to get an ENTERED. From ``position`` on the binding holds.
    ``owner`` is the node of the scope it stands in.
    ``elsewhere`` says that a function binds it by ``global`` or ``nonlocal``.
    """

    name: str
    how: How
    node: ast.AST
    statement: ast.AST
    position: Position
    scopes: Scopes
    owner: ast.AST
    value: ast.expr | None = None
    elsewhere: bool = False
    _path: tuple[Step, ...] | None = None

    @property
    def path(self) -> tuple[Step, ...]:
        """The branches it stands under, from its scope inwards."""
        if self._path is None:
            self._path = self.scopes.path(self.node, self.owner)
        return self._path


@dataclass(slots=True, eq=False)
class Scope:
    """One scope. ``stars`` are the ``from m import *`` of a module."""

    kind: Kind
    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)


class Scopes:
    """Every scope of a module, and for each node the scope its names are looked up in."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.top = Scope(Kind.MODULE, module.tree, None)
        self._of: dict[ast.AST, Scope] = {}
        self._inner: dict[ast.AST, Scope] = {module.tree: self.top}
        self._values: dict[ast.AST, tuple[ast.expr, ast.stmt]] = {}
        # Bodies of functions are looked into when something in them is asked for, unless names
        # of other scopes may be bound there.
        self._later: dict[ast.AST, list[ast.AST]] | None = {}
        if _OUTER_NAMES.search(module.source.text):
            self._later = None
        self._walk([(module.tree, self.top)])
        self._settle_outer_names()

    def of(self, node: ast.AST) -> Scope | None:
        """Return the scope that a node's names are looked up in; None for a foreign node."""
        found = self._of.get(node)
        if found is None and self._later and node in self.module.parents:
            self._reach(node)
            found = self._of.get(node)
        return found

    def inner(self, node: ast.AST) -> Scope | None:
        """Return the scope that a definition, lambda or comprehension opens."""
        found = self._inner.get(node)
        if found is None and self._later and node in self.module.parents:
            self._reach(node)
            found = self._inner.get(node)
        return found

    def _reach(self, node: ast.AST) -> None:
        """Look into the functions around a node, outermost first."""
        around: list[ast.AST] = []
        current: ast.AST | None = node
        while current is not None:
            around.append(current)
            current = self.module.parents.get(current)
        for holder in reversed(around):
            body = self._later.pop(holder, None) if self._later else None
            if body is not None:
                scope = self._inner[holder]
                self._walk([(child, scope) for child in reversed(body)])

    def lookup(self, name: str, scope: Scope) -> tuple[Scope, list[Binding]] | None:
        """Return the scope that owns a name as seen from ``scope``, with its bindings there.

        None where no scope binds it: a builtin, or a name of a star import.
        """
        seen: Scope | None = scope
        first = True
        while seen is not None:
            visible = first or seen.kind is not Kind.CLASS
            if visible and name in seen.bindings:
                return seen, seen.bindings[name]
            # A comprehension in a class body does not see the class, a class body does.
            first = False
            seen = seen.parent
        return None

    def names_at(self, node: ast.AST) -> set[str]:
        """Return every name bound in the scope a node stands in or in one around it."""
        names: set[str] = set()
        scope: Scope | None = self.inner(node) or self.of(node) or self.top
        while scope is not None:
            names.update(scope.bindings)
            scope = scope.parent
        return names

    def path(self, node: ast.AST, owner: ast.AST) -> tuple[Step, ...]:
        """Return the branches below ``owner`` that a node stands under, outermost first."""
        parents = self.module.parents
        steps: list[Step] = []
        child, parent = node, parents.get(node)
        while parent is not None and child is not owner:
            step = _step(parent, child)
            if step is not None:
                steps.append((parent, step))
            child, parent = parent, parents.get(parent)
        return tuple(reversed(steps))

    def _walk(self, stack: list[tuple[ast.AST, Scope]]) -> None:
        of = self._of
        opened = len(self._inner)
        begun = {scope.node: scope for _, scope in stack}
        while stack:
            node, scope = stack.pop()
            of[node] = scope
            if type(node) in _OPENING:
                stack.extend(self._enter(node, scope))
                continue
            if type(node) not in _SILENT:
                self._bind_by(node, scope)
            stack += [(child, scope) for child in children(node)]
        for scope in (*begun.values(), *list(self._inner.values())[opened:]):
            for bindings in scope.bindings.values():
                bindings.sort(key=lambda b: b.position)

    def _enter(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        """Take in what a node binds; yield its children with the scope each belongs to."""
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            yield from self._enter_function(node, scope)
        elif isinstance(node, ast.ClassDef):
            self._bind(scope, node.name, How.CLASS, node, _end(node))
            inner = self._open(Kind.CLASS, node, scope)
            body = set(node.body)
            for child in children(node):
                yield child, inner if child in body else scope
        elif isinstance(node, _COMPREHENSION):
            inner = self._open(Kind.COMPREHENSION, node, scope)
            for child in children(node):
                yield child, inner
        elif isinstance(node, ast.comprehension):
            holder = self.module.parents[node]
            is_first = isinstance(holder, _COMPREHENSION) and holder.generators[0] is node
            # The first iterable is evaluated outside the comprehension.
            outside = scope.parent if is_first and scope.parent is not None else scope
            for child in children(node):
                yield child, outside if child is node.iter else scope

    def _enter_function(
        self, node: FunctionNode | ast.Lambda, scope: Scope
    ) -> Iterator[tuple[ast.AST, Scope]]:
        inner = self._open(Kind.FUNCTION, node, scope)
        if not isinstance(node, ast.Lambda):
            self._bind(scope, node.name, How.FUNCTION, node, (node.lineno, node.col_offset))
            for expression in (*node.decorator_list, *([node.returns] if node.returns else [])):
                yield expression, scope
            for parameter in getattr(node, "type_params", ()):
                yield parameter, inner
        arguments = node.args
        self._of[arguments] = scope
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        named += [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
        for arg in named:
            self._of[arg] = inner
            self._bind(inner, arg.arg, How.PARAMETER, arg, (node.lineno, node.col_offset))
            if arg.annotation is not None:
                yield arg.annotation, scope
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                yield default, scope
        body: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
        if self._later is not None and not isinstance(node, ast.Lambda):
            self._later[node] = body
            return
        for child in body:
            yield child, inner

    def _bind_by(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Name):
            self._bind_name(node, scope)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self._bind(scope, name, How.IMPORT, alias, _end(node))
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    scope.stars.append(node)
                else:
                    name = alias.asname or alias.name
                    self._bind(scope, name, How.FROM_IMPORT, alias, _end(node))
        elif isinstance(node, ast.Global):
            scope.outer.update(dict.fromkeys(node.names, "global"))
        elif isinstance(node, ast.Nonlocal):
            scope.outer.update(dict.fromkeys(node.names, "nonlocal"))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self._pair(target, node.value, node)
        else:
            bound = _other_name(node)
            if bound is not None:
                self._bind(scope, bound, How.OTHER, node, _start(node))

    def _pair(self, target: ast.expr, value: ast.expr | None, statement: ast.stmt) -> None:
        if isinstance(target, ast.Name) and value is not None:
            self._values[target] = (value, statement)
        elif (
            isinstance(target, (ast.Tuple, ast.List))
            and isinstance(value, (ast.Tuple, ast.List))
            and len(target.elts) == len(value.elts)
            and not any(isinstance(e, ast.Starred) for e in (*target.elts, *value.elts))
        ):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._pair(one, other, statement)
        elif (
            isinstance(target, (ast.Tuple, ast.List))
            and isinstance(value, ast.Call)
            and not any(isinstance(e, ast.Starred) for e in target.elts)
        ):
            for index, one in enumerate(target.elts):
                place = ast.copy_location(ast.Constant(index), value)
                item = ast.Subscript(value=value, slice=place, ctx=ast.Load())
                self._pair(one, ast.copy_location(item, value), statement)

    def _bind_name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            return
        parent = self.module.parents[node]
        if isinstance(node.ctx, ast.Del):
            self._bind(scope, node.id, How.DELETED, node, _end(node))
        elif node in self._values:
            value, statement = self._values[node]
            self._bind(scope, node.id, How.VALUE, node, _end(statement), value)
        elif isinstance(parent, ast.NamedExpr):
            while scope.kind is Kind.COMPREHENSION and scope.parent is not None:
                scope = scope.parent
            self._bind(scope, node.id, How.VALUE, node, _end(parent), parent.value)
        elif isinstance(parent, ast.withitem):
            self._bind(scope, node.id, How.ENTERED, node, _end(node), parent.context_expr)
        elif isinstance(parent, ast.AnnAssign):
            self._bind(scope, node.id, How.DECLARED, node, _end(parent))
        else:
            self._bind(scope, node.id, How.OTHER, node, self._after(node))

    def _after(self, node: ast.AST) -> Position:
        # A plain or augmented assignment binds once its value is there, a loop before its body.
        parent = self.module.parents.get(node)
        while isinstance(parent, (ast.Tuple, ast.List, ast.Starred)):
            parent = self.module.parents.get(parent)
        return _end(parent if isinstance(parent, (ast.Assign, ast.AugAssign)) else node)

    def _bind(
        self,
        scope: Scope,
        name: str,
        how: How,
        node: ast.AST,
        position: Position,
        value: ast.expr | None = None,
    ) -> None:
        statement = node
        while not isinstance(statement, (ast.stmt, ast.Module)):
            statement = self.module.parents[statement]
        binding = Binding(name, how, node, statement, position, self, scope.node, value)
        scope.bindings.setdefault(name, []).append(binding)

    def _open(self, kind: Kind, node: ast.AST, parent: Scope) -> Scope:
        self._inner[node] = scope = Scope(kind, node, parent)
        return scope

    def _settle_outer_names(self) -> None:
        """Hand what a ``global`` or ``nonlocal`` name binds to the scope that owns it."""
        for scope in list(self._inner.values()):
            for name, which in scope.outer.items():
                moved = scope.bindings.pop(name, [])
                owner = self.top
                if which == "nonlocal":
                    found = self.lookup(name, scope.parent) if scope.parent else None
                    owner = found[0] if found else self.top
                for binding in moved:
                    binding.elsewhere = True
                bindings = owner.bindings.setdefault(name, [])
                bindings.extend(moved)
                bindings.sort(key=lambda b: b.position)


def _other_name(node: ast.AST) -> str | None:
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return node.name
    if isinstance(node, ast.MatchMapping):
        return node.rest
    if type(node).__name__ in {"TypeVar", "ParamSpec", "TypeVarTuple"}:
        name = getattr(node, "name", None)
        return name if isinstance(name, str) else None
    return None


def _within(child: ast.AST, body: list[ast.stmt]) -> bool:
    return any(child is statement for statement in body)


def _step(parent: ast.AST, child: ast.AST) -> str | None:
    """Name the branch of ``parent`` that ``child`` stands in; None where it always runs."""
    if isinstance(parent, (ast.If, ast.For, ast.AsyncFor, ast.While)):
        for branch in ("body", "orelse"):
            if _within(child, getattr(parent, branch)):
                return branch
        return None
    if isinstance(parent, ast.Try) or type(parent).__name__ == "TryStar":
        if isinstance(child, ast.ExceptHandler):
            return f"except at {child.lineno}"
        for branch in ("body", "orelse"):
            if _within(child, getattr(parent, branch)):
                return branch
        return None
    if isinstance(parent, ast.Match) and isinstance(child, ast.match_case):
        return f"case at {child.pattern.lineno}:{child.pattern.col_offset}"
    if isinstance(parent, ast.IfExp) and child is not parent.test:
        return "body" if child is parent.body else "orelse"
    if isinstance(parent, ast.BoolOp) and child is not parent.values[0]:
        return "later operand"
    return None


def _start(node: ast.AST) -> Position:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end(node: ast.AST) -> Position:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
