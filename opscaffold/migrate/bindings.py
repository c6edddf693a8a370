"""What the out= op is called wherever the old op has a name, and the imports that takes."""

from __future__ import annotations

import ast
from pathlib import Path

import libcst as cst

from opscaffold.migrate.edits import FileEdits, ImportEdit
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.syntax import Syntax
from opscaffold.source.load import span
from opscaffold.source.model import ImportBinding, Module, Op, Reference, Use
from opscaffold.source.project import Project

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


class Bindings:
    """Names for one new op across a project; collects the edits that make them available."""

    def __init__(
        self,
        project: Project,
        op: Op,
        function: str,
        qualname: str,
        syntaxes: Syntaxes,
        ending: str = "_out",
    ) -> None:
        """``function`` is the new op's name in the defining module, ``qualname`` its own.

        ``ending`` goes behind other names that the old op has, for the new one.
        """
        self.project = project
        self.op = op
        self.function = function
        self.qualname = qualname
        self.syntaxes = syntaxes
        self.ending = ending
        self.edits: dict[Path, FileEdits] = {}

    def edits_for(self, module: Module) -> FileEdits:
        """The edits of a module, to add to."""
        return self.edits.setdefault(module.path, FileEdits())

    def expression(self, reference: Reference) -> str:
        """The text that denotes the new op where a reference denotes the old one.

        Asks for the imports it needs. Raises RefusalError where no such text can be given.
        """
        node = reference.node
        if not isinstance(node, ast.expr):
            raise TypeError("an import is no expression")
        if reference.torch_ops:
            return self._torch_ops(reference, node)
        if any(a is not self.op.definition.statement for a in reference.assignments):
            return self._assigned(reference, node)
        new = self._provide(reference.via, reference)
        if isinstance(node, ast.Name):
            if not reference.via and reference.module is not self.op.definition.module:
                raise self._unreachable(reference)
            self._refuse_shadowed(reference.module, node, new, reference.via)
            return new
        if isinstance(node, ast.Attribute) and reference.holder is not None:
            start, end = span(reference.module, node.value)
            return f"{reference.module.source.text[start:end]}.{new}"
        raise self._unreachable(reference)

    def _assigned(self, reference: Reference, node: ast.expr) -> str:
        """Give the new op a name wherever assignments give one to the old op."""
        module = reference.module
        refusal = RefusalError(
            node,
            f"`{ast.unparse(node)}` is another name for the op, made by an assignment",
            "call the op by its own name",
            module,
        )
        if not isinstance(node, ast.Name) or reference.via or len(reference.assignments) > 1:
            raise refusal
        stores = [
            n
            for n in ast.walk(module.tree)
            if isinstance(n, ast.Name) and n.id == node.id and not isinstance(n.ctx, ast.Load)
        ]
        values = {id(r.node): r for r in self.project.references(self.op) if r.module is module}
        new = f"{node.id}{self.ending}"
        if new in self.project.bindings_in_scope(module, node):
            raise refusal
        lines: dict[ast.Assign, str] = {}
        for store in stores:
            assign = module.parents[store]
            if not isinstance(assign, ast.Assign) or len(assign.targets) > 1:
                raise refusal
            value = values.get(id(assign.value))
            if value is None or value.assignments or not isinstance(value.node, ast.expr):
                raise refusal
            lines[assign] = f"{new} = {self.expression(value)}"
        syntax = self.syntaxes.of(module)
        for assign, line in lines.items():
            behind = self.edits_for(module).behind.setdefault(syntax.key(assign), [])
            if not behind:
                behind.append(cst.parse_statement(line))
        return new

    def _unreachable(self, reference: Reference) -> RefusalError:
        return RefusalError(
            reference.node,
            "the op is reached here in a way that cannot be followed to the new op",
            "import the op by name",
            reference.module,
        )

    def reexport(self, reference: Reference) -> None:
        """Import the new op beside the old one, for the users of this module."""
        self._provide(reference.via, reference)

    def export(self, reference: Reference) -> None:
        """Name the new op in ``__all__`` beside the old one."""
        if not isinstance(reference.node, ast.Constant):
            raise self._unreachable(reference)
        key = self.syntaxes.of(reference.module).key(reference.node)
        new = self._provide(reference.via, reference)
        names = self.edits_for(reference.module).exports.setdefault(key, [])
        if new not in names:
            names.append(new)

    def _provide(self, via: tuple[ImportBinding, ...], reference: Reference) -> str:
        """Make the new op available through a chain of imports; return its name at the head."""
        name = self.function
        for binding in reversed(via):
            name = self._import(binding, name, reference)
        return name

    def _import(self, binding: ImportBinding, name: str, reference: Reference) -> str:
        alias = binding.alias
        if alias.name == "*":
            if name.startswith("_"):
                raise RefusalError(
                    binding.statement,
                    f"`{name}` would not come with `import *`",
                    "import the op by name",
                    binding.module,
                )
            return name
        if alias.asname is None:
            local, asname = name, None
        elif alias.asname == alias.name:
            local = asname = name
        else:
            local = asname = f"{alias.asname}{self.ending}"
        taken = self.project.bindings_in_scope(binding.module, binding.statement)
        if any((a.name, a.asname) == (name, asname) for a in binding.statement.names):
            # In prose, which is rewritten ahead of code: the rest of it is planned once more.
            return local
        if local in taken:
            raise RefusalError(
                binding.statement,
                f"the name `{local}`, which the new op would take, is already in use",
                "rename what has that name",
                binding.module,
            )
        _refuse_declared_outside(binding)
        key = self.syntaxes.of(binding.module).key(alias)
        imports = self.edits_for(binding.module).imports.setdefault(key, [])
        edit = ImportEdit(name, asname)
        if edit in imports:
            return local
        imports.append(edit)
        for other in self._other_branches(binding):
            if self._provide(other.via, reference) != local:
                raise self._unreachable(reference)
        return local

    def _other_branches(self, binding: ImportBinding) -> list[Reference]:
        """The imports that give the op the same name in the same scope, in another branch."""
        scope = _scope(binding.module, binding.statement)
        return [
            r
            for r in self.project.references(self.op)
            if r.use is Use.IMPORT
            and r.module is binding.module
            and isinstance(r.node, ast.alias)
            and r.node is not binding.alias
            and r.via
            and r.via[0].local == binding.local
            and _scope(r.module, r.via[0].statement) is scope
        ]

    def _refuse_shadowed(
        self, module: Module, node: ast.Name, new: str, via: tuple[ImportBinding, ...]
    ) -> None:
        if any((a.asname or a.name) == new for step in via[:1] for a in step.statement.names):
            return
        if new in self.project.bindings_in_scope(module, node):
            raise RefusalError(
                node,
                f"the name `{new}`, which the new op would take, means something else here",
                "rename what has that name",
                module,
            )

    def _torch_ops(self, reference: Reference, node: ast.expr) -> str:
        old, new = self.op.name, self.qualname.partition("::")[2]
        current: ast.expr = node
        while isinstance(current, ast.Attribute):
            if current.attr == old:
                module = reference.module
                base_start, base_end = span(module, current.value)
                _, here = span(module, current)
                _, end = span(module, node)
                text = module.source.text
                if "." in new:
                    end = here  # an overload has none of its own
                return f"{text[base_start:base_end]}.{new}{text[here:end]}"
            current = current.value
        raise self._unreachable(reference)


def _scope(module: Module, node: ast.AST) -> ast.AST:
    """The function, class or module in which a statement binds names."""
    current = module.parents[node]
    while not isinstance(current, _SCOPES):
        current = module.parents[current]
    return current


def _refuse_declared_outside(binding: ImportBinding) -> None:
    """Refuse an import that binds a name of another scope: the new name would not follow."""
    scope = _scope(binding.module, binding.statement)
    for node in ast.walk(scope):
        if isinstance(node, ast.Global | ast.Nonlocal) and binding.local in node.names:
            raise RefusalError(
                binding.statement,
                f"this import binds `{binding.local}` outside the function that it stands in",
                "import the op where its name is used",
                binding.module,
            )


class Syntaxes:
    """The libcst trees of a project's modules, each parsed when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[Module, Syntax] = {}

    def of(self, module: Module) -> Syntax:
        """The tree of a module. Raises SyntaxMismatchError where libcst does not do."""
        if module not in self._made:
            self._made[module] = Syntax(module)
        return self._made[module]
