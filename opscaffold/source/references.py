"""Every place in a tree that denotes an op, or may."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from opscaffold.source.exports import export_nodes
from opscaffold.source.files import parts_of
from opscaffold.source.hits import Hit, OpIndex
from opscaffold.source.holders import Holders
from opscaffold.source.mentions import StringReader
from opscaffold.source.model import Module, Op, Reference, Use
from opscaffold.source.named_nodes import NamedNodes
from opscaffold.source.resolve import Resolver, Target
from opscaffold.source.sites import statement_of
from opscaffold.source.tree import Tree

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_RUN_TIME_IMPORTS = frozenset(
    {
        "importlib.import_module",
        "importlib.util.module_from_spec",
        "builtins.__import__",
        "runpy.run_path",
    }
)


class ReferenceFinder:
    """Finds the references to each of a set of ops."""

    def __init__(
        self, tree: Tree, resolver: Resolver, ops: list[Op], by_object: dict[ast.AST, Op]
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.ops = ops
        self.index = OpIndex(ops, by_object)
        self.strings = StringReader(self, ops)
        # The ops whose references are likely to be asked for; None: all.
        self.expected: frozenset[str] | None = None
        self.holders = Holders(tree, self._expected_words)
        # The names that ops and their namespaces go by, as far as they are known.
        self.words: set[str] = set()
        self.near: set[str] = set()
        self._nodes: dict[Module, NamedNodes] = {}
        # What names an op within its own registrations is no reference of its own.
        self._operands: dict[ast.AST, Op] = {}
        for op in ops:
            for registration in (op.definition, *op.attached):
                if registration.operand is not None:
                    self._operands[registration.operand] = op
                if registration.call is not None:
                    for part in ast.walk(registration.call):
                        if isinstance(part, ast.Constant):
                            self._operands.setdefault(part, op)

    def find(self, op: Op) -> list[Reference]:
        """Return the references to an op, by file and position."""
        found: list[Reference] = []
        for module in self._candidates(op):
            found += [r for r in self._of_module(module) if r.op is op]
        found.sort(key=_place)
        return found

    def sure_op(self, module: Module, expression: ast.expr) -> Op | None:
        """Return the op an expression denotes, if that is sure."""
        hits = self.index.hits(self.resolver.resolve(module, expression))
        if len(hits) == 1 and not hits[0].reason:
            return hits[0].op
        return None

    def _first_words(self, op: Op) -> set[str]:
        words: set[str] = set()
        if op.definition.qualname is not None:
            words.add(op.name.partition(".")[0])
        node = op.definition.result
        if isinstance(node, _DEFINITIONS):
            words.add(node.name)
        elif node is not None:
            words |= _bound_names(op.definition.module, node)
        return {word for word in words if word.isidentifier()}

    def mentioning(self) -> set[Path]:
        """Return the files that hold a name that an expected op goes by where it is defined."""
        return self.holders.of(set().union(*map(self._first_words, self._expected_ops())))

    def _expected_words(self) -> set[str]:
        """Return the names that the expected ops are looked for by at first."""
        ops = self._expected_ops()
        return {op.namespace for op in ops}.union(*map(self._first_words, ops))

    def _expected_ops(self) -> list[Op]:
        expected = self.expected
        return [op for op in self.ops if expected is None or op.qualname in expected]

    def _candidates(self, op: Op) -> list[Module]:
        """Parse the modules that mention an op by any name it goes by.

        ``words`` are those names then, ``near`` also what any of the modules calls them.
        """
        self.words = pending = self._first_words(op)
        space = op.namespace
        owners = {space}
        # An op without a sure name may be any that is called.
        unnamed = op.definition.qualname is None
        found: dict[Path, Module | None] = {}
        while pending:
            # An op may be reached by what holds it and a name that is computed, or a name be
            # given to its namespace.
            holding = self.holders.of(pending) | self.holders.computing(owners)
            holding |= self.holders.naming(space, all_of_them=unnamed)
            for path in holding - found.keys():
                found[path] = self.tree.load(path)
            bound = {m: self._aliases(m, op) for m in found.values() if m is not None}
            new_owners = {m.name.rpartition(".")[2] for m, names_of in bound.items() if names_of}
            pending = set().union(*bound.values()) - self.words
            if not pending and new_owners - owners:
                # Nothing new to look for but these: a word that is known finds the same files.
                pending = set(self.words)
            owners |= new_owners
            self.words = self.words | pending
        modules = [m for _, m in sorted(found.items(), key=lambda pair: parts_of(pair[0])) if m]
        named = {*self.words, space}
        self.near = named.union(*(self.tree.calls(m).closure(named) for m in modules))
        return modules

    def _aliases(self, module: Module, op: Op) -> set[str]:
        """Return the module-level names that stand for an op, or for its namespace."""
        found: set[str] = set()
        named = {*self.words, op.namespace}
        top = self.tree.scopes(module).top.bindings
        for name in self.tree.calls(module).closure(named) & top.keys():
            for binding in top[name]:
                resolution = self.resolver.binding(module, binding)
                if any(hit.op is op for hit in self.index.hits(resolution)) or any(
                    op in self.index.in_namespace(t) for t in resolution.targets
                ):
                    found.add(name)
        return found

    def _of_module(self, module: Module) -> Iterator[Reference]:
        yield from self._exports(module)
        for node in self._named_nodes(module).near(self.near):
            if isinstance(node, ast.Name):
                yield from self._name(module, node)
            elif isinstance(node, ast.Attribute):
                yield from self._attribute(module, node)
            elif isinstance(node, ast.Call):
                yield from self._call(module, node)
            elif isinstance(node, ast.ImportFrom):
                yield from self._import(module, node)
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node not in self._operands
            ):
                yield from self.strings.references(module, node, node.value)

    def _named_nodes(self, module: Module) -> NamedNodes:
        if module not in self._nodes:
            self._nodes[module] = NamedNodes(module)
        return self._nodes[module]

    def _exports(self, module: Module) -> Iterator[Reference]:
        for node in export_nodes(module) or ():
            if node.value not in self.near:
                continue
            found = self.resolver.member(module, str(node.value))
            for hit in self.index.hits(found):
                yield self._make(module, node, hit, Use.EXPORT)

    def _import(self, module: Module, statement: ast.ImportFrom) -> Iterator[Reference]:
        scopes = self.tree.scopes(module)
        scope = scopes.of(statement) or scopes.top
        for alias in statement.names:
            for binding in scope.bindings.get(alias.asname or alias.name, ()):
                if binding.node is alias:
                    for hit in self.index.hits(self.resolver.binding(module, binding)):
                        yield self._make(module, alias, hit, Use.IMPORT)

    def _name(self, module: Module, node: ast.Name) -> Iterator[Reference]:
        if not isinstance(node.ctx, ast.Load):
            yield from self._rebinding(module, node)
            return
        for hit in self.index.hits(self.resolver.resolve(module, node)):
            if not self._goes_on(module, node):
                yield self._use(module, node, hit)

    def _goes_on(self, module: Module, node: ast.expr) -> bool:
        """Say whether the expression around, such as ``node.default``, is what denotes the op."""
        parent = module.parents.get(node)
        return (
            isinstance(parent, ast.Attribute)
            and isinstance(parent.ctx, ast.Load)
            and self._denotes(module, parent)
        )

    def _rebinding(self, module: Module, node: ast.Name) -> Iterator[Reference]:
        """Yield what binds an op's name again, or deletes it: later readers may see either."""
        scopes = self.tree.scopes(module)
        scope = scopes.of(node) or scopes.top
        bindings = scope.bindings.get(node.id, [])
        own = next((b for b in bindings if b.node is node), None)
        if own is None or (own.value is not None and self._denotes(module, own.value)):
            return
        if own.value is not None and own.value in self.index.by_object:
            return
        for other in bindings:
            if other.node is node or other.position > own.position:
                continue
            for hit in self.index.hits(self.resolver.binding(module, other)):
                word = "deletes" if isinstance(node.ctx, ast.Del) else "binds"
                reason = f"this {word} the op's name" + ("" if word == "deletes" else " again")
                yield self._make(module, node, replace(hit, reason=reason), Use.UNCERTAIN)

    def _denotes(self, module: Module, value: ast.expr) -> bool:
        return bool(self.index.hits(self.resolver.resolve(module, value)))

    def _attribute(self, module: Module, node: ast.Attribute) -> Iterator[Reference]:
        hits = self.index.hits(self.resolver.resolve(module, node))
        if not isinstance(node.ctx, ast.Load):
            base = self.resolver.resolve(module, node.value).certain
            for hit in hits if base is not None else []:
                reason = "this puts something else in the op's place"
                yield self._make(module, node, replace(hit, reason=reason), Use.UNCERTAIN)
            return
        if not hits:
            yield from self._run_time_module(module, node)
            return
        if not self._goes_on(module, node):
            for hit in hits:
                yield self._use(module, node, hit)

    def _run_time_module(self, module: Module, node: ast.Attribute) -> Iterator[Reference]:
        """``m.scale`` with m imported by its file or a computed name: it may be the op."""
        if not isinstance(node.value, (ast.Name, ast.Attribute)):
            return
        ops = self.strings.by_bound_name.get(node.attr)
        if not ops:
            return
        made = self.resolver.resolve(module, node.value)
        # `from before import pkg`, where pkg is made by module_from_spec, ends at that call.
        for target in made.targets:
            if target.module is None or not isinstance(target.node, ast.Call):
                continue
            called = self.resolver.resolve(target.module, target.node.func).certain
            if called is not None and called.dotted in _RUN_TIME_IMPORTS:
                for op in ops:
                    reason = "it is read from a module that is imported at run time"
                    yield self._use(module, node, Hit(op, target, reason))

    def _call(self, module: Module, node: ast.Call) -> Iterator[Reference]:
        yield from self.strings.in_call(module, node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "getattr"):
            return
        if len(node.args) < 2:
            return
        hits = self.index.hits(self.resolver.resolve(module, node))
        for hit in hits:
            yield self._use(module, node, hit)
        if hits or isinstance(node.args[1], ast.Constant):
            return
        for target in self.resolver.resolve(module, node.args[0]).targets:
            ops: Iterable[Op] = self.index.in_namespace(target)
            if target.is_module and target.module is not None:
                held = [self.resolver.member(target.module, n) for n in self.strings.by_bound_name]
                ops = [hit.op for found in held for hit in self.index.hits(found)]
            for op in dict.fromkeys(ops):
                reason = "the name is computed: any op read from here may be meant"
                yield self._use(module, node, Hit(op, target, reason))

    def _use(self, module: Module, node: ast.expr, hit: Hit) -> Reference:
        parent = module.parents.get(node)
        use, call = Use.VALUE, None
        if isinstance(parent, ast.Call) and parent.func is node:
            use, call = Use.CALL, parent
        elif isinstance(parent, ast.Attribute):
            use = Use.ATTRIBUTE
        if node in self._operands:
            use, call = Use.REGISTRATION, None
            return self._make(module, node, replace(hit, reason=""), use)
        if hit.reason:
            return self._make(module, node, hit, Use.UNCERTAIN, call)
        return self._make(module, node, hit, use, call)

    def _make(
        self,
        module: Module,
        node: ast.expr | ast.alias,
        hit: Hit,
        use: Use,
        call: ast.Call | None = None,
    ) -> Reference:
        if hit.reason and use not in (Use.REGISTRATION, Use.IMPORT, Use.EXPORT):
            use = Use.UNCERTAIN
        holder = None
        named_here = False
        if isinstance(node, ast.Attribute):
            base = self.resolver.resolve(module, node.value)
            if base.certain is not None and base.certain.is_module:
                holder = base.certain.module
            named_here = self._names_op(module, node)
        elif isinstance(node, ast.Call):
            named_here = any(self.index.in_namespace(t) for t in self._first_argument(module, node))
        return Reference(
            op=hit.op,
            module=module,
            node=node,
            use=use,
            call=call,
            via=hit.target.via,
            holder=holder,
            torch_ops=named_here,
            reason=hit.reason,
            assignments=hit.target.assignments,
        )

    def _first_argument(self, module: Module, node: ast.Call) -> tuple[Target, ...]:
        return self.resolver.resolve(module, node.args[0]).targets if node.args else ()

    def _names_op(self, module: Module, node: ast.Attribute) -> bool:
        """Say whether an op's name stands in the chain as an attribute of its namespace."""
        current: ast.expr = node
        while isinstance(current, ast.Attribute):
            if any(
                self.index.in_namespace(t)
                for t in self.resolver.resolve(module, current.value).targets
            ):
                return True
            current = current.value
        return False


def _bound_names(module: Module, node: ast.AST) -> set[str]:
    statement = statement_of(module, node)
    return {
        name.id
        for name in ast.walk(statement)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }


def _place(reference: Reference) -> tuple[str, int, int]:
    node = reference.node
    return str(reference.module.path), node.lineno, node.col_offset
