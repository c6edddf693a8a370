"""Project functions that register what they are given, and the places that use them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from opscaffold.source.classes import class_of_self
from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.nodes import children, walk
from opscaffold.source.resolve import Resolver, Target
from opscaffold.source.scopes import Binding, How
from opscaffold.source.sites import Site
from opscaffold.source.strings import Frame, Operand, Strings

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_DEPTH = 6


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One place that calls a function or puts it on a definition as decorator.

    ``callee`` is the function as written, ``call`` the call that applies it (None for a
    decorator, which is applied to ``decorated``).
    """

    module: Module
    callee: ast.expr
    call: ast.Call | None
    decorated: FunctionNode | None

    @property
    def written(self) -> ast.Call | None:
        """The call that stands in the text, if there is one."""
        if self.call is not None:
            return self.call
        return self.callee if isinstance(self.callee, ast.Call) else None


class Helpers:
    """The helpers found so far: a site belongs to the function whose parameters it waits for."""

    def __init__(self, resolver: Resolver, strings: Strings) -> None:
        self.resolver = resolver
        self.strings = strings
        self.sites: dict[ast.AST, list[Site]] = {}
        self.uses: dict[ast.AST, list[Use]] = {}
        self.modules: dict[ast.AST, Module] = {}
        self._home: dict[ast.AST, Module] = {}
        self._applied: dict[Module, list[tuple[Use, FunctionNode]]] = {}
        self._returned: dict[ast.AST, FunctionNode | None] = {}

    def take(self, site: Site) -> bool:
        """Keep a site that waits for a parameter; False where the site stands for itself.

        It waits where the function it registers is a parameter or made from one; where it
        registers no function, where the name, the schema or the op is.
        """
        if site.function is not None:
            waits = self._parameters(site.module, site.function)
            if not waits and not site.sure and site.operand is not None:
                waits = self._parameters(site.module, site.operand)
        else:
            parts = [site.operand, site.library, site.arguments.get("schema")]
            waits = [a for p in parts if p is not None for a in self._parameters(site.module, p)]
        owner = self._innermost(site.module, waits)
        if owner is None:
            return False
        self.sites.setdefault(owner, []).append(site)
        self.modules[owner] = site.module
        return True

    def take_use(self, use: Use) -> bool:
        """Keep a use, within a function, of a helper that hands on that function's parameters."""
        if use.decorated is not None or use.call is None:
            return False
        parts = [*use.call.args, *(k.value for k in use.call.keywords)]
        waits = [a for part in parts for a in self._parameters(use.module, part)]
        owner = self._innermost(use.module, waits)
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
            found.add(name)
        return found

    def is_instance(self, target: Target) -> bool:
        """Say whether a value is made by a class that has a helper among its methods."""
        if target.module is None or not isinstance(target.node, ast.Call):
            return False
        made = self.resolver.resolve(target.module, target.node.func)
        return any(
            module.parents.get(function) is t.node
            for t in made.targets
            if isinstance(t.node, ast.ClassDef)
            for outer, module in self.modules.items()
            for function in _enclosing(module, outer)
        )

    def uses_in(self, module: Module) -> Iterator[tuple[Use, FunctionNode]]:
        """Yield the places of a module that use a helper, with the helper."""
        if module not in self._applied:
            self._applied[module] = list(self._all_uses(module))
        known = self.known()
        for use, function in self._applied[module]:
            if function in known:
                yield use, function

    def _all_uses(self, module: Module) -> Iterator[tuple[Use, FunctionNode]]:
        for node in module.parents:
            candidates: list[Use] = []
            if isinstance(node, ast.Call):
                candidates.append(Use(module, node.func, node, None))
            elif isinstance(node, _FUNCTIONS):
                candidates += [Use(module, d, None, node) for d in node.decorator_list]
            for use in candidates:
                applied = self._callee(Operand(module, use.callee), 0)
                if applied is not None:
                    yield use, applied[0]

    def expand(
        self, use: Use, frame: Frame | None = None, depth: int = 0
    ) -> Iterator[tuple[Site, Frame, FunctionNode]]:
        """Yield the sites that a use runs, with what their parameters then stand for."""
        applied = self._callee(Operand(use.module, use.callee, frame), 0)
        if applied is None or depth > _MAX_DEPTH:
            return
        function, outer = applied
        inner = self._bind(function, use, frame, outer)
        for site in self.sites.get(function, ()):
            yield site, inner, function
        for deeper in self.uses.get(function, ()):
            for site, found, _ in self.expand(deeper, inner, depth + 1):
                yield site, found, function

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
                    return target.node, frame
                if isinstance(target.node, ast.Call):
                    return self._callee(Operand(target.module, target.node, frame), depth + 1)
            return None
        if not isinstance(node, ast.Call):
            return None
        outer = self._callee(Operand(module, node.func, frame), depth + 1)
        if outer is None:
            return None
        function, around = outer
        inner = self._inner(function)
        if inner is None:
            return None
        return inner, self._bind(function, Use(module, node.func, node, None), frame, around)

    def _inner(self, function: FunctionNode) -> FunctionNode | None:
        """Return the function that a function defines and returns, if it does that."""
        if function not in self._returned:
            home = self._home[function]
            inner: FunctionNode | None = None
            for value in _returned_values(function):
                for target in self.resolver.resolve(home, value).targets:
                    node = target.node
                    if inner is None and isinstance(node, _FUNCTIONS):
                        inner = node if _inside(home, node, function) else None
            self._returned[function] = inner
            if inner is not None:
                self._home[inner] = home
        return self._returned[function]

    def _bind(self, function: FunctionNode, use: Use, frame: Frame | None, around: Frame) -> Frame:
        parameters = dict(around.parameters)
        home = self._home[function]
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        named = {a.arg: a for a in (*positional, *arguments.kwonlyargs)}
        for argument, default in zip(
            reversed(positional), reversed(arguments.defaults), strict=False
        ):
            parameters[argument] = Operand(home, default)
        for argument, default_or_none in zip(
            arguments.kwonlyargs, arguments.kw_defaults, strict=True
        ):
            if default_or_none is not None:
                parameters[argument] = Operand(home, default_or_none)
        if isinstance(home.parents.get(function), ast.ClassDef) and not any(
            isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
        ):
            positional = positional[1:]
        if use.call is None:
            if positional and use.decorated is not None:
                parameters[positional[0]] = Operand(use.module, use.decorated)
            return Frame(parameters)
        for argument, value in zip(positional, use.call.args, strict=False):
            if isinstance(value, ast.Starred):
                break
            parameters[argument] = Operand(use.module, value, frame)
        for keyword in use.call.keywords:
            if keyword.arg in named:
                parameters[named[keyword.arg]] = Operand(use.module, keyword.value, frame)
        return Frame(parameters)

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

    def _innermost(self, module: Module, parameters: list[ast.arg]) -> FunctionNode | None:
        best: FunctionNode | None = None
        for parameter in parameters:
            owner = module.parents[module.parents[parameter]]
            if not isinstance(owner, _FUNCTIONS):
                continue
            if best is None or _inside(module, owner, best):
                best = owner
        return best


def _returned_values(function: FunctionNode) -> Iterator[ast.expr]:
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop(0)
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda, ast.expr)):
            stack += children(node)


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
