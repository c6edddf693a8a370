"""A Library that nothing keeps: when it is collected, the ops it defined are gone.

Source: FACTS section 5 ("Library garbage-collected -> op disappears").
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.patterns import pattern
from opscaffold.rules.base import Rule
from opscaffold.rules.functions import enclosing_function, own_nodes
from opscaffold.source.model import Module
from opscaffold.source.project import Project
from opscaffold.source.torch_api import LIBRARY, LIBRARY_METHODS

_NAME = pattern(r"Library\Z")


def check(project: Project) -> Iterator[Finding]:
    """Report each Library of the paths that only a local name holds, or nothing at all."""
    for module in project.modules:
        if module.path not in project.selected or "Library" not in module.source.text:
            continue
        for node in project.calls_of(module, _NAME):
            if _makes_library(project, module, node):
                yield from _of_library(project, module, node)


def _makes_library(project: Project, module: Module, node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Name | ast.Attribute)
        and project.resolve_dotted(module, node.func) == LIBRARY
    )


def _of_library(project: Project, module: Module, node: ast.Call) -> Iterator[Finding]:
    parent = module.parents.get(node)
    if isinstance(parent, ast.Attribute) and parent.attr in LIBRARY_METHODS:
        holder = module.parents.get(module.parents.get(parent, parent))
        if isinstance(holder, ast.Expr):
            yield RULE.finding(
                module,
                node,
                "nothing keeps this Library: it is collected at the end of the line, and what it "
                "registers is gone",
            )
        return
    function = enclosing_function(module, node)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            if _registers(function, name) and not _kept(project, module, function, name):
                yield RULE.finding(
                    module,
                    node,
                    f"only the local name `{name}` keeps this Library: when `{function.name}` "
                    "returns, its ops are gone, and calling one raises AttributeError",
                )


def _registers(function: ast.AST, name: str) -> bool:
    return any(
        isinstance(n, ast.Attribute)
        and isinstance(n.value, ast.Name)
        and n.value.id == name
        and n.attr in LIBRARY_METHODS
        for n in own_nodes(function)
    )


def _kept(
    project: Project,
    module: Module,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    name: str,
) -> bool:
    """Whether the Library may outlive the function, or is only meant to live in it."""
    for node in ast.walk(function):
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names) if name in names:
                return True
            case ast.Attribute(attr="ops" | "_destroy" | "opcheck"):
                # It is used, or ended, before the function returns.
                return True
            case ast.Yield() | ast.YieldFrom():
                return True
            case ast.Name(id=found, ctx=ast.Load()) if found == name:
                if not _only_registers(project, module, function, node):
                    return True
    return False


def _only_registers(project: Project, module: Module, function: ast.AST, node: ast.Name) -> bool:
    """Whether a use of the Library keeps no reference to it."""
    if enclosing_function(module, node) is not function:
        # A function inside may be kept, and with it what it refers to. A decorator is not.
        inner = enclosing_function(module, node)
        decorators = getattr(inner, "decorator_list", [])
        if not any(node in ast.walk(d) for d in decorators):
            return False
    parent = module.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr in LIBRARY_METHODS
    if isinstance(parent, ast.keyword):
        parent = module.parents.get(parent)
    if isinstance(parent, ast.Call) and parent.func is not node:
        return (project.resolve_dotted(module, parent.func) or "").startswith("torch.library.")
    return False


RULE = Rule(
    code="OPS602",
    name="library-dropped",
    severity=Severity.ERROR,
    summary="A Library that defines ops is kept only in a local name, or not at all.",
    why="A Library takes its registrations back when it is garbage-collected. One that only a "
    "local name holds dies with the function, and its ops are gone: calling one raises "
    "AttributeError.",
    remedy="keep the Library in a module-level name",
    of_project=check,
    hits=(
        """\
import torch


def register():
    lib = torch.library.Library("demo", "FRAGMENT")
    lib.define("gone(Tensor t) -> Tensor")
    lib.impl("gone", lambda t: t.clone(), "CPU")
""",
        """\
from torch.library import Library, register_fake


def register(names):
    library = Library("demo", "FRAGMENT")
    for name in names:
        library.define(f"{name}(Tensor t) -> Tensor")
        register_fake(f"demo::{name}", lambda t: t.clone(), lib=library)


register(["a", "b"])
""",
        """\
import torch

torch.library.Library("demo", "FRAGMENT").define("gone(Tensor t) -> Tensor")
""",
    ),
    misses=(
        """\
import torch

lib = torch.library.Library("demo", "FRAGMENT")
lib.define("kept(Tensor t) -> Tensor")
""",
        """\
import torch

_KEPT = []


def register():
    lib = torch.library.Library("demo", "FRAGMENT")
    lib.define("kept(Tensor t) -> Tensor")
    _KEPT.append(lib)


def make():
    lib = torch.library.Library("demo", "FRAGMENT")
    lib.define("made(Tensor t) -> Tensor")
    return lib
""",
        """\
import torch


def test_op():
    lib = torch.library.Library("demo", "FRAGMENT")
    lib.define("tried(Tensor t) -> Tensor")
    lib.impl("tried", lambda t: t.clone(), "CPU")
    assert torch.ops.demo.tried(torch.ones(1)) is not None
""",
        """\
import torch

lib = None


def register():
    global lib
    lib = torch.library.Library("demo", "FRAGMENT")
    lib.define("kept(Tensor t) -> Tensor")
""",
    ),
)
