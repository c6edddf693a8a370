"""Ops registered through helpers that the configuration describes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

from opscaffold.config.model import Registrar
from opscaffold.records import dataclass
from opscaffold.source.model import Form, FunctionNode, Module, Registration, Role
from opscaffold.source.operands import Frame, Operand
from opscaffold.source.resolve import Resolver, Target
from opscaffold.source.sites import is_conditional, statement_of
from opscaffold.source.strings import Strings
from opscaffold.source.texts import Text, known
from opscaffold.source.torch_api import bind
from opscaffold.source.tree import Tree

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_STRING_LIKE = (ast.Constant, ast.JoinedStr, ast.BinOp)

_ATTACHING = {"register_fake": Role.FAKE, "impl": Role.IMPL}

NamespaceOf = Callable[[Module, ast.expr, Frame], Text]


@dataclass(frozen=True, slots=True, eq=False)
class _Use:
    """One place that uses a described helper.

    ``written`` is the helper's name, ``call`` its call (None for a bare decorator), ``function``
    what the call was then given or put on. The call stands in ``home``: elsewhere than the use
    where a decorator was made first, and kept under a name.
    """

    registrar: Registrar
    module: Module
    home: Module
    written: ast.expr
    call: ast.Call | None
    function: ast.AST | None
    result: ast.AST


class Registrars:
    """The described helpers of a tree."""

    def __init__(
        self,
        registrars: Sequence[Registrar],
        tree: Tree,
        resolver: Resolver,
        strings: Strings,
        namespace: NamespaceOf,
    ) -> None:
        self._known = {registrar.helper: registrar for registrar in registrars}
        self._tree = tree
        self._resolver = resolver
        self._strings = strings
        self._namespace = namespace
        self.taken: set[ast.AST] = set()
        """The calls and decorators read so far: they are not to be read in another way."""

    def names(self) -> set[str]:
        """Return the words of which a file that uses a helper holds at least one."""
        return {helper.rpartition(".")[2] for helper in self._known}

    def take(self, module: Module, words: Iterable[str] = ()) -> list[Registration]:
        """Return the registrations that a module makes through described helpers.

        Those that were returned before are left out.
        """
        if not self._known:
            return []
        found: list[Registration] = []
        index, names = self._tree.calls(module), {*self.names(), *words}
        written = [call.func for call in index.calls(names)]
        for node in (*written, *(decorator for decorator, _ in index.decorators(names))):
            if not isinstance(node, (ast.Name, ast.Attribute)) or node in self.taken:
                continue
            use = self._use(module, node)
            if use is not None:
                self.taken |= {use.written, use.result, *([use.call] if use.call else [])}
                found += self._registrations(use)
        return found

    def _use(self, module: Module, node: ast.Name | ast.Attribute) -> _Use | None:
        parent = module.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            call: ast.Call | None = parent
        elif isinstance(parent, _FUNCTIONS) and node in parent.decorator_list:
            call = None
        else:
            return None
        registrar = self._described(module, node)
        if registrar is None:
            return self._kept(module, node, call)
        result: ast.AST = node if call is None else call
        above = module.parents.get(result)
        function: ast.AST | None = None
        if isinstance(above, _FUNCTIONS) and result in above.decorator_list:
            function = above
        elif isinstance(above, ast.Call) and above.func is result and above.args:
            function, result = above.args[0], above
        if call is not None and function is None and self._is_kept(module, registrar, call):
            return None
        return _Use(registrar, module, module, node, call, function, result)

    def makes(self, target: Target) -> bool:
        """Say whether a value is a decorator that a described helper made, for whatever op."""
        if target.module is None or not isinstance(target.node, ast.Call):
            return False
        registrar = self._described(target.module, target.node.func)
        return registrar is not None and self._is_kept(target.module, registrar, target.node)

    def _is_kept(self, module: Module, registrar: Registrar, call: ast.Call) -> bool:
        """Say whether a call makes a decorator, for whatever op, that goes by another name."""
        given = bind(call, registrar.parameters).keys()
        if given & {registrar.function, registrar.name, registrar.schema}:
            return False
        return isinstance(module.parents.get(call), (ast.Assign, ast.AnnAssign))

    def _kept(self, module: Module, node: ast.expr, call: ast.Call | None) -> _Use | None:
        """Return the use of a decorator that a described helper made before."""
        for target in self._resolver.resolve(module, node).targets:
            made = target.node
            if target.module is None or not isinstance(made, ast.Call) or not self.makes(target):
                continue
            registrar = self._described(target.module, made.func)
            if registrar is None:
                continue
            if call is None:
                function: ast.AST | None = module.parents.get(node)
                return _Use(registrar, module, target.module, node, made, function, node)
            if call.args:
                return _Use(registrar, module, target.module, node, made, call.args[0], call)
        return None

    def _described(self, module: Module, node: ast.expr) -> Registrar | None:
        for target in self._resolver.resolve(module, node).targets:
            name = target.dotted or _name_in_tree(target)
            if name is not None and name in self._known:
                return self._known[name]
        return None

    def _registrations(self, use: _Use) -> Iterator[Registration]:
        registrar, module = use.registrar, use.module
        if registrar.registers == "nothing":
            return
        arguments = bind(use.call, registrar.parameters) if use.call is not None else {}
        kernel = (
            self._function(use.home, arguments[registrar.function])
            if registrar.function in arguments
            else self._function(module, use.function)
        )
        name = self._name(use, arguments, kernel)
        value = name.value
        qualname = value.removesuffix(".default") if value and "::" in value else None

        def registration(
            role: Role, function: tuple[FunctionNode | ast.Lambda, Module] | None
        ) -> Registration:
            node = use.function if isinstance(use.function, _FUNCTIONS) else use.result
            return Registration(
                role=role,
                form=Form.HELPER,
                module=module,
                statement=statement_of(module, node),
                qualname=qualname,
                name_hint=name.hint,
                call=use.call,
                function=function[0] if function else None,
                keywords={k.arg: k.value for k in use.call.keywords if k.arg} if use.call else {},
                conditional=is_conditional(module, use.result),
                arguments=arguments,
                function_module=function[1] if function else None,
            )

        if registrar.registers in _ATTACHING:
            yield registration(_ATTACHING[registrar.registers], kernel)
            return
        customs = registrar.registers == "custom_op"
        definition = registration(Role.CUSTOM_OP if customs else Role.DEFINE, kernel)
        schema = arguments.get(registrar.schema)
        if schema is not None:
            definition.schema = self._strings.text(Operand(use.home, schema)).value
        mutates = arguments.get(registrar.mutates_args)
        if mutates is not None:
            definition.mutates = self._strings.names(Operand(use.home, mutates))
        else:
            definition.mutates = registrar.default_mutates
        yield definition
        if kernel is not None and not customs:
            yield registration(Role.IMPL, kernel)
        fake = arguments.get(registrar.fake)
        if fake is not None and not (isinstance(fake, ast.Constant) and fake.value is None):
            yield registration(Role.FAKE, self._function(use.home, fake))
        elif registrar.default_fake:
            yield registration(Role.FAKE, None)

    def _function(
        self, module: Module, node: ast.AST | None
    ) -> tuple[FunctionNode | ast.Lambda, Module] | None:
        if node is None:
            return None
        settled = self._strings.settle(Operand(module, node))
        if isinstance(settled.node, (*_FUNCTIONS, ast.Lambda)):
            return settled.node, settled.module
        return None

    def _name(
        self,
        use: _Use,
        arguments: dict[str, ast.expr],
        kernel: tuple[FunctionNode | ast.Lambda, Module] | None,
    ) -> Text:
        written = arguments.get(use.registrar.name)
        if written is not None:
            name = self._strings.text(Operand(use.home, written))
        elif kernel is not None and not isinstance(kernel[0], ast.Lambda):
            name = known(kernel[0].name.removeprefix(use.registrar.strip))
        else:
            name = Text((("?", False),))
        # A helper may be given a schema for a name.
        if name.value is not None:
            name = known(name.value.partition("(")[0].strip())
        if "::" in name.start:
            return name
        return self._space(use, arguments) + known("::") + name

    def _space(self, use: _Use, arguments: dict[str, ast.expr]) -> Text:
        written = arguments.get(use.registrar.namespace)
        if written is None or (isinstance(written, ast.Constant) and written.value is None):
            default = use.registrar.default_namespace
            return known(default) if default is not None else Text((("?", False),))
        settled = self._strings.settle(Operand(use.home, written))
        if isinstance(settled.node, _STRING_LIKE):
            return self._strings.text(settled)
        return self._namespace(use.home, written, Frame())


def _name_in_tree(target: Target) -> str | None:
    node = target.node
    if target.module is None or not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return None
    return f"{target.module.name}.{node.name}"
