"""The names that a split needs, and whether they are free."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from opscaffold.migrate.definition import torch_import, torch_tag
from opscaffold.migrate.forms import DefinitionForm
from opscaffold.migrate.plan import Context
from opscaffold.migrate.refusal import RefusalError
from opscaffold.source.model import Op


@dataclass(frozen=True, slots=True)
class SplitNames:
    """The names that a split gives.

    ``variable`` is what the mutable op is called in its module, ``tag`` the text of Tag.out.
    """

    old_qualname: str
    new_qualname: str
    variable: str
    tag: str


class Namer:
    """Chooses names in the module that defines an op."""

    def __init__(self, context: Context, op: Op) -> None:
        self.project, self.op = context.project, op
        self.module = op.definition.module
        self.reserved = context.names_in(self.module)

    def is_used_elsewhere(self, form: DefinitionForm, function: ast.FunctionDef) -> bool:
        """Whether other code calls a kernel by its name, so that it must stay what it is."""
        if form.variable == function.name:
            return False
        registering_ = {p.parts.kernel for p in form.statements}
        for node in ast.walk(self.module.tree):
            if isinstance(node, ast.Name) and node.id == function.name:
                if isinstance(node.ctx, ast.Load) and node not in registering_:
                    return True
            elif isinstance(node, ast.Constant) and node.value == function.name:
                return True
        word = function.name.encode()
        if function.name == "_":
            return False
        return any(
            word in (self.project.read(path) or b"")
            for path in self.project.files
            if path != self.module.path
        )

    def needs_torch(self, form: DefinitionForm, tag: str) -> bool:
        """Whether ``import torch`` must be added for the tag."""
        calls = [p.call for p in form.statements]
        calls += [p.call for k in form.kernels for p in k.decorators]
        if any(tag.removesuffix(".Tag.out") + "." in ast.unparse(call) for call in calls):
            return False
        if torch_import(self.module, form.main) is not None:
            return False
        for node in ast.walk(self.module.tree):
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Store)
                and node.id == "torch"
            ):
                raise RefusalError(
                    node, "the name `torch` is something else here", "import torch by its name"
                )
        return True

    def choose(self, form: DefinitionForm, suffix: str, ending: str = "_out") -> SplitNames:
        """Choose the new names, and refuse ones that are taken.

        ``suffix`` goes behind the op's name, ``ending`` behind its name in the module.
        """
        old, function = self.op.qualname, form.main
        new = f"{old}{suffix}"
        variable = form.variable or function.name
        variable = "_" if variable == "_" else f"{variable}{ending}"
        names = SplitNames(old, new, variable, torch_tag(self.project, self.module, form))
        taken = self.project.bindings_in_scope(self.module, function) | self.reserved
        if form.variable is not None and variable != "_":
            if variable in taken:
                raise RefusalError(
                    function,
                    f"the name `{variable}`, which the split needs, is already in use here",
                    f"rename what is called `{variable}`",
                )
            self.reserved.add(variable)
        similar = (f"{old}_out", f"{old}.out") if ending == "_out" else ()
        every = [o.qualname for o in self.project.all_ops]
        every += [r.qualname for r in self.project.stray if r.qualname]
        other = next((o for o in (new, *similar) if o in every), None)
        if other is not None:
            raise RefusalError(
                function,
                f"there is an op `{other}` already",
                f"take what chooses out of `{old}`, and let its callers use `{other}`",
            )
        return names

    def free(self, function: ast.FunctionDef, wanted: str) -> str:
        """A private name that nothing has here, now or by another plan: ``wanted`` if possible."""
        taken = self.project.bindings_in_scope(self.module, function) | self.reserved
        taken |= {n.id for n in ast.walk(self.module.tree) if isinstance(n, ast.Name)}
        names = (wanted, *(f"{wanted}_{number}" for number in range(2, len(taken) + 3)))
        name = next(n for n in names if n not in taken)
        self.reserved.add(name)
        return name
