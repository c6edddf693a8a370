"""The ops of a tree: every registration, tied to the op it belongs to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from opscaffold.config.model import Registrar
from opscaffold.records import dataclass, field
from opscaffold.source.frames import Use
from opscaffold.source.helpers import Helpers
from opscaffold.source.libraries import Libraries
from opscaffold.source.model import Module, Op, Registration, Role, UnknownHelper
from opscaffold.source.operands import DEFINITIONS, Frame
from opscaffold.source.questions import REGISTERS, uses
from opscaffold.source.registering import Registering
from opscaffold.source.registrars import Registrars
from opscaffold.source.resolve import Resolver, Target
from opscaffold.source.sites import Site, SiteFinder
from opscaffold.source.strings import Strings
from opscaffold.source.texts import unknown
from opscaffold.source.torch_api import API_WORDS, DEFINING, FUNCTIONS, INFER_SCHEMA, LIBRARY
from opscaffold.source.tree import Tree


@dataclass(slots=True)
class Found:
    """All ops of a tree, and the registrations whose op is not in it."""

    ops: list[Op] = field(default_factory=list)
    stray: list[Registration] = field(default_factory=list)
    by_object: dict[ast.AST, Op] = field(default_factory=dict)
    unknown: list[UnknownHelper] = field(default_factory=list)


class OpFinder:
    """Finds the registrations of a tree. ``find`` does it all, once."""

    def __init__(
        self, tree: Tree, resolver: Resolver, registrars: Sequence[Registrar] = ()
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.strings = Strings(resolver)
        libraries = Libraries(self.strings)
        self.finder = SiteFinder(tree, resolver, libraries)
        self.helpers = Helpers(tree, resolver, self.strings)
        self.registering = Registering(self.strings, libraries, self.helpers)
        self.described = Registrars(
            registrars, tree, resolver, self.strings, self.registering.namespace
        )
        self._modules: dict[Module, None] = {}
        self._words: set[str] = set()
        self._sites: list[Site] = []
        self._uses: list[Use] = []
        self._used: set[tuple[ast.AST, ast.AST | None]] = set()

    def find(self) -> Found:
        """Return every op that the tree registers."""
        self._words = self.described.names()
        paths = self._may_register()
        described: list[Registration] = []
        while True:
            for path in paths:
                module = self.tree.load(path)
                if module is not None and module not in self._modules:
                    self._modules[module] = None
            self._find_sites()
            described += [r for m in self._modules for r in self.described.take(m, self._words)]
            self._find_uses()
            new = self._new_words()
            if not new:
                break
            self._words |= new
            paths = self._mentioning(new)
        sites = [site for site in self._sites if site not in self.finder.completed]
        registrations = described + self._registrations(sites)
        registrations.sort(key=_place)
        found = self._attach(registrations)
        found.unknown = [helper for module in self._modules for helper in self._unknown(module)]
        return found

    def _registrations(self, sites: list[Site]) -> list[Registration]:
        self.registering.results = {
            site.result
            for site in sites
            if site.result is not None and site.api.role in (Role.CUSTOM_OP, Role.TRITON_OP)
        }
        self.registering.helped = {
            site.result: site
            for helper in self.helpers.sites.values()
            for site in helper
            if site.result is not None and site.api.role in (Role.CUSTOM_OP, Role.TRITON_OP)
        }
        found = [self.registering.register(site, Frame()) for site in sites if site.sure]
        found += [r for s in sites if not s.sure for r in self.registering.of_method(s)]
        return found + [r for use in self._uses for r in self.registering.of_use(use)]

    def _find_sites(self) -> None:
        for module in self._modules:
            for site in self.finder.find(module, self._words):
                if site.call is not None:
                    self.registering.calls.setdefault(site.call, site)
                self._take(site)
        for module in self._modules:
            for site in self.finder.find_delayed(module, self._words):
                self._take(site)

    def _take(self, site: Site) -> None:
        if not self.helpers.take(site):
            self._sites.append(site)

    def _find_uses(self) -> None:
        grown = bool(self.helpers.known())
        while grown:
            grown = False
            for module in self._modules:
                for use in self.helpers.uses_in(module, self._words):
                    key = (use.callee, use.decorated)
                    if key in self._used or use.callee in self.described.taken:
                        continue
                    self._used.add(key)
                    grown = True
                    if not self.helpers.take_use(use):
                        self._uses.append(use)

    def _unknown(self, module: Module) -> Iterator[UnknownHelper]:
        for node in self.tree.calls(module).with_mutates_args:
            if node in self.registering.calls or node in self.described.taken:
                continue
            called = self.resolver.resolve(module, node.func).without_none()
            target = called.certain
            dotted = target.dotted if target is not None else None
            # A function in sight was read: it registers, and is known, or it does not.
            in_sight = any(t.dotted is None for t in called.targets)
            if not in_sight and not (dotted or "").startswith("torch."):
                yield UnknownHelper(module, node, dotted or unknown(node.func).hint.strip("{}"))

    def _may_register(self) -> Sequence[Path]:
        found = self.tree.ask(REGISTERS)
        if not self._words:
            return list(found)
        described = self.tree.ask(uses(self._words))
        return [path for path in self.tree.ordered if path in found or path in described]

    def _mentioning(self, names: set[str]) -> Sequence[Path]:
        seen = {module.path for module in self._modules}
        return [path for path in self.tree.ask(uses(names)) if path not in seen]

    def _new_words(self) -> set[str]:
        """Return more names by which a module may register without naming torch's API."""
        words = self.helpers.names()
        for module in self._modules:
            names = API_WORDS | self.helpers.names_in(module) | self._words
            near = self.tree.calls(module).bound(names) - words
            if not near:
                continue
            bound = self.tree.scopes(module).top.bindings
            for name in near & bound.keys():
                if any(
                    self._registers(target)
                    for binding in bound[name]
                    for target in self.resolver.binding(module, binding).targets
                ):
                    words.add(name)
        return words - self._words

    def _registers(self, target: Target) -> bool:
        return (
            target.dotted in FUNCTIONS
            or target.dotted == LIBRARY
            or target.dotted in INFER_SCHEMA
            or (target.node is not None and target.node in self.finder.pending)
            or (isinstance(target.node, ast.Call) and target.node in self.registering.calls)
            or self.helpers.is_instance(target)
            or self.described.makes(target)
        )

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
            thing = self.registering.objects.get(registration)
            owner = found.by_object.get(thing) if thing is not None else None
            if owner is not None:
                registration.qualname = owner.definition.qualname
                registration.name_hint = owner.qualname
            owners = [owner] if owner else by_name.get(registration.qualname or "", [])
            if not owners and registration.qualname is None:
                owners = [
                    op
                    for op in by_name.get(registration.name_hint, ())
                    if _same_values(op.definition, registration)
                ]
            # The same name registered twice: each takes what stands beside it.
            near = [op for op in owners if op.definition.module is registration.module]
            for op in near or owners:
                op.attached.append(registration)
            if not owners:
                found.stray.append(registration)
        return found


def _place(registration: Registration) -> tuple[str, int, int]:
    node = registration.call or registration.statement
    return str(registration.module.path), node.lineno, node.col_offset


def _same_values(one: Registration, other: Registration) -> bool:
    """Say whether two computed names that read alike are made of the same values.

    They are where both stand in one function or loop, or where one place makes both.
    """
    if one.module is not other.module or one.qualname is not None:
        return False
    return one.statement is other.statement or _region(one) is _region(other)


def _region(registration: Registration) -> ast.AST | None:
    module = registration.module
    node: ast.AST | None = module.parents.get(registration.statement)
    while node is not None and not isinstance(node, (*DEFINITIONS, ast.For, ast.AsyncFor)):
        node = module.parents.get(node)
    return node
