"""From a place that registers something to the registration: its op, kernel and arguments."""

from __future__ import annotations

import ast

from opscaffold.source.frames import Use, returned_values
from opscaffold.source.helpers import Helpers
from opscaffold.source.libraries import Libraries
from opscaffold.source.model import Form, FunctionNode, Module, Registration, Role
from opscaffold.source.operands import DEFINITIONS, Frame, Operand
from opscaffold.source.sites import Site, is_conditional, statement_of
from opscaffold.source.strings import Strings
from opscaffold.source.texts import Text, known, unknown
from opscaffold.source.torch_api import DEFINING
from opscaffold.source.wrappers import wrapped

_PREFIX = "torch.ops."


def qualname_of(dotted: str) -> str | None:
    """Return ``ns::op[.overload]`` for ``torch.ops.ns.op[.overload]``, or None.

    The default overload is the op itself.
    """
    parts = dotted.removeprefix(_PREFIX).split(".")
    if not dotted.startswith(_PREFIX) or len(parts) not in (2, 3):
        return None
    overload = f".{parts[2]}" if len(parts) == 3 and parts[2] != "default" else ""
    return f"{parts[0]}::{parts[1]}{overload}"


class Registering:
    """Makes registrations of sites, and of the uses of helpers.

    ``objects`` tells for those made so far which object they are attached to, where the op is
    not named. ``calls`` are the sites found, by their call.
    """

    def __init__(self, strings: Strings, libraries: Libraries, helpers: Helpers) -> None:
        self.strings = strings
        self.libraries = libraries
        self.helpers = helpers
        self.objects: dict[Registration, ast.AST] = {}
        self.calls: dict[ast.AST, Site] = {}
        self.results: set[ast.AST] = set()
        """What stands for an op: the values of the defining sites. To be set before use."""
        self.helped: dict[ast.AST, Site] = {}
        """The same in helpers, where a value stands for another op at each use."""

    def of_method(self, site: Site) -> list[Registration]:
        """Return what a method call registers that may be one of an op's."""
        # `x.register_fake(f)`: a registration only where x is known to be an op.
        if site.form is Form.LIBRARY:
            return []
        registration = self.register(site, Frame())
        known_op = registration.qualname is not None or registration in self.objects
        return [registration] if known_op else []

    def of_use(self, use: Use) -> list[Registration]:
        """Return what the use of a helper registers."""
        found: list[Registration] = []
        defined: set[str] = set()
        steps = list(self.helpers.expand(use))
        declined = frozenset(step.site.api.role for step in steps if not step.runs)
        for step in steps:
            site, frame = step.site, step.frame
            if not step.runs:
                continue
            registration = self.register(site, frame)
            named = registration.qualname is not None or registration in self.objects
            if not site.sure and not self._plausible(site, frame, named=named):
                continue
            if site.api.role in DEFINING and registration.qualname is not None:
                if registration.qualname in defined:
                    # Another branch of the helper, which returned before this one.
                    continue
                defined.add(registration.qualname)
            node: ast.AST = use.decorated or use.callee
            applied = self._applied(step.last, site) if registration.function is None else None
            if applied is not None:
                node, made, kernel = applied
                registration.function, registration.function_module = kernel
            registration.form = Form.HELPER
            registration.module = use.module
            registration.statement = statement_of(use.module, node)
            registration.call = use.written
            registration.decorator = use.callee if use.decorated is not None else None
            registration.keywords = {
                k.arg: k.value for k in (use.written.keywords if use.written else []) if k.arg
            }
            registration.conditional = is_conditional(use.module, node)
            registration.helper = step.helper
            registration.declined = declined
            registration.operand = None
            registration.result = made if applied is not None else use.decorated or use.call
            found.append(registration)
        return found

    def _plausible(self, site: Site, frame: Frame, *, named: bool) -> bool:
        """Say whether a method call in a helper, of what may be an op or a Library, is of one."""
        if site.library is None:
            return named
        library = Operand(site.module, site.library, frame)
        if self.libraries.any(library):
            return True
        # It comes from elsewhere, or it is something else that is in sight.
        elsewhere = isinstance(self.strings.settle(library).node, (ast.Name, ast.Attribute))
        return named and elsewhere

    def _applied(
        self, use: Use, site: Site
    ) -> tuple[ast.AST, ast.AST, tuple[FunctionNode | ast.Lambda, Module]] | None:
        """Return what the decorator that a helper gives back is put on.

        That is the statement or call, what its value is, and the function.
        """
        helper: ast.AST | None = site.call
        while helper is not None and not isinstance(helper, DEFINITIONS):
            helper = site.module.parents.get(helper)
        if use.call is None or helper is None or site.api.function is None:
            return None
        if not any(
            target.node is site.call
            for value in returned_values(helper)
            for target in self.strings.resolver.resolve(site.module, value).targets
        ):
            return None
        parent = use.module.parents.get(use.call)
        if isinstance(parent, DEFINITIONS) and use.call in parent.decorator_list:
            return parent, parent, (parent, use.module)
        if isinstance(parent, ast.Call) and parent.func is use.call and parent.args:
            given = self.strings.settle(Operand(use.module, parent.args[0]))
            if isinstance(given.node, (*DEFINITIONS, ast.Lambda)):
                return parent, parent, (given.node, given.module)
        return None

    def register(self, site: Site, frame: Frame) -> Registration:
        """Return what a site registers, parameters being what the frame says."""
        arguments = self._arguments(site, frame)
        named = arguments.get(site.api.operand) if site.api.operand is not None else None
        if named is None and site.operand is not None:
            named = Operand(site.module, site.operand, frame)
        name, thing = self._name(site, arguments, named, frame)
        schema = arguments.get("schema")
        function = self._function(site, arguments, frame)
        mutates = arguments.get("mutates_args")
        mutated = self.strings.names(mutates) if mutates is not None else None
        if site.api.role is Role.DEFINE and schema is not None:
            inferred = self.strings.inferred(schema)
            if inferred is not None and isinstance(inferred.node, ast.Call):
                function, mutated = self._inferred(inferred.module, inferred.node, inferred.frame)
        definition = function.node if function is not None else None
        is_function = isinstance(definition, (*DEFINITIONS, ast.Lambda))
        settled = {key: self.strings.settle(value) for key, value in arguments.items()}
        registration = Registration(
            role=site.api.role,
            form=site.form,
            module=site.module,
            statement=site.statement,
            qualname=_plain(name.value),
            name_hint=name.hint,
            call=site.call,
            function=definition if is_function else None,  # type: ignore[arg-type]
            schema=self.strings.text(schema).value if schema is not None else None,
            mutates=mutated,
            keywords=site.keywords,
            conditional=is_conditional(site.module, site.call or site.statement),
            arguments=_as_written(site, settled),
            settled={
                key: (value.module, value.node)
                for key, value in settled.items()
                if isinstance(value.node, ast.expr)
            },
            operand=site.operand,
            function_module=function.module if function is not None and is_function else None,
            fallback=site.fallback,
            result=site.result if site.api.role in (Role.CUSTOM_OP, Role.TRITON_OP) else None,
        )
        if thing is not None:
            self.objects[registration] = thing
        return registration

    def _arguments(self, site: Site, frame: Frame) -> dict[str, Operand]:
        found = {key: Operand(site.module, node, frame) for key, node in site.arguments.items()}
        if site.call is not None and site.packed:
            found.update(self.strings.arguments(site.call, site.module, frame, site.api.positional))
        return found

    def _function(self, site: Site, arguments: dict[str, Operand], frame: Frame) -> Operand | None:
        if site.function is not None:
            return self._unwrapped(Operand(site.module, site.function, frame))
        given = arguments.get(site.api.function) if site.api.function is not None else None
        return None if given is None else self._unwrapped(given)

    def _unwrapped(self, operand: Operand) -> Operand:
        """Return what an operand stands for: of a function that only passes on, the one inside."""
        settled = self.strings.settle(operand)
        inner = wrapped(self.strings.resolver, settled.module, settled.node)
        if inner is None:
            return settled
        given = self.strings.settle(Operand(settled.module, inner, settled.frame or operand.frame))
        return given if isinstance(given.node, (*DEFINITIONS, ast.Lambda)) else settled

    def _inferred(
        self, module: Module, call: ast.Call, frame: Frame | None
    ) -> tuple[Operand | None, tuple[str, ...] | str | None]:
        prototype = call.args[0] if call.args else None
        mutates = next((k.value for k in call.keywords if k.arg == "mutates_args"), None)
        return (
            self._unwrapped(Operand(module, prototype, frame)) if prototype else None,
            self.strings.names(Operand(module, mutates, frame)) if mutates else None,
        )

    def _name(
        self, site: Site, arguments: dict[str, Operand], named: Operand | None, frame: Frame
    ) -> tuple[Text, ast.AST | None]:
        """Return the op's full name, and the object it was given by where it was."""
        if site.library is not None:
            return self._library_name(site, arguments, named, frame), None
        if named is None:
            return Text((("?", False),)), None
        node = named.node
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            settled = self.strings.settle(named)
            for target in self._targets(settled):
                if target[0] is not None:
                    return known(target[0]), None
                if target[1] is not None and target[1] in self.calls:
                    made = self.calls[target[1]]
                    if target[1] not in self.results:
                        inner = Frame() if settled.frame is None else settled.frame
                        return self._name_made(made, inner), None
                if target[1] is not None and target[1] in self.helped:
                    # `op = custom_op(name)(fn)` in a helper: its name is that of this use.
                    inner = frame if settled.frame is None else settled.frame
                    return self._name_made(self.helped[target[1]], inner), None
                if target[1] in self.results:
                    return unknown(node), target[1]
        return self.strings.text(named), None

    def _name_made(self, site: Site, frame: Frame) -> Text:
        """Return the name of the op that a registering call, kept under a name, is about."""
        named = Operand(site.module, site.operand, frame) if site.operand is not None else None
        if site.library is not None:
            return self._library_name(site, self._arguments(site, frame), named, frame)
        return self.strings.text(named) if named is not None else Text((("?", False),))

    def _targets(self, operand: Operand) -> list[tuple[str | None, ast.AST | None]]:
        """Return what an operand may be, each as the qualname of an op or as a node."""
        if not isinstance(operand.node, ast.expr):
            return [(None, operand.node)]
        found: list[tuple[str | None, ast.AST | None]] = []
        for target in self.strings.resolver.resolve(operand.module, operand.node).targets:
            qualname = qualname_of(target.dotted) if target.dotted else None
            found.append((qualname, target.node))
        return found

    def _library_name(
        self, site: Site, arguments: dict[str, Operand], named: Operand | None, frame: Frame
    ) -> Text:
        if site.api.role is Role.DEFINE:
            schema = arguments.get("schema")
            if schema is None:
                return Text((("?", False),))
            name = self.strings.text(schema).name_of_schema()
        elif named is None:
            return Text((("?", False),))
        else:
            settled = self.strings.settle(named)
            for qualname, node in self._targets(settled):
                if qualname is not None:
                    return known(qualname)
                if node is not None and node in self.calls:
                    # `name = lib.define(...)`: what it gives back is the op's name.
                    return self._name_made(self.calls[node], settled.frame or Frame())
            name = self.strings.text(named)
        if "::" in name.start:
            return name
        if site.library is None:
            return Text((("?", False),)) + known("::") + name
        return self.namespace(site.module, site.library, frame) + known("::") + name

    def namespace(self, module: Module, library: ast.expr, frame: Frame) -> Text:
        """Return the namespace that a Library defines in."""
        found: dict[Text, None] = {}
        for space in self.libraries.namespaces(Operand(module, library, frame)):
            found[self.strings.text(space)] = None
        return next(iter(found)) if len(found) == 1 else unknown(library)


def _as_written(site: Site, settled: dict[str, Operand]) -> dict[str, ast.expr]:
    """Return the arguments of a site; a parameter that is left at None is None."""
    found = dict(site.arguments)
    for key, value in settled.items():
        if isinstance(value.node, ast.Constant) and isinstance(found.get(key), ast.Name):
            found[key] = value.node
    return found


def _plain(qualname: str | None) -> str | None:
    if qualname is None or "::" not in qualname:
        return None
    return qualname.removesuffix(".default")
