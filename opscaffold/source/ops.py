"""The ops of a tree: every registration, tied to the op it belongs to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opscaffold.config.model import Registrar
from opscaffold.source.files import may_register, mentions
from opscaffold.source.helpers import Helpers, Use
from opscaffold.source.model import Form, Module, Op, Registration, Role, UnknownHelper
from opscaffold.source.registrars import Registrars
from opscaffold.source.resolve import Resolver
from opscaffold.source.sites import Site, SiteFinder, is_conditional, statement_of
from opscaffold.source.strings import Frame, Operand, Strings, Text, known, unknown
from opscaffold.source.torch_api import DEFINING, FUNCTIONS, INFER_SCHEMA, LIBRARY
from opscaffold.source.tree import Tree

_PREFIX = "torch.ops."


@dataclass(slots=True)
class Found:
    """All ops of a tree, and the registrations whose op is not in it."""

    ops: list[Op] = field(default_factory=list)
    stray: list[Registration] = field(default_factory=list)
    by_object: dict[ast.AST, Op] = field(default_factory=dict)
    unknown: list[UnknownHelper] = field(default_factory=list)


def qualname_of(dotted: str) -> str | None:
    """Return ``ns::op[.overload]`` for ``torch.ops.ns.op[.overload]``, or None.

    The default overload is the op itself.
    """
    parts = dotted.removeprefix(_PREFIX).split(".")
    if not dotted.startswith(_PREFIX) or len(parts) not in (2, 3):
        return None
    overload = f".{parts[2]}" if len(parts) == 3 and parts[2] != "default" else ""
    return f"{parts[0]}::{parts[1]}{overload}"


class OpFinder:
    """Finds the registrations of a tree. ``find`` does it all, once."""

    def __init__(
        self, tree: Tree, resolver: Resolver, registrars: Sequence[Registrar] = ()
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.strings = Strings(resolver)
        self.finder = SiteFinder(resolver)
        self.helpers = Helpers(resolver, self.strings)
        self.described = Registrars(registrars, resolver, self.strings, self._namespace)
        self._sites: list[Site] = []
        self._uses: list[Use] = []
        self._calls: dict[ast.AST, Site] = {}
        # Registrations by object: what they are attached to when the op is not named.
        self._objects: dict[Registration, ast.AST] = {}
        self._results: set[ast.AST] | None = None

    def find(self) -> Found:
        """Return every op that the tree registers."""
        modules = self._modules()
        for module in modules:
            for site in self.finder.find_delayed(module):
                self._take(site)
        self._sites = [site for site in self._sites if site not in self.finder.completed]
        registrations = [r for module in modules for r in self.described.take(module)]
        self._find_uses(modules)
        registrations += [self._register(site, Frame()) for site in self._sites if site.sure]
        registrations += [r for s in self._sites if not s.sure for r in self._of_method(s)]
        for use in self._uses:
            registrations.extend(self._of_use(use))
        registrations.sort(key=_place)
        found = self._attach(registrations)
        found.unknown = [helper for module in modules for helper in self._unknown(module)]
        return found

    def _unknown(self, module: Module) -> Iterator[UnknownHelper]:
        for node in module.parents:
            if (
                not isinstance(node, ast.Call)
                or node in self._calls
                or node in self.described.taken
                or all(keyword.arg != "mutates_args" for keyword in node.keywords)
            ):
                continue
            called = self.resolver.resolve(module, node.func).without_none()
            target = called.certain
            dotted = target.dotted if target is not None else None
            # A function in sight was read: it registers, and is known, or it does not.
            in_sight = any(t.dotted is None for t in called.targets)
            if not in_sight and not (dotted or "").startswith("torch."):
                yield UnknownHelper(module, node, dotted or unknown(node.func).hint.strip("{}"))

    def _modules(self) -> list[Module]:
        """Parse the modules that can register something, and take in their sites."""
        done: dict[Module, None] = {}
        words = self.described.names()
        helper = mentions(words)
        paths = [p for p in sorted(self.tree.files) if self._may_register(p, helper)]
        while paths:
            for path in paths:
                module = self.tree.load(path)
                if module is not None and module not in done:
                    done[module] = None
                    for site in self.finder.find(module):
                        self._take(site)
            new = self._words(done) - words
            words |= new
            pattern = mentions(new)
            seen = {module.path for module in done}
            paths = [
                p
                for p in sorted(self.tree.files)
                if p not in seen and new and pattern.search(self.tree.read(p) or b"")
            ]
        return list(done)

    def _may_register(self, path: Path, helper: re.Pattern[bytes]) -> bool:
        data = self.tree.read(path)
        # What cannot be read is loaded, and so becomes a problem.
        return data is None or may_register(data) or helper.search(data) is not None

    def _words(self, modules: Iterable[Module]) -> set[str]:
        """Return the names by which a module may register without naming torch's API."""
        words = self.helpers.names()
        for module in modules:
            for name, bindings in self.tree.scopes(module).top.bindings.items():
                if any(
                    target.dotted in FUNCTIONS
                    or target.dotted in (LIBRARY, INFER_SCHEMA)
                    or (target.node is not None and target.node in self.finder.pending)
                    or (isinstance(target.node, ast.Call) and target.node in self._calls)
                    or self.helpers.is_instance(target)
                    for binding in bindings
                    for target in self.resolver.binding(module, binding).targets
                ):
                    words.add(name)
        return words

    def _take(self, site: Site) -> None:
        if site.call is not None:
            self._calls.setdefault(site.call, site)
        if not self.helpers.take(site):
            self._sites.append(site)

    def _find_uses(self, modules: Iterable[Module]) -> None:
        taken: set[tuple[ast.AST, ast.AST | None]] = set()
        grown = bool(self.helpers.known())
        while grown:
            grown = False
            for module in modules:
                for use, _ in self.helpers.uses_in(module):
                    key = (use.callee, use.decorated)
                    if key in taken or use.callee in self.described.taken:
                        continue
                    taken.add(key)
                    grown = True
                    if not self.helpers.take_use(use):
                        self._uses.append(use)

    def _of_method(self, site: Site) -> list[Registration]:
        # `x.register_fake(f)`: a registration only where x is known to be an op.
        if site.form is Form.LIBRARY:
            return []
        registration = self._register(site, Frame())
        known_op = registration.qualname is not None or registration in self._objects
        return [registration] if known_op else []

    def _of_use(self, use: Use) -> list[Registration]:
        found: list[Registration] = []
        for site, frame, helper in self.helpers.expand(use):
            registration = self._register(site, frame)
            named = registration.qualname is not None or registration in self._objects
            if not site.sure and not named:
                continue
            node: ast.AST = use.decorated or use.callee
            registration.form = Form.HELPER
            registration.module = use.module
            registration.statement = statement_of(use.module, node)
            registration.call = use.written
            registration.keywords = {
                k.arg: k.value for k in (use.written.keywords if use.written else []) if k.arg
            }
            registration.conditional = is_conditional(use.module, node)
            registration.helper = helper
            registration.operand = None
            registration.result = use.decorated or use.call
            found.append(registration)
        return found

    def _register(self, site: Site, frame: Frame) -> Registration:
        operand = Operand(site.module, site.operand, frame) if site.operand is not None else None
        name, thing = self._name(site, operand, frame)
        schema_node = site.arguments.get("schema")
        schema = Operand(site.module, schema_node, frame) if schema_node is not None else None
        function = (
            self.strings.settle(Operand(site.module, site.function, frame))
            if site.function is not None
            else None
        )
        mutates = site.arguments.get("mutates_args")
        mutated = self.strings.names(Operand(site.module, mutates, frame)) if mutates else None
        if site.api.role is Role.DEFINE and schema is not None:
            inferred = self.strings.inferred(schema)
            if inferred is not None and isinstance(inferred.node, ast.Call):
                function, mutated = self._inferred(inferred.module, inferred.node, inferred.frame)
        definition = function.node if function is not None else None
        is_function = isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
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
            arguments=site.arguments,
            operand=site.operand,
            function_module=function.module if function is not None and is_function else None,
            fallback=site.fallback,
            result=site.result if site.api.role in (Role.CUSTOM_OP, Role.TRITON_OP) else None,
        )
        if thing is not None:
            self._objects[registration] = thing
        return registration

    def _inferred(
        self, module: Module, call: ast.Call, frame: Frame | None
    ) -> tuple[Operand | None, tuple[str, ...] | str | None]:
        prototype = call.args[0] if call.args else None
        mutates = next((k.value for k in call.keywords if k.arg == "mutates_args"), None)
        return (
            self.strings.settle(Operand(module, prototype, frame)) if prototype else None,
            self.strings.names(Operand(module, mutates, frame)) if mutates else None,
        )

    def _name(
        self, site: Site, operand: Operand | None, frame: Frame
    ) -> tuple[Text, ast.AST | None]:
        """Return the op's full name, and the object it was given by where it was."""
        if site.library is not None:
            return self._library_name(site, operand, frame), None
        if operand is None:
            return Text((("?", False),)), None
        node = operand.node
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            settled = self.strings.settle(operand)
            for target in self._targets(settled):
                if target[0] is not None:
                    return known(target[0]), None
                if target[1] is not None and target[1] in self._calls:
                    made = self._calls[target[1]]
                    inner = made.operand
                    if inner is not None and target[1] not in self._result_nodes():
                        return self.strings.text(Operand(made.module, inner, settled.frame)), None
                if target[1] in self._result_nodes():
                    return unknown(node), target[1]
        return self.strings.text(operand), None

    def _targets(self, operand: Operand) -> list[tuple[str | None, ast.AST | None]]:
        """Return what an operand may be, each as the qualname of an op or as a node."""
        if not isinstance(operand.node, ast.expr):
            return [(None, operand.node)]
        found: list[tuple[str | None, ast.AST | None]] = []
        for target in self.resolver.resolve(operand.module, operand.node).targets:
            qualname = qualname_of(target.dotted) if target.dotted else None
            found.append((qualname, target.node))
        return found

    def _result_nodes(self) -> set[ast.AST]:
        if self._results is None:
            self._results = {
                site.result
                for site in self._sites
                if site.result is not None and site.api.role in (Role.CUSTOM_OP, Role.TRITON_OP)
            }
        return self._results

    def _library_name(self, site: Site, operand: Operand | None, frame: Frame) -> Text:
        if site.api.role is Role.DEFINE:
            schema = site.arguments.get("schema")
            if schema is None:
                return Text((("?", False),))
            text = self.strings.text(Operand(site.module, schema, frame))
            name = (
                known(text.start.partition("(")[0].strip())
                if "(" in text.start
                else Text(((text.hint.partition("(")[0].strip(), False),))
            )
        elif operand is None:
            return Text((("?", False),))
        else:
            for qualname, _ in self._targets(self.strings.settle(operand)):
                if qualname is not None:
                    return known(qualname)
            name = self.strings.text(operand)
        if "::" in name.start:
            return name
        if site.library is None:
            return Text((("?", False),)) + known("::") + name
        return self._namespace(site.module, site.library, frame) + known("::") + name

    def _namespace(self, module: Module, library: ast.expr, frame: Frame) -> Text:
        settled = self.strings.settle(Operand(module, library, frame))
        calls = [(settled.module, settled.node, settled.frame)]
        if isinstance(settled.node, ast.expr) and not isinstance(settled.node, ast.Call):
            calls = [
                (target.module, target.node, None)
                for target in self.resolver.resolve(settled.module, settled.node).targets
                if target.module is not None and target.node is not None
            ]
        found: set[Text] = set()
        for home, node, inner in calls:
            if isinstance(node, ast.Call):
                given = next((k.value for k in node.keywords if k.arg == "ns"), None)
                given = node.args[0] if node.args else given
                if given is not None:
                    found.add(self.strings.text(Operand(home, given, inner)))
        if len(found) == 1:
            return found.pop()
        return unknown(library)

    def _attach(self, registrations: list[Registration]) -> Found:
        found = Found()
        by_name: dict[str, list[Op]] = {}
        for registration in registrations:
            if registration.role in DEFINING:
                op = Op(registration.qualname or registration.name_hint, registration)
                found.ops.append(op)
                by_name.setdefault(op.qualname, []).append(op)
                if registration.result is not None:
                    found.by_object[registration.result] = op
        for registration in registrations:
            if registration.role in DEFINING:
                continue
            thing = self._objects.get(registration)
            owner = found.by_object.get(thing) if thing is not None else None
            if owner is not None:
                registration.qualname = owner.definition.qualname
                registration.name_hint = owner.qualname
            owners = [owner] if owner else by_name.get(registration.qualname or "", [])
            # The same name registered twice: each takes what stands beside it.
            near = [op for op in owners if op.definition.module is registration.module]
            for op in near or owners:
                op.attached.append(registration)
            if not owners:
                found.stray.append(registration)
        return found


def _plain(qualname: str | None) -> str | None:
    if qualname is None or "::" not in qualname:
        return None
    return qualname.removesuffix(".default")


def _place(registration: Registration) -> tuple[str, int, int]:
    node = registration.call or registration.statement
    return str(registration.module.path), node.lineno, node.col_offset
