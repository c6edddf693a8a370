from __future__ import annotations

import ast
import textwrap
from pathlib import Path

from opscaffold.source.model import Module, Op, Reference, Use
from opscaffold.source.project import Project, load_project


class Reader:
    """Writes a small tree and reads it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, **files: str) -> None:
        """Write files; ``__`` in a name is a slash, a missing suffix is ``.py``."""
        for name, text in files.items():
            self.file(name.replace("__", "/") + ".py", text)

    def file(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def read(self, *paths: str) -> Project:
        return load_project([self.root / path for path in paths] or [self.root], self.root)


def op_named(project: Project, qualname: str) -> Op:
    found = [op for op in project.all_ops if op.qualname == qualname]
    assert len(found) == 1, [op.qualname for op in project.all_ops]
    return found[0]


def show(references: list[Reference]) -> list[tuple[str, str, str]]:
    """Where, what, how: (module, source, use)."""
    return [(r.module.name, ast.unparse(r.node), r.use.name) for r in references]


def shown(
    project: Project, qualname: str, *, without: tuple[Use, ...] = ()
) -> list[tuple[str, str, str]]:
    references = project.references(op_named(project, qualname))
    return show([r for r in references if r.use not in without])


def module_named(project: Project, name: str) -> Module:
    module = project.module_named(name)
    assert module is not None, name
    return module


def last_expression(module: Module) -> ast.expr:
    statement = module.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    return statement.value
