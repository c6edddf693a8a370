"""Values that are made outside a kernel and live on from call to call: buffers and caches."""

from __future__ import annotations

import ast

from opscaffold.effects import aten
from opscaffold.effects.trace import Outer, OuterKind
from opscaffold.rules.functions import enclosing_function, own_nodes
from opscaffold.source.model import Module
from opscaffold.source.project import Project
from opscaffold.source.resolve import Target

_CONTAINERS = frozenset(
    {"builtins.dict", "builtins.list", "collections.defaultdict", "collections.OrderedDict"}
    | {"collections.deque", "weakref.WeakKeyDictionary", "weakref.WeakValueDictionary"}
    | {"cachetools.LRUCache", "cachetools.TTLCache"}
)
_MODULES = frozenset({"torch.nn.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Parameter"})


def outer_of(project: Project, module: Module, expr: ast.Name | ast.Attribute) -> Outer | None:
    """What a name or attribute stands for that is bound outside a kernel; None if not in sight."""
    found = project.resolve(module, expr)
    if isinstance(expr, ast.Attribute) and _is_set_by_class(project, module, expr):
        return Outer(OuterKind.TENSOR, null=True)
    if isinstance(expr, ast.Name) and any(_is_local(module, expr, t) for t in found.targets):
        return None
    kinds = {_kind(project, t) for t in found.targets if not t.is_none}
    null = not found.complete or any(t.is_none for t in found.targets)
    for kind in (OuterKind.TENSOR, OuterKind.CONTAINER):
        if kind in kinds:
            return Outer(kind, null=null)
    if found.certain is not None and kinds == {OuterKind.CONSTANT}:
        node = found.certain.node
        return Outer(OuterKind.CONSTANT, constant=getattr(node, "value", None))
    return None


def _is_set_by_class(project: Project, module: Module, expr: ast.Attribute) -> bool:
    """Whether this is ``cls.name`` in a classmethod of a class that binds a tensor to it."""
    function = enclosing_function(module, expr)
    owner = None if function is None else module.parents.get(function)
    if not (isinstance(expr.value, ast.Name) and expr.value.id == "cls"):
        return False
    if not isinstance(owner, ast.ClassDef):
        return False
    for node in ast.walk(owner):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=attr)]):
                known = name in {"cls", owner.name} and attr == expr.attr
                if known and _makes_tensor(project, module, node.value):
                    return True
    return False


def _is_local(module: Module, name: ast.Name, target: Target) -> bool:
    """Whether what a name stands for is bound in the very function that reads it."""
    if target.module is not module or target.node is None:
        return False
    function = enclosing_function(module, name)
    if (
        enclosing_function(module, target.assignments[0] if target.assignments else target.node)
        is not function
    ):
        return False
    return function is None or not any(
        isinstance(n, ast.Global | ast.Nonlocal) and name.id in n.names for n in own_nodes(function)
    )


def _kind(project: Project, target: Target) -> OuterKind | None:
    node, module = target.node, target.module
    if module is None:
        return None
    match node:
        case ast.Constant():
            return OuterKind.CONSTANT
        case ast.Dict(values=elements) | ast.List(elts=elements):
            if not elements or any(_makes_tensor(project, module, e) for e in elements):
                return OuterKind.CONTAINER
        case ast.Tuple(elts=elements):
            if any(_makes_tensor(project, module, e) for e in elements):
                return OuterKind.CONTAINER
        case ast.Call(func=func):
            if _makes_tensor(project, module, node):
                return OuterKind.TENSOR
            if project.resolve_dotted(module, func) in _CONTAINERS:
                return OuterKind.CONTAINER
    return None


def _makes_tensor(project: Project, module: Module, node: ast.expr | None) -> bool:
    """Whether an expression is a call of torch, or of a method of one, that makes a tensor."""
    if not isinstance(node, ast.Call):
        return False
    dotted = project.resolve_dotted(module, node.func)
    if dotted is not None:
        _, _, name = dotted.rpartition(".")
        known = aten.is_known(name) and name not in aten.METADATA_METHODS
        return dotted in _MODULES or (dotted == f"torch.{name}" and known)
    if isinstance(node.func, ast.Attribute) and (
        aten.is_known(node.func.attr) or node.func.attr in aten.SETTINGS
    ):
        return _makes_tensor(project, module, node.func.value)
    return False
