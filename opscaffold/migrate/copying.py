"""Where a kernel has to copy so that it returns memory of its own, and how that is written."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from opscaffold.contract.model import ListType, SchemaType
from opscaffold.effects.values import UNSEEN, Ref
from opscaffold.migrate.edits import FileEdits, Template
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.syntax import Syntax
from opscaffold.migrate.watching import Watched
from opscaffold.rules.functions import AnyFunction, own_nodes
from opscaffold.source.load import span
from opscaffold.source.model import Module

# Methods that convert where that is needed, by the dtype they convert to.
_DTYPES = {
    name: name
    for name in ("float", "double", "half", "bfloat16", "int", "long", "short", "bool", "cfloat")
}
_BY_HAND = "clone what is returned there by hand"
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(slots=True)
class Copies:
    """The copies to be made in one kernel.

    ``bad`` says which memory must not be returned. ``torch`` is what the module calls torch, None
    where it has no name for it. ``dense`` are the places of returns that are to be contiguous.
    A ``fake`` kernel makes an empty tensor in place of a copy.
    """

    syntax: Syntax
    module: Module
    function: AnyFunction
    watched: Watched
    torch: str | None
    bad: Callable[[Ref], bool]
    returns: Sequence[SchemaType] | None
    optional: frozenset[str] = frozenset()
    dense: frozenset[int | None] = frozenset()
    fake: bool = False
    edits: FileEdits = field(default_factory=FileEdits)
    contiguous: set[int | None] = field(default_factory=set)
    """The returns that are contiguous on every input, as far as copies decide it."""

    def copy_in(self, value: ast.expr) -> None:
        """Copy in what one ``return`` hands back. Raises RefusalError."""
        self._at_top(value, self.bad, binding=True)

    def separate_in(self, value: ast.expr) -> None:
        """Copy what of one ``return`` shares memory with another part of it."""
        if isinstance(value, ast.IfExp):
            self.separate_in(value.body)
            self.separate_in(value.orelse)
            return
        bound = self._bindings(value) if isinstance(value, ast.Name) else []
        if bound:
            for part in bound:
                self.separate_in(part)
            return
        places = list(self._leaves(value))
        groups: dict[str, list[int]] = {}
        for number, (leaf, _) in enumerate(places):
            for ref in self.watched.refs(leaf):
                if ref != UNSEEN and not ref.guess:
                    groups.setdefault(ref.root, []).append(number)
        for root, members in groups.items():
            keeper = next((n for n in members if self._is_whole(places[n][0], root)), None)
            for number in members:
                leaf, place = places[number]
                own = self._is_split(leaf, root)
                if own or (len(members) > 1 and number != keeper):
                    self._copy(leaf, partial(_stands_on, root), place, binding=False)
        if len(places) == 1 and not self.edits and self.watched.is_several(value):
            self._each(value, self._collection(value, None), None)

    def _at_top(self, value: ast.expr, bad: Callable[[Ref], bool], *, binding: bool) -> None:
        if isinstance(value, ast.IfExp) and self._any(value, bad):
            self._at_top(value.body, bad, binding=binding)
            self._at_top(value.orelse, bad, binding=binding)
            return
        for leaf, place in self._leaves(value):
            self._copy(leaf, bad, place, binding=binding)

    def _leaves(self, value: ast.expr) -> list[tuple[ast.expr, int | None]]:
        """The parts of what is returned, each with its place among the returns."""
        if isinstance(value, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in value.elts):
            found: list[tuple[ast.expr, int | None]] = []
            for index, element in enumerate(value.elts):
                found += [(leaf, index) for leaf, _ in self._leaves(element)]
            return found
        if isinstance(value, ast.List):
            return [leaf for element in value.elts for leaf in self._leaves(element)]
        return [(value, None)]

    def _any(self, expr: ast.expr, bad: Callable[[Ref], bool]) -> bool:
        return any(bad(ref) for ref in self.watched.refs(expr))

    def _is_whole(self, leaf: ast.expr, root: str) -> bool:
        """Whether a part is the very tensor that was allocated, which the others are cut from."""
        refs = self.watched.refs(leaf)
        return all(
            r.root == root and r.exact and r.whole and not (r.perhaps or r.several) for r in refs
        )

    def _is_split(self, leaf: ast.expr, root: str) -> bool:
        """Whether a part is a list of views of one memory."""
        refs = self.watched.refs(leaf)
        return any(r.root == root and r.several and not r.exact for r in refs)

    def _copy(
        self, expr: ast.expr, bad: Callable[[Ref], bool], place: int | None, *, binding: bool
    ) -> None:
        """Copy at the innermost expressions that are in question."""
        if not self._any(expr, bad):
            return
        match expr:
            case ast.IfExp():
                self._copy(expr.body, bad, place, binding=binding)
                self._copy(expr.orelse, bad, place, binding=binding)
            case ast.NamedExpr():
                self._copy(expr.value, bad, place, binding=binding)
            case ast.Tuple() | ast.List():
                for element in expr.elts:
                    self._copy(element, bad, place, binding=binding)
            case ast.Starred():
                self._each(expr.value, "({} for {} in _0)", place)
            case ast.ListComp() | ast.GeneratorExp():
                self._copy(expr.elt, bad, place, binding=False)
            case ast.Call(func=ast.Name(id="list" | "tuple" as name), args=[inner], keywords=[]):
                if isinstance(inner, ast.ListComp | ast.GeneratorExp | ast.List | ast.Tuple):
                    self._copy(inner, bad, place, binding=False)
                elif name == "list":
                    self._each(inner, "[{} for {} in _0]", place, at=expr)
                else:
                    self._each(inner, "tuple({} for {} in _0)", place, at=expr)
            case ast.Name() if binding and (values := self._bindings(expr)):
                for value in values:
                    self._copy(value, bad, place, binding=binding)
            case _:
                self._whole(expr, bad, place)

    def _whole(self, expr: ast.expr, bad: Callable[[Ref], bool], place: int | None) -> None:
        """Copy what one expression evaluates to."""
        if self.watched.is_several(expr):
            self._each(expr, self._collection(expr, place), place)
            return
        if self.watched.may_be_none(expr):
            roots = {ref.root for ref in self.watched.refs(expr)}
            if roots & self.optional or any(r.startswith("global:") for r in roots):
                text = ast.unparse(expr)
                raise RefusalError(expr, f"`{text}` may be None here", _BY_HAND, self.module)
        always = not any(r.perhaps for r in self.watched.refs(expr) if bad(r))
        self._converted(expr, place, always=always)

    def _collection(self, expr: ast.expr, place: int | None) -> str:
        returns = self.returns
        if returns is None:
            raise RefusalError(
                expr, "what the op returns cannot be told from its schema", _BY_HAND, self.module
            )
        whole = place is None and len(returns) != 1
        if whole and not any(isinstance(t, ListType) for t in returns):
            return "tuple({} for {} in _0)"
        index = 0 if place is None else place
        if not whole and index < len(returns) and isinstance(returns[index], ListType):
            return "[{} for {} in _0]"
        raise RefusalError(
            expr, f"`{ast.unparse(expr)}` holds tensors and lists of them", _BY_HAND, self.module
        )

    def _each(
        self, expr: ast.expr, code: str, place: int | None, *, at: ast.expr | None = None
    ) -> None:
        """Copy each element of a collection."""
        name = self._free_name()
        text = code.format(self._clone(name, place), name)
        key = self.syntax.place(at or expr)
        self.edits.expressions[key] = Template(text, (self.syntax.place(expr),))

    def _clone(self, code: str, place: int | None, *, always: bool = True) -> str:
        dense = always and place in self.dense and self.torch is not None
        if self.fake and self.torch is not None and always:
            return f"{self.torch}.empty_like({code}{', ' + self._format() if dense else ''})"
        return f"{code}.clone({self._format() if dense else ''})"

    def _format(self) -> str:
        return f"memory_format={self.torch}.contiguous_format"

    def _converted(self, expr: ast.expr, place: int | None, *, always: bool) -> None:
        """Let a conversion copy on every input; clone the result of anything else."""
        key = self.syntax.place(expr)
        if key in self.edits.expressions or key in self.edits.keywords:
            return
        match expr:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if self._is_plain(expr):
                part = (self.syntax.place(owner),)
                given = (len(expr.args), [k.arg for k in expr.keywords])
                if name == "contiguous" and given == (0, []) and self.torch:
                    code = f"_0.clone({self._format()})"
                    self.edits.expressions[key] = Template(code, part)
                    self.contiguous.add(place)
                    return
                if name == "to" and 0 < len(expr.args) < 3 and "copy" not in given[1]:
                    self.edits.keywords[key] = {"copy": "True"}
                    return
                if name == "to" and {"dtype", "device"} & set(given[1]) and "copy" not in given[1]:
                    self.edits.keywords[key] = {"copy": "True"}
                    return
                if name in _DTYPES and given == (0, []) and self.torch:
                    code = f"_0.to({self.torch}.{_DTYPES[name]}, copy=True)"
                    self.edits.expressions[key] = Template(code, part)
                    return
                if name == "cpu" and given == (0, []):
                    self.edits.expressions[key] = Template('_0.to("cpu", copy=True)', part)
                    return
        code = self._clone("_0", place, always=always)
        self.edits.expressions[key] = Template(code, (key,))

    def _is_plain(self, call: ast.Call) -> bool:
        """Whether a call is a tensor's method, spelt out, with no comment inside."""
        func = call.func
        if not isinstance(func, ast.Attribute):
            return False
        refs = self.watched.refs(func.value)
        if not refs or any(r.array or r.several for r in refs):
            return False
        if any(isinstance(a, ast.Starred) for a in call.args) or any(
            k.arg is None for k in call.keywords
        ):
            return False
        start, end = span(self.module, call)
        return "#" not in self.module.source.text[start:end]

    def _bindings(self, name: ast.Name) -> list[ast.expr]:
        """What a name is bound to, if it is read for nothing but being returned; else nothing."""
        function = self.function
        if isinstance(function, ast.Lambda) or name.id in _parameters(function):
            return []
        parents = self.module.parents
        values: list[ast.expr] = []
        for node in own_nodes(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name.id:
                    values.append(value)
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                    if target == name.id:
                        values.append(value)
                case ast.Global() | ast.Nonlocal() if name.id in node.names:
                    return []
        every = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name.id]
        stores = [n for n in every if not isinstance(n.ctx, ast.Load)]
        loads = [n for n in every if isinstance(n.ctx, ast.Load)]
        if len(stores) != len(values) or not values:
            return []
        if any(_in_loop(parents, value, function) for value in values):
            return []
        own = set(own_nodes(function))
        if not all(load in own and _is_returned(parents, load) for load in loads):
            return []
        roots = {r.root for value in values for r in self.watched.refs(value)} - {"?"}
        # A write in between would reach the one memory and not the other.
        return [] if self.watched.is_changed(roots) else values

    def _free_name(self) -> str:
        taken = {n.id for n in ast.walk(self.function) if isinstance(n, ast.Name)}
        taken |= _parameters(self.function)
        names = ("t", "part", "tensor", "item", *(f"t{number}" for number in range(len(taken) + 1)))
        return next(n for n in names if n not in taken)


def _stands_on(root: str, ref: Ref) -> bool:
    return ref.root == root


def _parameters(function: AnyFunction) -> set[str]:
    spec = function.args
    named = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    return {a.arg for a in (*named, *filter(None, (spec.vararg, spec.kwarg)))}


def _is_returned(parents: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether an expression is what a ``return`` hands back, or a part of it."""
    parent = parents.get(node)
    while isinstance(parent, ast.Tuple | ast.List | ast.IfExp):
        if isinstance(parent, ast.IfExp) and node is parent.test:
            return False
        node, parent = parent, parents.get(parent)
    return isinstance(parent, ast.Return)


def _in_loop(parents: dict[ast.AST, ast.AST], node: ast.AST, function: ast.AST) -> bool:
    parent = parents.get(node)
    while parent is not None and parent is not function:
        if isinstance(parent, _LOOPS):
            return True
        parent = parents.get(parent)
    return False
