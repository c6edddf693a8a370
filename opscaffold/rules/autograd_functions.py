"""Classes that give a gradient from outside an op: subclasses of ``torch.autograd.Function``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.rules.fakes import dispatch_key
from opscaffold.source.model import Module, Op, Registration, Role
from opscaffold.source.nodes import walk
from opscaffold.source.project import Project
from opscaffold.source.questions import Topic

_BASES = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
# What a file says that defines one.
TOPIC = Topic((b"autograd",), rb"autograd(?:\.function)?(?:\.Function\b| import)")


def is_autograd_function(project: Project, module: Module, node: ast.AST | None) -> bool:
    """Whether a node is the definition of a subclass of ``autograd.Function``."""
    return isinstance(node, ast.ClassDef) and any(
        project.resolve_dotted(module, base) in _BASES for base in node.bases
    )


def method_around(module: Module, node: ast.AST) -> tuple[ast.FunctionDef, ast.ClassDef] | None:
    """The method in which a node stands, and its class."""
    parent = module.parents.get(node)
    while parent is not None:
        holder = module.parents.get(parent)
        if isinstance(parent, ast.FunctionDef) and isinstance(holder, ast.ClassDef):
            return parent, holder
        parent = holder
    return None


def calls_in_functions(project: Project, module: Module) -> Iterator[ast.Call]:
    """The calls that stand in the autograd.Functions of a module."""
    for node in module.tree.body:
        for inner in walk(node):
            if is_autograd_function(project, module, inner):
                yield from (n for n in walk(inner) if isinstance(n, ast.Call))


def gives_gradient(op: Op) -> bool:
    """Whether a formula is registered for the op itself."""
    return any(_is_formula(registration) for registration in op.attached)


def _is_formula(registration: Registration) -> bool:
    if registration.role is not Role.IMPL:
        return registration.role is Role.AUTOGRAD
    key = dispatch_key(registration)
    # CompositeExplicitAutograd is the key of kernels without a gradient of their own.
    return key is None or "Autograd" in key.replace("CompositeExplicitAutograd", "")
