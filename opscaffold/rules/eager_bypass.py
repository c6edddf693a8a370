"""A helper whose result runs the raw function in eager mode, past the op that it registered.

What callers hold then is not the op: the dispatcher only meets their calls while they are traced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.findings.model import Finding, Severity
from opscaffold.records import dataclass
from opscaffold.rules.base import Rule, position
from opscaffold.rules.functions import own_nodes, positional_names, returned
from opscaffold.source.classes import first_parameter
from opscaffold.source.model import Form, FunctionNode, Module, Op
from opscaffold.source.nodes import walk
from opscaffold.source.project import Project

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPILING = frozenset(
    {
        "torch.compiler.is_compiling",
        "torch.compiler.is_dynamo_compiling",
        "torch.compiler.is_exporting",
        "torch._dynamo.is_compiling",
        "torch._dynamo.external_utils.is_compiling",
        "torch._utils.is_compiling",
    }
)


@dataclass(frozen=True, slots=True)
class _Callable:
    """What a helper gives back, as the function that runs when it is called.

    ``raw`` are the expressions, as written there, that stand for the function that was
    registered: names, or attributes of ``self``.
    """

    module: Module
    function: FunctionNode
    raw: frozenset[str]


def check(project: Project) -> Iterator[Finding]:
    """Report each helper of the paths that gives back such a thing, where it runs the function."""
    ops: dict[ast.AST, list[Op]] = {}
    for op in project.all_ops:
        used = op.definition.helper
        if op.definition.form is Form.HELPER and used is not None:
            ops.setdefault(used, []).append(op)
    reported: set[ast.AST] = set()
    for module, helper in project.helpers:
        if module.path not in project.selected or not isinstance(helper, _FUNCTIONS):
            continue
        for op in ops.get(helper, [])[:1]:
            for given in _given_back(project, module, helper, op):
                call = next(_raw_calls(project, given), None)
                if call is None or call in reported:
                    continue
                reported.add(call)
                uses = [position(o.definition.module, o.definition.statement) for o in ops[helper]]
                yield RULE.finding(
                    given.module,
                    call,
                    f"what `{helper.name}` gives back runs the plain function in eager mode: "
                    f"the dispatcher never sees an eager call of `{op.qualname}`, so nothing "
                    "checks what it returns, and its autograd, autocast and device kernels "
                    "do not apply",
                    op=op.qualname,
                    evidence=uses[:5],
                )


def _given_back(
    project: Project, module: Module, helper: FunctionNode, op: Op
) -> Iterator[_Callable]:
    kernel = _kernel_parameter(project, module, helper, op)
    if kernel is None:
        return
    for value in returned(helper):
        made = value
        for target in project.resolve(module, value).targets:
            if target.module is module and isinstance(target.node, _FUNCTIONS):
                if target.node is not helper and _inside(module, target.node, helper):
                    yield _Callable(module, target.node, frozenset({kernel}))
            elif target.module is module and isinstance(target.node, ast.Call):
                made = target.node
        if isinstance(made, ast.Call):
            yield from _of_class(project, module, made, kernel)


def _kernel_parameter(project: Project, module: Module, helper: FunctionNode, op: Op) -> str | None:
    """The parameter of a helper that is the function it registers."""
    names = positional_names(helper)
    if isinstance(module.parents.get(helper), ast.ClassDef):
        names = names[1:]
    definition = op.definition
    call = definition.call
    decorates = isinstance(definition.statement, _FUNCTIONS)
    if call is None or (decorates and call in getattr(definition.statement, "decorator_list", ())):
        return names[0] if names else None
    for name, value in [
        *zip(names, call.args, strict=False),
        *((k.arg, k.value) for k in call.keywords if k.arg is not None),
    ]:
        if value is definition.function:
            return name
        if isinstance(value, ast.Name | ast.Attribute):
            target = project.resolve(definition.module, value).certain
            if target is not None and target.node is definition.function:
                return name
    return None


def _of_class(project: Project, module: Module, made: ast.Call, kernel: str) -> Iterator[_Callable]:
    """The ``__call__`` of an instance that is given the registered function."""
    for target in project.resolve(module, made.func).targets:
        if target.module is None or not isinstance(target.node, ast.ClassDef):
            continue
        methods = {n.name: n for n in target.node.body if isinstance(n, _FUNCTIONS)}
        called = methods.get("__call__")
        if called is None:
            continue
        fields = [
            n.target.id
            for n in target.node.body
            if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
        ]
        init = methods.get("__init__")
        names = positional_names(init)[1:] if init is not None else fields
        given = [
            name
            for name, value in [
                *zip(names, made.args, strict=False),
                *((k.arg, k.value) for k in made.keywords if k.arg is not None),
            ]
            if isinstance(value, ast.Name) and value.id == kernel
        ]
        kept = _attributes(init, set(given)) if init is not None else set(given)
        own = first_parameter(called)
        if kept and own is not None:
            yield _Callable(target.module, called, frozenset(f"{own}.{name}" for name in kept))


def _attributes(init: FunctionNode, given: set[str]) -> set[str]:
    """The attributes that hold one of the parameters after ``__init__``."""
    found: set[str] = set()
    for node in own_nodes(init):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            found |= {
                one.attr
                for one, value in pairs
                if isinstance(one, ast.Attribute)
                and isinstance(value, ast.Name)
                and value.id in given
            }
    return found


def _raw_calls(project: Project, given: _Callable) -> Iterator[ast.Call]:
    """The calls of the plain function that only run when nothing is compiled."""
    for node in own_nodes(given.function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name | ast.Attribute)
            and ast.unparse(node.func) in given.raw
            and _is_eager(project, given, node)
        ):
            yield node


def _is_eager(project: Project, given: _Callable, call: ast.Call) -> bool:
    inner: ast.AST = call
    parents = given.module.parents
    while inner is not given.function:
        outer = parents[inner]
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            compiling = _tests_compiling(project, given.module, outer.test)
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if compiling is not None and any(inner is n for n in body) is not compiling:
                return True
        block = getattr(outer, "body", None)
        for earlier in block if isinstance(block, list) else ():
            if earlier is inner:
                break
            # `if is_compiling(): return op(...)`: what follows is eager.
            if (
                isinstance(earlier, ast.If)
                and _tests_compiling(project, given.module, earlier.test)
                and isinstance(earlier.body[-1], ast.Return | ast.Raise)
            ):
                return True
        inner = outer
    return False


def _tests_compiling(project: Project, module: Module, test: ast.expr) -> bool | None:
    """Whether a condition holds while compiling (True), in eager mode (False), or is no such."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        found = _tests_compiling(project, module, test.operand)
        return None if found is None else not found
    for node in walk(test):
        if isinstance(node, ast.Call) and project.resolve_dotted(module, node.func) in _COMPILING:
            return True
    return None


def _inside(module: Module, node: ast.AST, outer: ast.AST) -> bool:
    current: ast.AST | None = node
    while current is not None and current is not outer:
        current = module.parents.get(current)
    return current is outer


_HEAD = """\
import torch
from torch import Tensor


"""

_USE = """

@fast_op("demo::scale")
def scale(x: Tensor) -> Tensor:
    return x * 2


@torch.library.register_fake("demo::scale")
def _(x):
    return torch.empty_like(x)
"""

RULE = Rule(
    code="OPS604",
    name="eager-bypass",
    severity=Severity.WARNING,
    summary="What a helper gives back calls the plain function, not the op, in eager mode.",
    why="Eager calls then never reach the dispatcher. Returning an input or a buffer raises "
    "nothing, so that an op which is broken under torch.compile appears to work; a formula given "
    "to register_autograd, a rule for autocast and kernels for other devices are passed by, and "
    "the two modes may give different results.",
    remedy="give back the op itself, and call it in both modes",
    of_project=check,
    hits=(
        _HEAD
        + """\
class Switch:
    def __init__(self, op, plain):
        self._op, self._plain = op, plain

    def __call__(self, *args):
        return self._op(*args) if torch.compiler.is_compiling() else self._plain(*args)


def fast_op(name):
    def put(function):
        op = torch.library.custom_op(name, function, mutates_args=())
        return Switch(op, function)

    return put
"""
        + _USE,
        _HEAD
        + """\
import functools


def fast_op(name):
    def put(function):
        op = torch.library.custom_op(name, function, mutates_args=())

        @functools.wraps(function)
        def run(*args):
            if torch.compiler.is_compiling():
                return op(*args)
            return function(*args)

        return run

    return put
"""
        + _USE,
        _HEAD
        + """\
from dataclasses import dataclass
from typing import Any


@dataclass
class Switch:
    op: Any
    plain: Any

    def __call__(self, *args):
        if not torch.compiler.is_compiling():
            return self.plain(*args)
        return self.op(*args)


def fast_op(name, function):
    op = torch.library.custom_op(name, function, mutates_args=())
    return Switch(op=op, plain=function)


def _scale(x: Tensor) -> Tensor:
    return x * 2


scale = fast_op("demo::scale", _scale)


@torch.library.register_fake("demo::scale")
def _(x):
    return torch.empty_like(x)
""",
    ),
    misses=(
        _HEAD
        + """\
def fast_op(name):
    def put(function):
        if not hasattr(torch.library, "custom_op"):
            return function
        return torch.library.custom_op(name, function, mutates_args=())

    return put
"""
        + _USE,
        _HEAD
        + """\
class Counted:
    def __init__(self, op, function):
        self.op, self.__wrapped__ = op, function
        self.calls = 0

    def __call__(self, *args):
        self.calls += 0 if torch.compiler.is_compiling() else 1
        return self.op(*args)


def fast_op(name):
    def put(function):
        op = torch.library.custom_op(name, function, mutates_args=())
        return Counted(op, function)

    return put
"""
        + _USE,
        _HEAD
        + """\
import functools

_HAS_OPS = hasattr(torch.library, "custom_op")


def fast_op(name):
    def put(function):
        op = torch.library.custom_op(name, function, mutates_args=()) if _HAS_OPS else None

        @functools.wraps(function)
        def run(*args):
            return op(*args) if _HAS_OPS else function(*args)

        return run

    return put
"""
        + _USE,
        _HEAD
        + """\
def fast_op(name):
    def put(function):
        torch.library.custom_op(name, function, mutates_args=())
        return function

    return put
"""
        + _USE,
    ),
)
