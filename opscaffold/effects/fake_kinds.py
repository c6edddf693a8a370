"""Which expressions a fake kernel may evaluate: metadata, and tensors made from metadata."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Mapping

from opscaffold.effects import aten
from opscaffold.effects.trace import FunctionNode

_TORCH_METADATA = frozenset(
    {"promote_types", "result_type", "broadcast_shapes", "Size", "device", "finfo", "iinfo"}
    | {"is_tensor", "is_floating_point", "is_complex", "can_cast", "get_default_dtype", "numel"}
    | {"is_grad_enabled", "is_autocast_enabled", "sym_int", "sym_max", "sym_min", "sym_not"}
)
_BUILTINS = frozenset(
    {"int", "float", "bool", "len", "max", "min", "abs", "sum", "range", "tuple", "list", "round"}
    | {"isinstance", "divmod", "sorted", "zip", "enumerate", "reversed", "all", "any", "str"}
    | {"pow", "hasattr", "type"}
)


class KindOf(enum.Enum):
    """What an expression of a fake kernel is."""

    METADATA = "metadata"
    TENSOR = "tensor"
    LIST = "list of metadata"
    UNSAFE = "unsafe"


class FakeKinds:
    """Classifies expressions, given the kinds of the local names.

    ``dotted`` gives a name's origin where it is an import (``torch``, ``math``); ``constant``
    says whether a global name stands for a plain constant; ``function`` gives the function of
    the project that an expression denotes, with the classifier of the names it sees.
    """

    def __init__(
        self,
        dotted: Callable[[ast.expr], str | None],
        constant: Callable[[str], bool],
        function: Callable[[ast.expr], tuple[FunctionNode, FakeKinds] | None] = lambda _: None,
    ) -> None:
        self.dotted = dotted
        self.constant = constant
        self.function = function

    def kind(self, expr: ast.expr, env: Mapping[str, KindOf]) -> KindOf:
        """Classify an expression."""
        match expr:
            case ast.Constant() | ast.JoinedStr():
                return KindOf.METADATA
            case ast.Name():
                return self._name(expr, env)
            case ast.Attribute():
                return self._attribute(expr, env)
            case ast.Call():
                return self._call(expr, env)
            case ast.Subscript():
                # A mask as index: the size of the result depends on its values.
                if self.kind(expr.slice, env) is KindOf.TENSOR:
                    return KindOf.UNSAFE
                return self._all([expr.value, expr.slice], env)
            case ast.IfExp():
                if self.kind(expr.test, env) is not KindOf.METADATA:
                    return KindOf.UNSAFE
                return self._all([expr.body, expr.orelse], env)
            case ast.BoolOp():
                kinds = {self.kind(v, env) for v in expr.values}
                return KindOf.METADATA if kinds == {KindOf.METADATA} else KindOf.UNSAFE
            case ast.BinOp():
                return self._all([expr.left, expr.right], env)
            case ast.UnaryOp():
                kind = self.kind(expr.operand, env)
                if isinstance(expr.op, ast.Not) and kind is KindOf.TENSOR:
                    return KindOf.UNSAFE
                return kind
            case ast.Compare():
                if all(isinstance(op, ast.Is | ast.IsNot) for op in expr.ops):
                    kind = self._all([expr.left, *expr.comparators], env)
                    return kind if kind is KindOf.UNSAFE else KindOf.METADATA
                return self._all([expr.left, *expr.comparators], env)
            case ast.Tuple() | ast.List():
                return self._all(expr.elts, env)
            case ast.Starred():
                return self.kind(expr.value, env)
            case ast.Slice():
                parts = [p for p in (expr.lower, expr.upper, expr.step) if p is not None]
                return self._all(parts, env)
            case ast.ListComp() | ast.GeneratorExp():
                return self._comprehension(expr, env)
        return KindOf.UNSAFE

    def _all(self, parts: list[ast.expr], env: Mapping[str, KindOf]) -> KindOf:
        kinds = {self.kind(part, env) for part in parts}
        if KindOf.UNSAFE in kinds:
            return KindOf.UNSAFE
        return KindOf.TENSOR if KindOf.TENSOR in kinds else KindOf.METADATA

    def _name(self, expr: ast.Name, env: Mapping[str, KindOf]) -> KindOf:
        if expr.id in env:
            return env[expr.id]
        if self.constant(expr.id) or self._is_torch_constant(expr):
            return KindOf.METADATA
        return KindOf.UNSAFE

    def _is_torch_constant(self, expr: ast.expr) -> bool:
        dotted = self.dotted(expr)
        return dotted is not None and (
            dotted.startswith("torch.") or dotted in {"math.inf", "math.pi"}
        )

    def _attribute(self, expr: ast.Attribute, env: Mapping[str, KindOf]) -> KindOf:
        if self._is_torch_constant(expr):
            return KindOf.METADATA
        owner = self.kind(expr.value, env)
        if owner is not KindOf.TENSOR:
            return owner
        if expr.attr in aten.METADATA_ATTRIBUTES:
            return KindOf.METADATA
        return KindOf.TENSOR if expr.attr in aten.VIEW_ATTRIBUTES else KindOf.UNSAFE

    def _call(self, expr: ast.Call, env: Mapping[str, KindOf]) -> KindOf:
        arguments = self._all([*expr.args, *(k.value for k in expr.keywords)], env)
        if arguments is KindOf.UNSAFE or any(k.arg == "out" for k in expr.keywords):
            return KindOf.UNSAFE
        dotted = self.dotted(expr.func)
        if dotted is not None:
            return self._dotted_call(dotted, arguments)
        called = self.function(expr.func)
        if called is not None:
            return self._project_call(expr, called, env)
        match expr.func:
            case ast.Name(id="list" | "tuple" as name) if (
                arguments is KindOf.TENSOR and name not in env
            ):
                made = isinstance(expr.args[0], ast.Call | ast.ListComp | ast.GeneratorExp)
                return KindOf.TENSOR if made else KindOf.UNSAFE
            case ast.Name(id=name) if name in _BUILTINS and name not in env:
                metadata = arguments is KindOf.METADATA or name in {"len", "isinstance", "type"}
                return KindOf.METADATA if metadata else KindOf.UNSAFE
            case ast.Attribute(value=owner, attr=name):
                kind = self.kind(owner, env)
                return self._method(name) if kind is KindOf.TENSOR else kind
        return KindOf.UNSAFE

    def _project_call(
        self,
        expr: ast.Call,
        called: tuple[FunctionNode, FakeKinds],
        env: Mapping[str, KindOf],
    ) -> KindOf:
        """A call of a plain function of the project: what all its returns are."""
        function, kinds = called
        spec = function.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        if spec.vararg or spec.kwarg or function.decorator_list or len(expr.args) > len(names):
            return KindOf.UNSAFE
        inner = {a.arg: KindOf.METADATA for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
        inner |= {n: self.kind(a, env) for n, a in zip(names, expr.args, strict=False)}
        inner |= {k.arg or "": self.kind(k.value, env) for k in expr.keywords}
        returned = kinds.body(function.body, inner)
        return next(iter(returned)) if len(returned) == 1 else KindOf.UNSAFE

    def body(self, body: list[ast.stmt], env: dict[str, KindOf]) -> set[KindOf]:
        """What the returns of a body are; UNSAFE among them where a statement is not plain."""
        found: set[KindOf] = set()
        for node in body:
            match node:
                case ast.Return(value=ast.expr() as value):
                    return found | {self.kind(value, env)}
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    env[name] = self.kind(value, env)
                case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value):
                    kind = self.kind(value, env)
                    env |= {e.id: kind for e in elements if isinstance(e, ast.Name)}
                case ast.If(test=test):
                    if self.kind(test, env) is not KindOf.METADATA:
                        return {KindOf.UNSAFE}
                    found |= self.body(node.body, env) | self.body(node.orelse, env)
                case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Raise() | ast.Assert():
                    continue
                case _:
                    return {KindOf.UNSAFE}
        return found

    def _dotted_call(self, dotted: str, arguments: KindOf) -> KindOf:
        root, _, name = dotted.rpartition(".")
        if root == "math":
            return arguments if arguments is KindOf.METADATA else KindOf.UNSAFE
        if root.split(".")[0] != "torch" or root.startswith("torch.ops"):
            return KindOf.UNSAFE
        if name in _TORCH_METADATA:
            return KindOf.METADATA
        return self._method(name) if name not in aten.METADATA_METHODS else KindOf.METADATA

    def _method(self, name: str) -> KindOf:
        if name in aten.METADATA_METHODS:
            return KindOf.METADATA
        if aten.is_dynamic(name) or aten.is_inplace(name) or not aten.is_known(name):
            return KindOf.UNSAFE
        return KindOf.TENSOR

    def _comprehension(
        self, expr: ast.ListComp | ast.GeneratorExp, env: Mapping[str, KindOf]
    ) -> KindOf:
        scope = dict(env)
        for generator in expr.generators:
            kind = self.kind(generator.iter, scope)
            if kind is KindOf.UNSAFE:
                return kind
            for node in ast.walk(generator.target):
                if isinstance(node, ast.Name):
                    scope[node.id] = kind
            if any(self.kind(t, scope) is not KindOf.METADATA for t in generator.ifs):
                return KindOf.UNSAFE
        return self.kind(expr.elt, scope)


def constants_of(tree: ast.Module) -> set[str]:
    """Names that a module binds once, to a number, a string or the like."""
    bound: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.setdefault(node.id, []).append(node)
    found = set()
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if len(bound[name]) == 1 and is_constant(value):
                    found.add(name)
    return found


def is_constant(value: ast.expr) -> bool:
    """Whether an expression is made of literals alone."""
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        return isinstance(value, ast.BinOp) and is_constant(value.left) and is_constant(value.right)
    return True
