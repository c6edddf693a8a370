"""Every place in a module that registers something with torch.library, as it is written."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from opscaffold.records import dataclass
from opscaffold.source.libraries import Libraries
from opscaffold.source.model import Form, FunctionNode, Module, Role
from opscaffold.source.operands import Operand
from opscaffold.source.resolve import Resolver
from opscaffold.source.scopes import How
from opscaffold.source.torch_api import (
    API_WORDS,
    FUNCTIONS,
    LEGACY,
    LIBRARY,
    LIBRARY_METHODS,
    OP_METHODS,
    Api,
    bind,
)
from opscaffold.source.tree import Tree

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHING = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Try,
    ast.Match,
    ast.IfExp,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.comprehension,
)


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One registering call, or one decorator that is an op's method.

    ``operand`` is what says which op, ``library`` the Library it is registered through,
    ``function`` the expression or decorated definition that is the kernel. ``sure`` is False
    where only the name of the method and no type speaks for it.
    """

    api: Api
    form: Form
    module: Module
    statement: ast.stmt
    call: ast.Call | None
    operand: ast.expr | None
    library: ast.expr | None
    function: ast.AST | None
    arguments: dict[str, ast.expr]
    keywords: dict[str, ast.expr]
    result: ast.AST | None = None
    fallback: bool = False
    sure: bool = True

    @property
    def packed(self) -> list[ast.expr]:
        """What the call hands on by ``*`` and ``**``."""
        if self.call is None:
            return []
        stars = [a.value for a in self.call.args if isinstance(a, ast.Starred)]
        return stars + [k.value for k in self.call.keywords if k.arg is None]


def statement_of(module: Module, node: ast.AST) -> ast.stmt:
    """Return the statement a node stands in; for a decorator, the decorated definition."""
    while not isinstance(node, ast.stmt):
        node = module.parents[node]
    return node


def is_conditional(module: Module, node: ast.AST) -> bool:
    """Say whether a node stands under an if, try, loop or function."""
    parent = module.parents.get(node)
    if isinstance(parent, _DEFINITIONS) and node in parent.decorator_list:
        node, parent = parent, module.parents.get(parent)
    while parent is not None:
        if isinstance(parent, _BRANCHING) or type(parent).__name__ == "TryStar":
            return True
        parent = module.parents.get(parent)
    return False


class SiteFinder:
    """Finds the sites of a module."""

    def __init__(self, tree: Tree, resolver: Resolver, libraries: Libraries) -> None:
        self.tree = tree
        self.resolver = resolver
        self.libraries = libraries
        # custom_op(name, ...) without a function, kept under a name: who uses it registers.
        self.pending: dict[ast.AST, Site] = {}
        self.completed: set[Site] = set()
        self._seen: set[ast.AST] = set()
        self._delayed_at: set[ast.AST] = set()

    def find(self, module: Module, words: Iterable[str] = ()) -> list[Site]:
        """Return the sites of a module that were not returned before, in the order of its text.

        ``words`` are names that stand for something of torch's API in other modules.
        """
        found: list[Site] = []
        index = self.tree.calls(module)
        for call in index.calls((*API_WORDS, *words)):
            if call not in self._seen:
                self._seen.add(call)
                found.extend(self._call(module, call))
        for decorator, node in index.decorators(OP_METHODS):
            if decorator not in self._seen:
                self._seen.add(decorator)
                found.extend(self._bare_decorator(module, decorator, node))
        found.sort(key=lambda site: _place(site.call or site.operand or site.statement))
        return found

    def find_delayed(self, module: Module, words: Iterable[str] = ()) -> list[Site]:
        """Return the sites where a kept ``custom_op(name, ...)`` gets its function."""
        found: list[Site] = []
        if not self.pending:
            return found
        index, names = self.tree.calls(module), (*API_WORDS, *words)
        for call in index.calls(names):
            if call.args and not isinstance(call.func, ast.Call):
                found += self._completed(module, call.func, call, call.args[0])
        for decorator, node in index.decorators(names):
            if not isinstance(decorator, ast.Call):
                found += self._completed(module, decorator, node, node)
        return found

    def _completed(
        self, module: Module, callee: ast.expr, node: ast.AST, function: ast.AST
    ) -> Iterator[Site]:
        kept = self._kept(module, callee)
        if kept is not None and callee not in self._delayed_at:
            self._delayed_at.add(callee)
            yield self._delayed(kept, module, node, function)

    def _kept(self, module: Module, node: ast.expr) -> Site | None:
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        for target in self.resolver.resolve(module, node).targets:
            if target.node is not None and target.node in self.pending:
                return self.pending[target.node]
        return None

    def _delayed(self, kept: Site, module: Module, node: ast.AST, function: ast.AST) -> Site:
        self.completed.add(kept)
        return Site(
            kept.api,
            Form.CURRIED,
            module,
            statement_of(module, node),
            kept.call,
            kept.operand,
            kept.library,
            function,
            kept.arguments,
            kept.keywords,
            result=node,
            fallback=kept.fallback,
        )

    def _call(self, module: Module, call: ast.Call) -> Iterator[Site]:
        called = self.resolver.resolve(module, call.func).without_none()
        for target in called.targets:
            if target.dotted in FUNCTIONS:
                api = FUNCTIONS[target.dotted]
                site = self._function(module, call, api, fallback=called.certain is None)
                # define(lib, schema) is a decorator, which defines when it is applied.
                if site.api is not LEGACY[Role.DEFINE] or site.function is not None:
                    yield site
                return
            if target.module is not None and isinstance(target.node, ast.Call):
                api_of = self._partial(target.module, target.node)
                if api_of is not None:
                    yield self._through_partial(module, call, target.node, api_of)
                    return
        if isinstance(call.func, ast.Attribute) and not called.targets:
            yield from self._method(module, call, call.func)

    def _function(self, module: Module, call: ast.Call, api: Api, *, fallback: bool) -> Site:
        library: ast.expr | None = None
        if api.role in LEGACY and call.args and self._takes_library(module, call.args[0]):
            api = LEGACY[api.role]
            library = call.args[0]
        form = None if api.role in (Role.CUSTOM_OP, Role.TRITON_OP) else Form.FUNCTION
        return self._site(module, call, api, form, library=library, fallback=fallback)

    def _method(self, module: Module, call: ast.Call, func: ast.Attribute) -> Iterator[Site]:
        base = func.value
        if func.attr in OP_METHODS and func.attr not in LIBRARY_METHODS:
            yield self._site(module, call, OP_METHODS[func.attr], None, operand=base, sure=False)
        elif func.attr in LIBRARY_METHODS:
            sure = self._takes_library(module, base)
            if sure or self._is_parameter(module, base):
                api = LIBRARY_METHODS[func.attr]
                yield self._site(module, call, api, Form.LIBRARY, library=base, sure=sure)

    def _takes_library(self, module: Module, node: ast.expr) -> bool:
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            return False
        if self.libraries.any(Operand(module, node)):
            return True
        if not isinstance(node, ast.Name):
            return False
        return any(
            binding.how is How.PARAMETER
            and isinstance(binding.node, ast.arg)
            and binding.node.annotation is not None
            and any(
                isinstance(part, (ast.Name, ast.Attribute))
                and any(t.dotted == LIBRARY for t in self.resolver.resolve(module, part).targets)
                for part in ast.walk(binding.node.annotation)
            )
            for binding in self.resolver.bindings_of(module, node)
        )

    def _is_parameter(self, module: Module, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and any(
            b.how is How.PARAMETER for b in self.resolver.bindings_of(module, node)
        )

    def _site(
        self,
        module: Module,
        call: ast.Call,
        api: Api,
        form: Form | None,
        *,
        operand: ast.expr | None = None,
        library: ast.expr | None = None,
        fallback: bool = False,
        sure: bool = True,
    ) -> Site:
        arguments = bind(call, api.positional)
        if api.operand is not None:
            operand = arguments.get(api.operand)
        statement = statement_of(module, call)
        parent = module.parents.get(call)
        decorates = isinstance(statement, _DEFINITIONS) and call in statement.decorator_list
        function: ast.AST | None = arguments.get(api.function) if api.function else None
        if isinstance(function, ast.Constant) and function.value is None:
            function = None
        written, result = Form.CALL, call if function is not None else None
        kernel: ast.AST | None = function
        made: ast.AST | None = result
        takes_function = api.function is not None or library is not None
        if function is None and takes_function and decorates:
            kernel = made = statement
            written = Form.DECORATOR
        elif function is None and takes_function and isinstance(parent, ast.Call):
            if parent.func is call and parent.args:
                kernel, made, written = parent.args[0], parent, Form.CURRIED
        elif decorates and api.function is None:
            made = None
        site = Site(
            api,
            form or written,
            module,
            statement,
            call,
            operand,
            library,
            kernel,
            arguments,
            {k.arg: k.value for k in call.keywords if k.arg is not None},
            result=made,
            fallback=fallback,
            sure=sure,
        )
        if kernel is None and api.role in (Role.CUSTOM_OP, Role.TRITON_OP):
            self.pending[call] = site
        return site

    def _bare_decorator(
        self, module: Module, decorator: ast.expr, node: FunctionNode
    ) -> Iterator[Site]:
        if not isinstance(decorator, ast.Attribute) or decorator.attr not in OP_METHODS:
            return
        api = OP_METHODS[decorator.attr]
        if api.function is None or self.resolver.resolve(module, decorator).targets:
            return
        base = decorator.value
        yield Site(api, Form.DECORATOR, module, node, None, base, None, node, {}, {}, sure=False)

    def _partial(self, module: Module, call: ast.Call) -> Api | None:
        """Return what ``functools.partial(custom_op, ...)`` registers; None for other calls."""
        if not call.args or isinstance(call.args[0], ast.Starred):
            return None
        made = self.resolver.resolve(module, call.func).certain
        if made is None or made.dotted != "functools.partial":
            return None
        inner = self.resolver.resolve(module, call.args[0]).certain
        return FUNCTIONS.get(inner.dotted) if inner is not None and inner.dotted else None

    def _through_partial(self, module: Module, call: ast.Call, partial: ast.Call, api: Api) -> Site:
        joined = ast.Call(
            func=call.func,
            args=[*partial.args[1:], *call.args],
            keywords=[*partial.keywords, *call.keywords],
        )
        site = self._site(module, call, api, Form.HELPER)
        arguments = bind(joined, api.positional)
        function = arguments.get(api.function) if api.function else None
        return Site(
            api,
            Form.HELPER,
            module,
            site.statement,
            call,
            arguments.get(api.operand) if api.operand else None,
            None,
            function or site.function,
            arguments,
            site.keywords,
            result=site.result or (call if function is not None else None),
        )


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
