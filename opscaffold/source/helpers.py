"""Project functions that register what they are given, and the places that use them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from opscaffold.records import dataclass, replace
from opscaffold.source.classes import class_of_self, instance_attributes, method
from opscaffold.source.frames import Use, bind, of_instance, returned_values
from opscaffold.source.inheritance import find_method, super_method
from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.nodes import walk
from opscaffold.source.operands import Frame, Operand
from opscaffold.source.resolve import Resolver, Target
from opscaffold.source.returning import ends_where, statements_before
from opscaffold.source.scopes import Binding, How
from opscaffold.source.sites import Site
from opscaffold.source.strings import Strings
from opscaffold.source.torch_api import DEFINING
from opscaffold.source.tree import Tree
from opscaffold.source.wrappers import wrapped

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_DEPTH = 6


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A site that the use of a helper leads to, and what its parameters then stand for.

    ``helper`` is the function used, ``last`` the use, perhaps within it, of the function that
    holds the site. ``runs`` is False where the values given do not lead there.
    """

    site: Site
    frame: Frame
    helper: FunctionNode
    last: Use
    runs: bool


class Helpers:
    """The helpers found so far: a site belongs to the function whose parameters it waits for."""

    def __init__(self, tree: Tree, resolver: Resolver, strings: Strings) -> None:
        self.tree = tree
        self.resolver = resolver
        self.strings = strings
        self.sites: dict[ast.AST, list[Site]] = {}
        self.uses: dict[ast.AST, list[Use]] = {}
        self.modules: dict[ast.AST, Module] = {}
        self._home: dict[ast.AST, Module] = {}
        self._callees: dict[ast.expr, FunctionNode | None] = {}
        self._returned: dict[ast.AST, FunctionNode | None] = {}

    def take(self, site: Site) -> bool:
        """Keep a site that waits for a parameter; False where the site stands for itself.

        It waits where the function it registers is a parameter or made from one; where it
        registers no function, where the name, the schema or the op is.
        """
        if site.function is not None and not site.packed:
            inner = wrapped(self.resolver, site.module, site.function)
            waits = self._parameters(site.module, inner or site.function)
            if not waits and not site.sure and site.operand is not None:
                waits = self._parameters(site.module, site.operand)
        else:
            parts = [site.operand, site.library, site.arguments.get("schema"), *site.packed]
            waits = [a for p in parts if p is not None for a in self._parameters(site.module, p)]
        owner = self._innermost(site.module, waits)
        if owner is None:
            owner = self._of_waiting_op(site)
        if owner is None:
            told = (site.function, site.operand, site.arguments.get("schema"))
            owner = self._maker(site.module, [part for part in told if part is not None])
        if owner is None:
            return False
        self.sites.setdefault(owner, []).append(site)
        self.modules[owner] = site.module
        return True

    def _of_waiting_op(self, site: Site) -> FunctionNode | None:
        """Return the helper that a site adds something of its own to the op of."""
        if site.api.role in DEFINING:
            return None
        parts = [part for part in (site.operand, site.library) if part is not None]
        waits = [a for part in parts for a in self._parameters(site.module, part)]
        owner = self._innermost(site.module, waits)
        defines = any(s.api.role in DEFINING for s in self.sites.get(owner, ())) if owner else False
        return owner if defines else None

    def take_use(self, use: Use) -> bool:
        """Keep a use, within a function, of a helper that hands on that function's parameters."""
        call = use.written
        if call is None:
            return False
        parts = [*call.args, *(k.value for k in call.keywords)]
        parent = use.module.parents.get(call)
        if isinstance(parent, _FUNCTIONS) and call in parent.decorator_list:
            # What it registers stands there: a factory, unless a parameter is handed on as it is.
            parts = [part for part in parts if isinstance(part, ast.Name)]
        elif isinstance(parent, ast.Call) and parent.func is call:
            parts = parent.args
        waits = [a for part in parts for a in self._parameters(use.module, part)]
        owner = self._innermost(use.module, waits) or self._maker(use.module, parts)
        if owner is None:
            return False
        self.uses.setdefault(owner, []).append(use)
        self.modules[owner] = use.module
        return True

    def known(self) -> set[ast.AST]:
        """Return the functions that register when they are called."""
        return set(self.sites) | set(self.uses)

    def names(self) -> set[str]:
        """Return the names by which other modules may reach a helper."""
        found: set[str] = set()
        for function, module in self.modules.items():
            name = ""
            node: ast.AST | None = function
            while node is not None:
                if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                    name = node.name
                node = module.parents.get(node)
            # A helper called `_` is one that nothing refers to.
            if name.strip("_"):
                found.add(name)
        return found

    def is_instance(self, target: Target) -> bool:
        """Say whether a value is made by a class with a helper among its methods, or is one."""
        if target.module is not None and isinstance(target.node, ast.ClassDef):
            made = find_method(self.resolver, target.module, target.node, "__init__")
            return made is not None and made[1] in self.known()
        if target.module is None or not isinstance(target.node, ast.Call):
            return False
        kinds = self.resolver.resolve(target.module, target.node.func)
        return any(
            module.parents.get(function) is t.node
            for t in kinds.targets
            if isinstance(t.node, ast.ClassDef)
            for outer, module in self.modules.items()
            for function in _enclosing(module, outer)
        )

    def names_in(self, module: Module) -> set[str]:
        """Return the names by which a module may call a helper, or what it stands in.

        What a function defines goes by its name in its own module only.
        """
        found: set[str] = set()
        for function, home in self.modules.items():
            around = [
                node
                for node in _enclosing(home, function)
                if isinstance(node, (*_FUNCTIONS, ast.ClassDef))
            ]
            for node in around:
                holder = home.parents.get(node)
                while holder is not None and not isinstance(holder, _FUNCTIONS):
                    holder = home.parents.get(holder)
                if holder is None or home is module:
                    found.add(node.name)
        return found

    def uses_in(self, module: Module, words: Iterable[str] = ()) -> Iterator[Use]:
        """Yield the places of a module that use a helper.

        ``words`` are names that stand for a helper, or its object, in other modules.
        """
        known, index = self.known(), self.tree.calls(module)
        names = {*self.names_in(module), *words}
        candidates: list[tuple[ast.expr, ast.Call | None, FunctionNode | None]] = []
        candidates += [(call.func, call, None) for call in index.calls(names)]
        candidates += [(written, None, node) for written, node in index.decorators(names)]
        for callee, call, decorated in candidates:
            if callee not in self._callees:
                applied = self._callee(Operand(module, callee), 0)
                self._callees[callee] = None if applied is None else applied[0]
            if self._callees[callee] in known:
                yield Use(module, callee, call, decorated)

    def expand(self, use: Use, frame: Frame | None = None, depth: int = 0) -> Iterator[Step]:
        """Yield the sites that a use leads to."""
        applied = self._callee(Operand(use.module, use.callee, frame), 0)
        if applied is None or depth > _MAX_DEPTH:
            return
        function, outer = applied
        instance = self._instance(Operand(use.module, use.callee, frame))
        inner = bind(self.strings, self._home[function], function, use, frame, outer, instance)
        for site in self.sites.get(function, ()):
            runs = self._runs(site.module, site.call or site.statement, inner)
            yield Step(site, inner, function, use, runs)
        for deeper in self.uses.get(function, ()):
            runs = self._runs(deeper.module, deeper.callee, inner)
            for step in self.expand(deeper, inner, depth + 1) if runs else ():
                yield replace(step, helper=function)

    def _runs(self, module: Module, node: ast.AST, frame: Frame) -> bool:
        """Say whether a place may be reached: not so under `if fake is not None` without a fake."""
        for choice, branch in self.tree.scopes(module).path(node, module.tree):
            if isinstance(choice, (ast.If, ast.IfExp)):
                answer = self.strings.decide(Operand(module, choice.test, frame))
                if answer is not None and answer != (branch == "body"):
                    return False
        return not self._left_before(module, node, frame)

    def _left_before(self, module: Module, node: ast.AST, frame: Frame) -> bool:
        """Say whether the function of a place is surely left before: `if name in KEPT: return`."""
        while not isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.Module)):
            parent = module.parents[node]
            for earlier in statements_before(parent, node):
                if ends_where(earlier, lambda t: self.strings.decide(Operand(module, t, frame))):
                    return True
            node = parent
        return False

    def _callee(self, operand: Operand, depth: int) -> tuple[FunctionNode, Frame] | None:
        """Return the function an expression stands for, and what its surroundings stand for.

        A call stands for the inner function that the called one returns.
        """
        if depth > _MAX_DEPTH:
            return None
        frame = operand.frame or Frame()
        node, module = operand.node, operand.module
        if isinstance(node, (ast.Name, ast.Attribute)):
            for target in self.resolver.resolve(module, node).targets:
                if target.module is None:
                    continue
                if isinstance(target.node, _FUNCTIONS):
                    self._home[target.node] = target.module
                    return target.node, self._around(operand)
                if isinstance(target.node, ast.ClassDef):
                    made = find_method(self.resolver, target.module, target.node, "__init__")
                    if made is None:
                        continue
                    self._home[made[1]] = made[0]
                    return made[1], frame
                if isinstance(target.node, ast.Call):
                    return self._callee(Operand(target.module, target.node, frame), depth + 1)
            above = isinstance(node, ast.Attribute) and super_method(self.resolver, module, node)
            if above:
                self._home[above[1]] = above[0]
                return above[1], frame
            return None
        if not isinstance(node, ast.Call):
            return None
        kind = self._class(module, node.func)
        if kind is not None:
            # What is called is an object, made right here.
            called = find_method(self.resolver, *kind, "__call__")
            if called is None:
                return None
            self._home[called[1]] = called[0]
            this = Operand(module, node, frame)
            return called[1], of_instance(self.strings, this, Operand(*kind), frame)
        outer = self._callee(Operand(module, node.func, frame), depth + 1)
        if outer is None:
            return None
        function, around = outer
        inner = self._inner(function)
        if inner is None:
            return None
        use = Use(module, node.func, node, None)
        instance = self._instance(Operand(module, node.func, frame))
        home = self._home[function]
        return inner, bind(self.strings, home, function, use, frame, around, instance)

    def _class(self, module: Module, node: ast.expr) -> tuple[Module, ast.ClassDef] | None:
        """Return the class of the tree that an expression stands for, if it is one."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            for target in self.resolver.resolve(module, node).targets:
                if target.module is not None and isinstance(target.node, ast.ClassDef):
                    return target.module, target.node
        return None

    def _instance(self, operand: Operand) -> Operand | None:
        """Return the call that made the object a method is read from, if it is in sight."""
        if not isinstance(operand.node, ast.Attribute):
            return None
        base = self.strings.settle(Operand(operand.module, operand.node.value, operand.frame))
        return base if isinstance(base.node, ast.Call) else None

    def _around(self, operand: Operand) -> Frame:
        """Return what is known where a function stands: for a method, how its object was made."""
        frame = operand.frame or Frame()
        made = self._instance(operand)
        if made is None or not isinstance(made.node, ast.Call):
            return frame
        for target in self.resolver.resolve(made.module, made.node.func).targets:
            if target.module is not None and isinstance(target.node, ast.ClassDef):
                kind = Operand(target.module, target.node)
                return of_instance(self.strings, made, kind, frame)
        return frame

    def _inner(self, function: FunctionNode) -> FunctionNode | None:
        """Return the function that a function defines and returns, if it does that."""
        if function not in self._returned:
            home = self._home[function]
            inner: FunctionNode | None = None
            for value in returned_values(function):
                for target in self.resolver.resolve(home, value).targets:
                    node = target.node
                    if inner is None and isinstance(node, _FUNCTIONS):
                        inner = node if _inside(home, node, function) else None
            self._returned[function] = inner
            if inner is not None:
                self._home[inner] = home
        return self._returned[function]

    def _parameters(self, module: Module, node: ast.AST, depth: int = 0) -> list[ast.arg]:
        """Return the parameters that an expression is made from, through local names."""
        if depth > _MAX_DEPTH or not isinstance(node, ast.expr):
            return []
        found: list[ast.arg] = []
        for name in walk(node):
            if not isinstance(name, ast.Name) or not isinstance(name.ctx, ast.Load):
                continue
            for binding in self.resolver.bindings_of(module, name):
                found.extend(self._from_binding(module, binding, depth))
        return found

    def _from_binding(self, module: Module, binding: Binding, depth: int) -> list[ast.arg]:
        if binding.how is How.PARAMETER and isinstance(binding.node, ast.arg):
            is_self = binding.name in ("self", "cls") and class_of_self(module, binding.node)
            return [] if is_self else [binding.node]
        if binding.how is How.VALUE and binding.value is not None:
            return self._parameters(module, binding.value, depth + 1)
        return []

    def _maker(self, module: Module, parts: Iterable[ast.AST]) -> FunctionNode | None:
        """Return the ``__init__`` that gives the object the attributes which parts are read from.

        What a method registers of its object's own is told where the object is made.
        """
        for part in parts:
            for node in walk(part) if isinstance(part, ast.expr) else ():
                if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                    continue
                for binding in self.resolver.bindings_of(module, node.value):
                    holder = class_of_self(module, binding.node)
                    made = method(holder, "__init__") if holder is not None else None
                    if holder is None or made is None:
                        continue
                    for value in instance_attributes(holder).get(node.attr, ()):
                        given = self._parameters(module, value)
                        if self._innermost(module, given) is made:
                            return made
        return None

    def _innermost(self, module: Module, parameters: list[ast.arg]) -> FunctionNode | None:
        best: FunctionNode | None = None
        for parameter in parameters:
            owner = module.parents[module.parents[parameter]]
            if not isinstance(owner, _FUNCTIONS):
                continue
            if best is None or _inside(module, owner, best):
                best = owner
        return best


def _enclosing(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    current: ast.AST | None = node
    while current is not None:
        yield current
        current = module.parents.get(current)


def _inside(module: Module, node: ast.AST, outer: ast.AST) -> bool:
    current: ast.AST | None = node
    while current is not None and current is not outer:
        current = module.parents.get(current)
    return current is outer and node is not outer
