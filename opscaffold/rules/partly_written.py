"""Buffers of out= ops that a kernel surely leaves as they were, in part or on some path."""

from __future__ import annotations

import ast

from opscaffold.effects.trace import MUTATIONS, Effect, Event
from opscaffold.patterns import pattern
from opscaffold.rules.functions import own_nodes
from opscaffold.rules.kernels import Kernel

_LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.comprehension)
_PARTS = frozenset({"select", "narrow", "diagonal"})
# A buffer without elements need not be written to.
_SIZES = pattern(r"numel|nelement|shape|size|len\(|ndim|\bdim\(")


def only_part(kernel: Kernel, events: list[Event], out: str) -> ast.AST | None:
    """The one write to a buffer, where it surely leaves some of it as it was."""
    written = {e.node for e in events if e.effect in MUTATIONS}
    if len(written) != 1 or _goes_elsewhere(events):
        return None
    node = next(iter(written))
    if _in_loop(kernel, node):
        return None
    if any(_is_part(place, out) for place in _places(node)) or _is_same_part(kernel, node, out):
        return node
    return None


def skipped(kernel: Kernel, events: list[Event], out: str) -> ast.AST | None:
    """A way out of the kernel that leaves all of a buffer as it was, where others write to it."""
    written = [e.node for e in events if e.effect in MUTATIONS]
    if not written or _goes_elsewhere(events) or any(_in_loop(kernel, n) for n in written):
        return None
    tests = [n.test for n in own_nodes(kernel.function) if isinstance(n, ast.If | ast.IfExp)]
    if any(_SIZES.search(ast.unparse(test)) for test in tests):
        return None
    for returned in kernel.effects.trace.returns:
        exact = any(r.root == f"param:{out}" for r in returned.value.all_refs())
        if exact and f"param:{out}" not in returned.mutated:
            return returned.node or kernel.function
    return None


def _goes_elsewhere(events: list[Event]) -> bool:
    unsure = any(e.effect in MUTATIONS and not (e.sure and e.known) for e in events)
    return unsure or any(e.effect in {Effect.OPAQUE, Effect.KEEP} for e in events)


def _in_loop(kernel: Kernel, node: ast.AST) -> bool:
    around: ast.AST | None = node
    while around is not None and around is not kernel.function:
        if isinstance(around, _LOOPS):
            return True
        around = kernel.module.parents.get(around)
    return False


def _places(node: ast.AST) -> list[ast.expr]:
    """The expressions that a statement or call may write to."""
    match node:
        case ast.Call(func=func):
            places = [k.value for k in node.keywords if k.arg == "out"]
            return [func.value, *places] if isinstance(func, ast.Attribute) else places
        case ast.AugAssign(target=target):
            return [target]
        case ast.expr():
            return [node]
    return []


def _is_part(place: ast.expr, out: str) -> bool:
    match place:
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            return name == out and _constant_part(index)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
            return name == out and attr in _PARTS
    return False


def _is_same_part(kernel: Kernel, node: ast.AST, out: str) -> bool:
    """Whether a part is written that leaves out some of what it counts: ``out[: n // 2]``.

    The count must be the buffer's own, or that of what the same part is taken of.
    """
    match node, kernel.module.parents.get(node):
        case (
            ast.Subscript(value=ast.Name(id=name), slice=index),
            ast.Assign(value=value),
        ) if name == out and any(_is_reduced(n) for n in ast.walk(index)):
            if any(isinstance(n, ast.Name) and n.id == out for n in ast.walk(index)):
                return True
            same = ast.dump(index)
            return any(
                isinstance(n, ast.Subscript) and ast.dump(n.slice) == same for n in ast.walk(value)
            )
    return False


def _is_reduced(bound: ast.AST) -> bool:
    """Whether a bound of a slice is surely less than what it is computed of."""
    if not isinstance(bound, ast.Slice) or bound.step is not None:
        return False
    match bound.upper:
        case ast.BinOp(op=ast.FloorDiv(), right=ast.Constant(value=int(number))):
            return bound.lower is None and number > 1
        case ast.BinOp(op=ast.Sub(), right=ast.Constant(value=int(number))):
            return number > 0
    return False


def _constant_part(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    for part in parts:
        if isinstance(part, ast.Slice):
            bounds = [b for b in (part.lower, part.upper, part.step) if b is not None]
            if any(isinstance(b, ast.Constant) and b.value not in (0, 1, None) for b in bounds):
                return True
            if isinstance(part.lower, ast.Constant) and part.lower.value == 1:
                return True
        elif isinstance(part, ast.Constant) and isinstance(part.value, int):
            return True
    return False
