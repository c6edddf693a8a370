"""What an expression stands for: an object of an outside package, or one made in the tree."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from opscaffold.records import dataclass, field, replace
from opscaffold.source.classes import class_of_self, instance_attributes
from opscaffold.source.exports import exported_names
from opscaffold.source.flow import reaching, settled
from opscaffold.source.model import ImportBinding, Module
from opscaffold.source.scopes import Binding, How, Kind, Scope
from opscaffold.source.torch_api import EXPORTS
from opscaffold.source.tree import Tree

_MAX_DEPTH = 40
# A name that may be one of so many things tells nothing more by yet another.
_MAX_TARGETS = 12
_VALUES = (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Tuple, ast.List, ast.Set, ast.Dict)


@dataclass(frozen=True, slots=True)
class Target:
    """One thing an expression may stand for.

    Outside the tree: ``dotted``, its full name. In the tree: ``module``, and ``node``, the
    definition, or the expression whose value it is; no ``node`` is the module itself.
    ``via`` and ``assignments`` are the from-imports and assignments passed on the way, nearest
    first; they play no part in comparing targets.
    """

    dotted: str | None = None
    module: Module | None = None
    node: ast.AST | None = None
    via: tuple[ImportBinding, ...] = field(default=(), compare=False)
    assignments: tuple[ast.AST, ...] = field(default=(), compare=False)

    @property
    def is_module(self) -> bool:
        """Whether this is a module of the tree."""
        return self.module is not None and self.node is None

    @property
    def is_none(self) -> bool:
        """Whether this is the constant None."""
        return isinstance(self.node, ast.Constant) and self.node.value is None


@dataclass(frozen=True, slots=True)
class Resolution:
    """What an expression may stand for; ``complete`` says that it is nothing else."""

    targets: tuple[Target, ...] = ()
    complete: bool = True

    @property
    def certain(self) -> Target | None:
        """The one thing it stands for, or None where that is not sure."""
        return self.targets[0] if self.complete and len(self.targets) == 1 else None

    def without_none(self) -> Resolution:
        """Leave out None: whoever calls the value or reads an attribute does not have it."""
        return Resolution(tuple(t for t in self.targets if not t.is_none), self.complete)


UNKNOWN = Resolution((), complete=False)


def union(parts: Iterable[Resolution]) -> Resolution:
    """Join what several paths may yield."""
    targets: dict[Target, Target] = {}
    complete = True
    for part in parts:
        complete = complete and part.complete
        for target in part.targets:
            targets.setdefault(target, target)
    if len(targets) > _MAX_TARGETS:
        return Resolution(tuple(targets.values())[:_MAX_TARGETS], complete=False)
    return Resolution(tuple(targets.values()), complete)


class Resolver:
    """Resolves expressions across the modules of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._bound: dict[Binding, Resolution] = {}
        self._members: dict[tuple[Module, str], Resolution] = {}
        self._resolved: dict[ast.AST, Resolution] = {}
        self._attributes: dict[ast.AST, dict[str, list[ast.expr]]] = {}
        # What is being found: a cycle of imports or assignments ends there, as not known. What
        # was found on the way is then marked incomplete, so keeping it claims nothing wrong.
        self._busy: set[object] = set()
        self._depth = 0

    def resolve(self, module: Module, node: ast.expr) -> Resolution:
        """Return what an expression of a module stands for. Never raises."""
        if node in self._resolved:
            return self._resolved[node]
        if self._depth > _MAX_DEPTH:
            return UNKNOWN
        self._depth += 1
        try:
            found = self._resolve(module, node)
        finally:
            self._depth -= 1
        self._resolved[node] = found
        return found

    def member(self, module: Module, name: str) -> Resolution:
        """Return what another module gets when it reads ``name`` from this one."""
        key = (module, name)
        if key in self._members:
            return self._members[key]
        if key in self._busy:
            # A package that imports its own submodule by name.
            return self._submodule(module, name)
        self._busy.add(key)
        try:
            result = self._member(module, name)
        finally:
            self._busy.discard(key)
        self._members[key] = result
        return result

    def binding(self, module: Module, binding: Binding) -> Resolution:
        """Return what one binding makes its name stand for."""
        if binding in self._bound:
            return self._bound[binding]
        if binding in self._busy:
            return UNKNOWN
        self._busy.add(binding)
        try:
            result = self._binding(module, binding)
        finally:
            self._busy.discard(binding)
        self._bound[binding] = result
        return result

    def bindings_of(self, module: Module, node: ast.Name) -> list[Binding]:
        """Return the bindings that a name may read; empty for builtins and star imports."""
        return self._live(module, node)[1]

    def dotted(self, name: str, importer: Module) -> Resolution:
        """Return what ``import a.b.c`` in ``importer`` would make ``a.b.c`` stand for."""
        found = self.tree.find(name, importer.path)
        if found is None:
            return Resolution((Target(dotted=name),))
        path, sure = found
        module = self.tree.load(path)
        return UNKNOWN if module is None else Resolution((Target(module=module),), sure)

    def exports(self, module: Module, name: str) -> bool | None:
        """Say whether ``from module import *`` binds a name; None where that is not readable."""
        names = exported_names(module)
        if names is None:
            return None if "__all__" in self.tree.scopes(module).top.bindings else name[0] != "_"
        return name in names

    def _resolve(self, module: Module, node: ast.expr) -> Resolution:
        if isinstance(node, ast.Name):
            return self._name(module, node)
        if isinstance(node, ast.Attribute):
            base = self.resolve(module, node.value).without_none()
            return self.attribute(module, base, node.attr, node.value)
        if isinstance(node, ast.Call):
            return self._call(module, node)
        if isinstance(node, ast.NamedExpr):
            return self.resolve(module, node.value)
        if isinstance(node, ast.IfExp):
            return union(self.resolve(module, part) for part in (node.body, node.orelse))
        if isinstance(node, ast.BoolOp):
            return union(self.resolve(module, part) for part in node.values)
        if isinstance(node, (*_VALUES, ast.Lambda)):
            return Resolution((Target(module=module, node=node),))
        if isinstance(node, ast.Subscript):
            # A type such as Optional[Tensor]; what a container holds is not followed.
            made = self.resolve(module, node.value).certain
            if made is not None and (made.dotted or "").startswith(("typing.", "typing_ext")):
                return Resolution((Target(module=module, node=node),))
        return UNKNOWN

    def _live(self, module: Module, node: ast.Name) -> tuple[Scope | None, list[Binding]]:
        scopes = self.tree.scopes(module)
        scope: Scope | None = scopes.of(node) or scopes.top
        while scope is not None:
            found = scopes.lookup(node.id, scope)
            if found is None:
                return None, []
            owner, bindings = found
            live = reaching(scopes, owner, bindings, node)
            if live or owner.kind is not Kind.CLASS:
                return owner, live
            scope = owner.parent
        return None, []

    def _name(self, module: Module, node: ast.Name) -> Resolution:
        owner, live = self._live(module, node)
        parts = [self.binding(module, binding) for binding in live]
        if owner is None or (owner.kind is Kind.MODULE and not live):
            starred = self._starred(module, node.id)
            if starred is not None:
                return starred
            if owner is None and hasattr(builtins, node.id):
                return Resolution((Target(dotted=f"builtins.{node.id}"),))
            return UNKNOWN
        if owner.kind is Kind.MODULE and live:
            later = self._starred(module, node.id, after=live[0].position)
            if later is not None and later.targets:
                parts.append(later)
        return union(parts)

    def _binding(self, module: Module, binding: Binding) -> Resolution:
        if binding.how is How.IMPORT and isinstance(binding.node, ast.alias):
            whole = binding.node.name
            return self.dotted(whole if binding.node.asname else whole.partition(".")[0], module)
        statement = binding.statement
        if isinstance(statement, ast.ImportFrom) and isinstance(binding.node, ast.alias):
            return self._from_import(module, statement, binding.node)
        if binding.how in (How.FUNCTION, How.CLASS):
            return Resolution((Target(module=module, node=binding.node),))
        if binding.how is How.VALUE and binding.value is not None:
            found = self.resolve(module, binding.value)
            through = binding.statement
            return Resolution(
                tuple(replace(t, assignments=(through, *t.assignments)) for t in found.targets),
                found.complete,
            )
        return Resolution() if binding.how in (How.DELETED, How.DECLARED) else UNKNOWN

    def source_of(self, module: Module, statement: ast.ImportFrom) -> tuple[Module | None, bool]:
        """Return the tree module a from-import reads, and whether that is sure."""
        name = statement.module or ""
        if statement.level:
            directory = self.tree.relative(module.path, statement.level)
            path = self.tree.at(directory, name.split(".") if name else ()) if directory else None
            return (self.tree.load(path) if path else None), True
        found = self.tree.find(name, module.path)
        return (self.tree.load(found[0]), found[1]) if found else (None, True)

    def _from_import(
        self, module: Module, statement: ast.ImportFrom, alias: ast.alias
    ) -> Resolution:
        source, sure = self.source_of(module, statement)
        step = ImportBinding(module, statement, alias, source)
        if source is not None:
            own = source is module
            found = self._submodule(source, alias.name) if own else self.member(source, alias.name)
            found = Resolution(found.targets, found.complete and sure)
        elif statement.level:
            directory = self.tree.relative(module.path, statement.level)
            names = statement.module.split(".") if statement.module else []
            path = self.tree.at(directory, [*names, alias.name]) if directory else None
            child = self.tree.load(path) if path else None
            found = UNKNOWN if child is None else Resolution((Target(module=child),))
        else:
            found = self.dotted(f"{statement.module}.{alias.name}", module)
        return Resolution(
            tuple(t if t.is_module else replace(t, via=(step, *t.via)) for t in found.targets),
            found.complete,
        )

    def _member(self, module: Module, name: str) -> Resolution:
        scopes = self.tree.scopes(module)
        bindings = scopes.top.bindings.get(name)
        if bindings:
            live = settled(bindings)
            found = union(self.binding(module, binding) for binding in live)
            later = self._starred(module, name, after=live[0].position)
            if later is not None and later.targets:
                found = union((found, later))
            if found.targets or module.path.name != "__init__.py":
                return found
        starred = self._starred(module, name)
        if starred is not None and starred.targets:
            return starred
        return self._submodule(module, name)

    def _submodule(self, module: Module, name: str) -> Resolution:
        if module.path.name == "__init__.py":
            child = self.tree.at(module.path.parent, [name])
            loaded = self.tree.load(child) if child is not None else None
            if loaded is not None:
                return Resolution((Target(module=loaded),))
        return UNKNOWN

    def _starred(
        self, module: Module, name: str, after: tuple[int, int] = (0, 0)
    ) -> Resolution | None:
        """Return what star imports make of a name; None where there is no star import."""
        stars = [s for s in self.tree.scopes(module).top.stars if (s.lineno, s.col_offset) >= after]
        if not stars:
            return None
        for statement in reversed(stars):
            source, sure = self.source_of(module, statement)
            if source is None:
                if statement.module == "torch.library" and name in EXPORTS:
                    return Resolution((Target(dotted=f"torch.library.{name}"),))
                if statement.module is None or statement.module.partition(".")[0] != "torch":
                    sure = False
                continue
            exported = self.exports(source, name)
            if exported is False:
                continue
            found = self.member(source, name)
            if not found.targets:
                continue
            step = ImportBinding(module, statement, statement.names[0], source)
            return Resolution(
                tuple(t if t.is_module else replace(t, via=(step, *t.via)) for t in found.targets),
                found.complete and sure and exported is True,
            )
        return UNKNOWN

    def attribute(
        self, module: Module, base: Resolution, name: str, written: ast.expr | None = None
    ) -> Resolution:
        """Return what reading an attribute of ``base`` yields.

        ``written`` is the expression that stands for ``base``: it tells ``self`` where it is one.
        """
        parts = [self._attribute_of(module, target, name) for target in base.targets]
        if not base.complete:
            parts.append(self._of_instance(module, written, name))
        return union(parts)

    def _attribute_of(self, module: Module, target: Target, name: str) -> Resolution:
        if target.is_module and target.module is not None:
            return self.member(target.module, name)
        if target.dotted is not None:
            # The name of an op is read here, whatever the namespace was called before.
            named = target.dotted.startswith("torch.ops.") and target.dotted.count(".") > 2
            found = self.dotted(f"{target.dotted}.{name}", module)
            if not named:
                return found
            at = [replace(t, via=target.via, assignments=target.assignments) for t in found.targets]
            return Resolution(tuple(at), found.complete)
        if target.module is not None and isinstance(target.node, ast.ClassDef):
            return self._of_class(target.module, target.node, name)
        if target.module is not None and isinstance(target.node, ast.Call):
            made = self.resolve(target.module, target.node.func)
            return (
                union(
                    Resolution(self._of_class(t.module, t.node, name).targets, complete=False)
                    for t in made.targets
                    if t.module is not None and isinstance(t.node, ast.ClassDef)
                )
                if made.targets
                else UNKNOWN
            )
        return UNKNOWN

    def _of_class(self, module: Module, node: ast.ClassDef, name: str) -> Resolution:
        scope = self.tree.scopes(module).inner(node)
        bindings = scope.bindings.get(name) if scope is not None else None
        if bindings:
            return union(self.binding(module, b) for b in settled(bindings))
        if node not in self._attributes:
            self._attributes[node] = instance_attributes(node)
        values = self._attributes[node].get(name, [])
        found = union(self.resolve(module, value) for value in values)
        return Resolution(found.targets, complete=False)

    def _of_instance(self, module: Module, written: ast.expr | None, name: str) -> Resolution:
        """Read an attribute of ``self`` or ``cls``: what the class says, which is never sure."""
        if not isinstance(written, ast.Name):
            return UNKNOWN
        for binding in self.bindings_of(module, written):
            holder = class_of_self(module, binding.node)
            if holder is not None:
                found = self._of_class(module, holder, name)
                return Resolution(found.targets, complete=False)
        return UNKNOWN

    def _call(self, module: Module, node: ast.Call) -> Resolution:
        itself = Resolution((Target(module=module, node=node),))
        if not isinstance(node.func, (ast.Name, ast.Attribute)) or not node.args:
            return itself
        called = self.resolve(module, node.func).certain
        if called is None or called.dotted is None:
            return itself
        if called.dotted == "builtins.getattr" and len(node.args) in (2, 3):
            base = self.resolve(module, node.args[0]).without_none()
            name = node.args[1]
            if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                return UNKNOWN
            found = self.attribute(module, base, name.value, node.args[0])
            if len(node.args) == 3:
                found = union((found, self.resolve(module, node.args[2])))
            return found
        if called.dotted == "importlib.import_module" and len(node.args) == 1:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                return self.dotted(name.value, module)
            return itself
        if called.dotted == "builtins.staticmethod" and len(node.args) == 1:
            return self.resolve(module, node.args[0])
        return itself
