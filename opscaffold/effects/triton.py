"""What a Triton kernel does to the memory behind its parameters.

Stores and atomic operations through a pointer change what it points to. Pointers are followed
through arithmetic, block pointers, local names and helper functions under ``@triton.jit``; what
goes to code out of sight stays unknown.
"""

from __future__ import annotations

import ast
import builtins
import enum
from collections.abc import Iterable, Iterator, Mapping

from opscaffold.effects.trace import FunctionNode, Names

_LANGUAGE = "triton.language."
_DEPTH = 4  # helper functions followed below one another
# Hand on the pointer that is their first argument.
_POINTERS = frozenset(
    {"make_block_ptr", "advance", "make_tensor_descriptor", "multiple_of", "max_contiguous"}
    | {"max_constancy", "broadcast_to", "reshape", "view", "expand_dims", "cast"}
    | {"_experimental_make_tensor_descriptor", "ravel", "trans", "permute"}
)
_METHODS = frozenset({"to", "expand_dims", "reshape", "view", "broadcast_to"})
_OUT_OF_SIGHT = ("extra.", "inline_asm")


class Access(enum.Enum):
    """What is done through a pointer."""

    STORE = "store"
    ATOMIC = "atomic"
    UNKNOWN = "unknown"


def is_jit(function: ast.AST, names: Names) -> bool:
    """Whether a function is a Triton kernel, or a helper of one."""
    for decorator in getattr(function, "decorator_list", ()):
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        if names.dotted(node) in {"triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit"}:
            return True
    return False


def accesses(
    function: FunctionNode, names: Names, stack: tuple[ast.AST, ...] = ()
) -> dict[str, set[Access]]:
    """What is done through each parameter; one that is only read, or no pointer, has no entry."""
    kernel = _Kernel(function, names, (*stack, function))
    found: dict[str, set[Access]] = {}
    for node in _nodes(function):
        for parameter, access in kernel.done_by(node):
            found.setdefault(parameter, set()).add(access)
    return found


class _Kernel:
    """One kernel. ``roots`` holds the parameters that each local name may be made of."""

    def __init__(self, function: FunctionNode, names: Names, stack: tuple[ast.AST, ...]) -> None:
        self.names, self.stack = names, stack
        self._returns: dict[ast.AST, frozenset[str]] = {}
        spec = function.args
        every = (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)
        self.roots: dict[str, frozenset[str]] = {a.arg: frozenset({a.arg}) for a in every}
        size = -1
        while size != (size := sum(map(len, self.roots.values()))):
            for node in _nodes(function):
                self.learn(node)

    def learn(self, node: ast.AST) -> None:
        """Take in what an assignment says of names."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, value)
            case ast.AugAssign(target=target, value=value):
                self.assign(target, value)
            case ast.NamedExpr(target=target, value=value):
                self.assign(target, value)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Let the names of a target stand for what a value is made of."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, other in zip(target.elts, value.elts, strict=False):
                self.assign(one, other)
            return
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                self.roots[name.id] = self.roots.get(name.id, frozenset()) | self.of(value)

    def of(self, expr: ast.expr) -> frozenset[str]:
        """The parameters that a pointer may be made of."""
        match expr:
            case ast.Name(id=name):
                return self.roots.get(name, frozenset())
            case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
                return self.of(left) | self.of(right)
            case ast.IfExp(body=body, orelse=orelse):
                return self.of(body) | self.of(orelse)
            case ast.Subscript(value=value) | ast.NamedExpr(value=value):
                return self.of(value)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return frozenset[str]().union(*map(self.of, elts))
            case ast.Call(func=func):
                return self.of_call(expr, func)
        return frozenset()

    def of_call(self, expr: ast.Call, func: ast.expr) -> frozenset[str]:
        name = self.language(func)
        if name is not None:
            picked = expr.args[1:3] if name == "where" else expr.args[:1]
            picked += [k.value for k in expr.keywords if k.arg in {"base", "x", "y", "input"}]
            known = name == "where" or name in _POINTERS
            return frozenset[str]().union(*map(self.of, picked)) if known else frozenset()
        if isinstance(func, ast.Attribute) and func.attr in _METHODS:
            return self.of(func.value)
        if isinstance(func, ast.Name) and hasattr(builtins, func.id):
            return frozenset()
        return self.handed_back(expr)

    def handed_back(self, call: ast.Call) -> frozenset[str]:
        """The parameters of which a helper in sight makes the pointer that it returns.

        What a helper out of sight is given counts as touched in an unknown way already.
        """
        found = self.names.function(call.func)
        bound = None if found is None else bound_to(call, found[0])
        within = found is not None and is_jit(*found) and found[0] not in self.stack
        if found is None or bound is None or not within or len(self.stack) >= _DEPTH:
            return frozenset()
        function, names = found
        if function not in self._returns:
            inner = _Kernel(function, names, (*self.stack, function))
            values = [n.value for n in _nodes(function) if isinstance(n, ast.Return) and n.value]
            self._returns[function] = frozenset[str]().union(*map(inner.of, values))
        given = (bound[p] for p in self._returns[function] if p in bound)
        return frozenset[str]().union(*map(self.of, given))

    def language(self, func: ast.expr) -> str | None:
        """The name of a function of ``triton.language``."""
        dotted = self.names.dotted(func) or ""
        return dotted.removeprefix(_LANGUAGE) if dotted.startswith(_LANGUAGE) else None

    def done_by(self, node: ast.AST) -> Iterator[tuple[str, Access]]:
        """What a node does through which parameters."""
        if not isinstance(node, ast.Call):
            return
        name = self.language(node.func)
        if name is not None:
            access = _access(name)
            given: Iterable[ast.expr] = _arguments(node)
            if access in {Access.STORE, Access.ATOMIC}:
                given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "pointer")]
        elif isinstance(node.func, ast.Attribute) and self.names.function(node.func) is None:
            owner, method = node.func.value, node.func.attr
            access = _access(method)
            given = [owner] if access is not None else []
        else:
            yield from self.done_by_helper(node)
            return
        if access is not None:
            yield from ((root, access) for part in given for root in sorted(self.of(part)))

    def done_by_helper(self, node: ast.Call) -> Iterator[tuple[str, Access]]:
        found = self.names.function(node.func)
        if found is None and isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id):
            return
        bound = None if found is None else bound_to(node, found[0])
        within = found is not None and is_jit(*found) and found[0] not in self.stack
        if found is None or bound is None or not within or len(self.stack) >= _DEPTH:
            for part in _arguments(node):
                yield from ((root, Access.UNKNOWN) for root in sorted(self.of(part)))
            return
        for parameter, kinds in accesses(*found, self.stack).items():
            if parameter in bound:
                for root in sorted(self.of(bound[parameter])):
                    yield from ((root, access) for access in sorted(kinds, key=lambda a: a.value))


def bound_to(node: ast.Call, function: FunctionNode) -> Mapping[str, ast.expr] | None:
    """The arguments of a call by parameter; None where they are not all written out.

    Parameters that the call leaves out, and options that are none, are of no concern here.
    """
    if any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords
    ):
        return None
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if len(node.args) > len(names):
        return None
    bound = dict(zip(names, node.args, strict=False))
    bound.update({k.arg or "": k.value for k in node.keywords})
    return bound


def _access(name: str) -> Access | None:
    last = name.rpartition(".")[2]
    if any(part in name for part in _OUT_OF_SIGHT):
        return Access.UNKNOWN
    if last.startswith("atomic_"):
        return Access.ATOMIC
    return Access.STORE if last == "store" or last.endswith("descriptor_store") else None


def _arguments(node: ast.Call) -> list[ast.expr]:
    given = [a.value if isinstance(a, ast.Starred) else a for a in node.args]
    return given + [k.value for k in node.keywords]


def _nodes(function: FunctionNode) -> list[ast.AST]:
    return [n for statement in function.body for n in ast.walk(statement)]
