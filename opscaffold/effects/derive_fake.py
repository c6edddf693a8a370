"""Deriving a fake kernel from a functional kernel: its allocations, and what leads to them.

Only branches on metadata are followed; in-place work on what was allocated is left out, since
it changes no metadata. PyTorch's rule for fake kernels: metadata only, same shape, dtype,
device, strides (torch.library reference).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from opscaffold.effects import aten
from opscaffold.effects.fake_kinds import FakeKinds, KindOf
from opscaffold.effects.kept_text import Printer

_HARMLESS_CONTEXTS = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.cuda.device"}
    | {"torch.set_grad_enabled", "torch.profiler.record_function", "torch.device"}
    | {"torch.autograd.profiler.record_function", "torch.cuda.stream", "torch.cuda.nvtx.range"}
    | {"torch.accelerator.device_index", "contextlib.nullcontext"}
)


class UnderivableError(Exception):
    """No fake follows from the kernel; the text says which part stands in the way."""


def derive_fake(code: str, tensors: Iterable[str], kinds: FakeKinds) -> list[str]:
    """Derive the body of a fake kernel from the code of a functional kernel.

    ``code`` holds one function definition at the left margin; ``tensors`` names its Tensor
    parameters. Returns lines without indentation of their own block. Raises UnderivableError.
    """
    function = ast.parse(code).body[0]
    if not isinstance(function, ast.FunctionDef):
        raise UnderivableError("it is not a plain function")
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    tensor_names = set(tensors)
    env = {n: KindOf.TENSOR if n in tensor_names else KindOf.METADATA for n in names}
    _refuse_grown(function, kinds)
    _WithoutWrites(kinds).visit(function)
    forward = _Before(kinds)
    forward.block(function.body, dict(env))
    body, _ = _Slicer(kinds, forward.before).block(function.body, set())
    if not any(isinstance(n, ast.Return) and n.value for s in body for n in ast.walk(s)):
        raise UnderivableError("it returns nothing that was allocated in sight")
    _Checker(kinds).block(body, env)
    return Printer(code).block(_simplified(body))


class _WithoutWrites(ast.NodeTransformer):
    """Replaces what writes into memory and returns it by that memory: metadata stays the same."""

    def __init__(self, kinds: FakeKinds) -> None:
        self.kinds = kinds

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """``torch.add(x, y, out=buffer)`` and ``buffer.add_(x)`` are ``buffer`` to a fake."""
        self.generic_visit(node)
        dotted = self.kinds.dotted(node.func)
        if dotted is not None and dotted.startswith("torch."):
            out = next((k.value for k in node.keywords if k.arg == "out"), None)
            return node if out is None or isinstance(out, ast.Tuple) else out
        if isinstance(node.func, ast.Attribute) and dotted is None:
            name = node.func.attr
            if aten.is_inplace(name) and not aten.is_reshaping(name):
                return node.func.value
        return node


class _Slicer:
    """Keeps, from the end backwards, what the returns need."""

    def __init__(self, kinds: FakeKinds, before: Mapping[ast.stmt, Mapping[str, KindOf]]) -> None:
        self.kinds = kinds
        self.before = before

    def block(self, body: list[ast.stmt], needed: set[str]) -> tuple[list[ast.stmt], set[str]]:
        kept: list[ast.stmt] = []
        for statement in reversed(body):
            part, needed = self.statement(statement, needed)
            kept[:0] = part
        return kept, needed

    def statement(self, node: ast.stmt, needed: set[str]) -> tuple[list[ast.stmt], set[str]]:
        match node:
            case ast.Return():
                return [node], _loads(node.value) if node.value else set()
            case ast.Raise():
                return [node], _loads(node)
            case ast.Assign() | ast.AnnAssign():
                return self.assignment(node, needed)
            case ast.AugAssign() | ast.Delete() | ast.Expr():
                return self.change(node, needed)
            case ast.If():
                return self.branch(node, needed)
            case ast.With():
                return self.context(node, needed)
            case ast.Import() | ast.ImportFrom():
                bound = {(a.asname or a.name).split(".")[0] for a in node.names}
                return ([node], needed - bound) if bound & needed else ([], needed)
            case ast.FunctionDef() | ast.ClassDef() if node.name not in needed:
                return [], needed
            case ast.Assert() | ast.Pass():
                return [], needed
        if self.touches(node, needed):
            raise UnderivableError(f"what it returns is settled inside `{_head(node)}`")
        return [], needed

    def assignment(
        self, node: ast.Assign | ast.AnnAssign, needed: set[str]
    ) -> tuple[list[ast.stmt], set[str]]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {n.id for t in targets for n in _plain_names(t)}
        if node.value is None:
            return [], needed
        if not names & needed:
            return self.change(node, needed)
        return [node], (needed - names) | _loads(node.value)

    def change(self, node: ast.stmt, needed: set[str]) -> tuple[list[ast.stmt], set[str]]:
        """What changes a value in place: it matters unless the value is a tensor."""
        for call in ast.walk(node):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                    if name in needed and aten.is_reshaping(method):
                        raise UnderivableError(f"`{ast.unparse(call)}` changes what was allocated")
        changed = self.changed(node) & needed
        if not changed:
            return [], needed
        if isinstance(node, ast.Delete) and any(isinstance(t, ast.Name) for t in node.targets):
            raise UnderivableError(f"what it returns is settled by `{_head(node)}`")
        return [node], needed | _loads(node)

    def branch(self, node: ast.If, needed: set[str]) -> tuple[list[ast.stmt], set[str]]:
        if not self.touches(node, needed):
            return [], needed
        then, before = self.block(node.body, set(needed))
        other, otherwise = self.block(node.orelse, set(needed))
        kept = ast.If(node.test, then or [ast.Pass()], other)
        ast.copy_location(kept, node)
        return [kept], before | otherwise | _loads(node.test) | needed - _stores(node)

    def context(self, node: ast.With, needed: set[str]) -> tuple[list[ast.stmt], set[str]]:
        if not self.touches(node, needed):
            return [], needed
        for item in node.items:
            call = item.context_expr
            func = call.func if isinstance(call, ast.Call) else call
            if self.kinds.dotted(func) not in _HARMLESS_CONTEXTS or item.optional_vars:
                raise UnderivableError(f"what it returns is settled inside `{_head(node)}`")
        return self.block(node.body, needed)

    def touches(self, node: ast.stmt, needed: set[str]) -> bool:
        """Whether a statement binds, changes or returns anything that is needed."""
        inner = [n for n in ast.walk(node) if isinstance(n, ast.stmt)]
        changed = set().union(*(self.changed(n) for n in inner))
        return bool((_stores(node) | changed) & needed) or _returns(node)

    def changed(self, node: ast.stmt) -> set[str]:
        """Names whose value, no tensor, a single statement may change in place."""
        roots: set[str] = set()
        match node:
            case ast.AugAssign(target=target):
                roots = _root(target)
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                roots = set().union(*(_root(t) for t in targets if not isinstance(t, ast.Name)))
            case ast.AnnAssign(target=ast.Subscript() | ast.Attribute() as target):
                roots = _root(target)
            case ast.Expr(value=ast.Call(func=func) as call):
                roots = _root(func.value) if isinstance(func, ast.Attribute) else set()
                if self.kinds.dotted(func) is None:
                    given = [*call.args, *(k.value for k in call.keywords)]
                    roots |= {a.id for a in given if isinstance(a, ast.Name)} & self.lists(node)
        env = self.before.get(node, {})
        return {name for name in roots if env.get(name) is not KindOf.TENSOR}

    def lists(self, node: ast.stmt) -> set[str]:
        """Names that stand for lists before a statement, as far as their values tell."""
        return {n for n, kind in self.before.get(node, {}).items() if kind is KindOf.LIST}


class _Before:
    """Notes what kind each name is before each statement, without holding it to anything."""

    def __init__(self, kinds: FakeKinds) -> None:
        self.kinds = kinds
        self.before: dict[ast.stmt, Mapping[str, KindOf]] = {}

    def block(self, body: list[ast.stmt], env: dict[str, KindOf]) -> dict[str, KindOf]:
        for node in body:
            self.before[node] = dict(env)
            match node:
                case ast.Assign(targets=targets, value=value):
                    kind = self.kind(value, env)
                    for name in (n for t in targets for n in _plain_names(t)):
                        env[name.id] = kind
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                    env[target] = self.kind(value, env)
                case ast.If():
                    then = self.block(node.body, dict(env))
                    other = self.block(node.orelse, dict(env))
                    env = _joined(then, other)
                case ast.With() | ast.For() | ast.While() | ast.Try():
                    env = self.block(node.body, env)
        return env

    def kind(self, value: ast.expr, env: Mapping[str, KindOf]) -> KindOf:
        made_list = isinstance(value, ast.List | ast.ListComp) or (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id in {"list", "sorted"}
        )
        kind = self.kinds.kind(value, env)
        return KindOf.LIST if made_list and kind is KindOf.METADATA else kind


class _Checker:
    """Holds every kept expression to what a fake kernel may do."""

    def __init__(self, kinds: FakeKinds) -> None:
        self.kinds = kinds

    def block(self, body: list[ast.stmt], env: dict[str, KindOf]) -> dict[str, KindOf]:
        for node in body:
            match node:
                case ast.Return(value=ast.expr() as value):
                    if self.need(value, env) is not KindOf.TENSOR:
                        raise UnderivableError(f"`{ast.unparse(value)}` is no tensor made in sight")
                case ast.Assign():
                    kind = self.need(node.value, env)
                    for target in node.targets:
                        for name in _plain_names(target):
                            env[name.id] = kind
                        if isinstance(target, ast.Subscript):
                            self.need(target, env)
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                    env[target] = self.need(value, env)
                case ast.AugAssign():
                    if self.need(node.value, env) is not KindOf.METADATA:
                        raise UnderivableError(f"`{ast.unparse(node)}` depends on values")
                case ast.Expr(value=ast.Call() as call):
                    for argument in (*call.args, *(k.value for k in call.keywords)):
                        self.need(argument, env)
                    if not isinstance(call.func, ast.Attribute):
                        raise UnderivableError(f"`{ast.unparse(call)}` may change what it is given")
                case ast.If():
                    if self.need(node.test, env) is not KindOf.METADATA:
                        raise UnderivableError(f"`{ast.unparse(node.test)}` depends on values")
                    then = self.block(node.body, dict(env))
                    other = self.block(node.orelse, dict(env))
                    env = _joined(then, other)
        return env

    def need(self, expr: ast.expr, env: Mapping[str, KindOf]) -> KindOf:
        kind = self.kinds.kind(expr, env)
        if kind is KindOf.UNSAFE:
            raise UnderivableError(f"`{ast.unparse(expr)}` cannot be told from metadata alone")
        return KindOf.METADATA if kind is KindOf.LIST else kind


def _joined(left: dict[str, KindOf], right: dict[str, KindOf]) -> dict[str, KindOf]:
    return {
        name: left[name] if left[name] is right[name] else KindOf.UNSAFE
        for name in left.keys() & right.keys()
    } | {name: kind for name, kind in (left | right).items() if (name in left) != (name in right)}


def _simplified(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return allocations directly, and merge branches that return the same."""
    result: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.If):
            node.body = _simplified(node.body)
            node.orelse = _simplified(node.orelse)
        result.append(node)
    match result:
        case [*rest, ast.Assign(targets=[ast.Name(id=name)], value=value), ast.Return() as last]:
            if isinstance(last.value, ast.Name) and last.value.id == name:
                direct = ast.copy_location(ast.Return(value), last)
                return _merged([*rest, direct])
    return _merged(result)


def _merged(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [*rest, ast.If(body=[ast.Return() as a], orelse=[]), ast.Return() as b] | [
            *rest,
            ast.If(body=[ast.Return() as a], orelse=[ast.Return() as b]),
        ]:
            if ast.dump(a) == ast.dump(b):
                return _merged([*rest, b])
    return body


def _plain_names(target: ast.expr) -> list[ast.Name]:
    if isinstance(target, ast.Name):
        return [target]
    if isinstance(target, ast.Tuple | ast.List):
        return [n for e in target.elts for n in _plain_names(e)]
    return []


def _loads(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _stores(node: ast.AST) -> set[str]:
    return {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _returns(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Return) for n in ast.walk(node))


def _root(target: ast.expr) -> set[str]:
    """The name that a target or receiver starts from."""
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    return {target.id} if isinstance(target, ast.Name) else set()


def _refuse_grown(function: ast.FunctionDef, kinds: FakeKinds) -> None:
    """Raise UnderivableError for memory of a constant size that an ``out=`` may make grow."""
    constant: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                if _is_constant_size(call, kinds):
                    constant.add(name)
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            value = keyword.value
            grows = isinstance(value, ast.Name) and value.id in constant
            grows = grows or (isinstance(value, ast.Call) and _is_constant_size(value, kinds))
            if keyword.arg == "out" and grows:
                raise UnderivableError(
                    f"`{ast.unparse(node.func)}` resizes memory of a constant size to its result"
                )


def _is_constant_size(call: ast.Call, kinds: FakeKinds) -> bool:
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if name.endswith("_like") or not aten.is_allocator(name):
        return False
    torch_call = kinds.dotted(func) is not None
    sizes = [n for a in call.args for n in ast.walk(a)]
    return torch_call and not any(isinstance(n, ast.Name | ast.Call) for n in sizes)


def _head(node: ast.stmt) -> str:
    return ast.unparse(node).splitlines()[0]
