"""Sequences with one entry for each argument of an op: what their uses become without one slot.

``inputs`` of a setup_context, ``ctx.needs_input_grad``, ``in_dims`` of a vmap rule and ``args`` of
a torch_dispatch rule are such sequences (FACTS sections 3 and 4).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from opscaffold.migrate.attached_change import AnyFunction, FunctionChange
from opscaffold.migrate.refusal import RefusalError
from opscaffold.source.model import Module

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_READERS = frozenset({"locals", "vars", "eval", "exec"})


class _UnclearError(Exception):
    """A use of a sequence that need not keep its meaning."""

    def __init__(self, node: ast.expr) -> None:
        super().__init__()
        self.node = node


@dataclass(frozen=True, slots=True)
class Slots:
    """One function that is handed such sequences.

    ``what`` names the sequence to people, ``slot`` the position that goes. ``filled`` says that
    there is an entry for every argument; else the last ones may be missing, as PyTorch leaves out
    what equals its default; ``absent`` that the slot is never there then, because it is the last of
    those. ``whole`` are functions that may be given all of it, whatever its
    length; ``starred`` are names of functions that may be given it as ``*args``.
    """

    module: Module
    function: AnyFunction
    change: FunctionChange
    what: str
    buffer: str
    slot: int
    filled: bool
    absent: bool = False
    whole: frozenset[str] = frozenset()
    starred: frozenset[str] = frozenset()

    def drop_from_name(self, name: str, count: int) -> None:
        """Take the slot out of every use of a parameter. Raises RefusalError for unclear uses."""
        refuse_hidden_names(self.module, self.function, {name})
        uses = uses_of(self.function, name)
        stores = [n for n in uses if not isinstance(n.ctx, ast.Load)]
        if stores and self.absent:
            return
        if stores:
            raise self._refusal(stores[0])
        for node in uses:
            self.drop_from(node, list(range(count)))

    def drop_from(self, expr: ast.expr, old: list[int]) -> None:
        """Take the slot out of one use of the sequence, ``expr``; it holds the entries ``old``."""
        try:
            self._drop_from(expr, old)
        except _UnclearError as unclear:
            if not self.absent:
                raise self._refusal(unclear.node) from None

    def _drop_from(self, expr: ast.expr, old: list[int]) -> None:
        parent = self.module.parents[expr]
        match parent:
            case ast.Assign(targets=[ast.Tuple() | ast.List() as target], value=value) if (
                value is expr
            ):
                self._unpacked(parent, target, old)
            case ast.Assign(targets=[ast.Name() as target], value=value) if value is expr:
                self._renamed(target, old)
            case ast.Subscript(value=value, ctx=ast.Load()) if value is expr:
                self._subscript(parent, old)
            case ast.Call(func=ast.Name(id=called), args=[argument], keywords=[]) if (
                argument is expr and called in self.whole
            ):
                return
            case ast.Starred(value=value) if value is expr and self._may_be_starred(parent):
                return
            case ast.Expr():
                return
            case _:
                raise _UnclearError(expr)

    def refuse_use(self, expr: ast.expr) -> RefusalError:
        """The refusal for an entry of the buffer that is put to use."""
        text = ast.unparse(expr)
        what = (
            f"`{text}`" if text == self.buffer else f"`{text}`, which stands for `{self.buffer}`,"
        )
        return RefusalError(
            expr,
            f"{what} is used here, and the functional op has no such argument",
            f"leave `{self.buffer}` out of the registered function",
            self.module,
        )

    def take_buffer(self, expr: ast.expr) -> None:
        """Remove an expression that is the buffer itself. Raises RefusalError where it is used."""
        parent = self.module.parents[expr]
        match parent:
            case ast.Assign(targets=[ast.Name(id=name)]) if not self._is_read(name):
                self.change.remove(parent)
            case ast.Expr():
                self.change.remove(parent)
            case _:
                raise self.refuse_use(expr)

    def _may_be_starred(self, starred: ast.Starred) -> bool:
        call = self.module.parents[starred]
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return False
        return call.func.id in self.starred and call.args == [starred]

    def _unpacked(
        self, statement: ast.Assign, target: ast.Tuple | ast.List, old: list[int]
    ) -> None:
        if self.slot not in old:
            return
        place = old.index(self.slot)
        stars = [i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)]
        count = len(target.elts)
        if not stars:
            if count > len(old) or (self.filled and count != len(old)):
                raise _UnclearError(target)
            if place < count:
                self._drop_target(statement, target, place)
            return
        star, behind = stars[0], count - stars[0] - 1
        if behind and not self.filled:
            raise _UnclearError(target)
        if star + behind > len(old):
            raise _UnclearError(target)
        if place < star:
            self._drop_target(statement, target, place)
        elif place >= len(old) - behind:
            self._drop_target(statement, target, count - (len(old) - place))
        else:
            inner = target.elts[star]
            name = inner.value if isinstance(inner, ast.Starred) else inner
            if not isinstance(name, ast.Name):
                raise _UnclearError(target)
            if self._is_read(name.id):
                self._renamed(name, old[star : len(old) - behind])

    def _drop_target(self, statement: ast.Assign, target: ast.Tuple | ast.List, index: int) -> None:
        element = target.elts[index]
        if not isinstance(element, ast.Name):
            raise _UnclearError(target)
        if self._is_read(element.id):
            raise self.refuse_use(element)
        if len(target.elts) == 1:
            self.change.remove(statement)
        else:
            self.change.drop_element(target, index)

    def _renamed(self, target: ast.Name, old: list[int]) -> None:
        """Follow another name for the sequence, which must be bound once."""
        if self.slot not in old:
            return
        refuse_hidden_names(self.module, self.function, {target.id})
        uses = uses_of(self.function, target.id)
        stores = [n for n in uses if not isinstance(n.ctx, ast.Load)]
        if len(stores) != 1 or target.id in _parameters(self.function):
            raise _UnclearError(target)
        for node in uses:
            if isinstance(node.ctx, ast.Load):
                self.drop_from(node, old)

    def _subscript(self, node: ast.Subscript, old: list[int]) -> None:
        if self.slot not in old:
            return
        if isinstance(node.slice, ast.Slice):
            self._sliced(node, node.slice, old)
            return
        index = _integer(node.slice)
        if index is None or not -len(old) <= index < len(old) or (index < 0 and not self.filled):
            raise _UnclearError(node)
        entry, place = old[index], old.index(self.slot)
        if entry == self.slot:
            self.take_buffer(node)
        elif index >= 0 and index > place:
            self.change.set_text(node.slice, str(index - 1))
        elif index < 0 and index + len(old) < place:
            self.change.set_text(node.slice, str(index + 1))

    def _sliced(self, node: ast.Subscript, piece: ast.Slice, old: list[int]) -> None:
        place = old.index(self.slot)
        ends = (piece.lower, piece.upper)
        values = [None if end is None else _integer(end) for end in ends]
        unclear = any(e is not None and v is None for e, v in zip(ends, values, strict=True))
        negative = any(v is not None and v < 0 for v in values)
        if unclear or piece.step is not None or (negative and not self.filled):
            raise _UnclearError(node)
        part = old[values[0] : values[1]]
        for end, value in zip(ends, values, strict=True):
            if end is None or value is None:
                continue
            at = min(max(value + len(old) if value < 0 else value, 0), len(old))
            if value >= 0 and at > place and value <= len(old):
                self.change.set_text(end, str(value - 1))
            elif value < 0 and at <= place:
                new = value + 1
                self.change.set_text(end, str(new) if new < 0 else str(at))
        if self.slot in part:
            self.drop_from(node, part)

    def _is_read(self, name: str) -> bool:
        return any(isinstance(n.ctx, ast.Load | ast.Del) for n in uses_of(self.function, name)) or (
            any(
                isinstance(n, ast.Global | ast.Nonlocal) and name in n.names
                for n in ast.walk(self.function)
            )
        )

    def _refusal(self, node: ast.expr) -> RefusalError:
        return RefusalError(
            node,
            f"`{self.what}` has an entry for `{self.buffer}`, and what this use of it becomes "
            "without that entry cannot be told",
            f"unpack `{self.what}` into names, or index it with numbers",
            self.module,
        )


def uses_of(function: AnyFunction, name: str) -> list[ast.Name]:
    """Every use of a name inside a function, in inner functions as well."""
    body: list[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else [*function.body]
    return [n for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name]


def refuse_hidden_names(module: Module, function: AnyFunction, names: set[str]) -> None:
    """Raise RefusalError where a name may mean something else inside, or be read unseen."""
    for node in ast.walk(function):
        hidden: ast.AST | None = None
        match node:
            case ast.Name(id=reader, ctx=ast.Load()) if reader in _READERS:
                hidden = node
            case ast.Global(names=bound) | ast.Nonlocal(names=bound) if names & set(bound):
                hidden = node
            case ast.comprehension(target=target):
                bound_here = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                hidden = target if names & bound_here else None
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() if node is not function:
                hidden = node if names & set(_parameters(node)) else None
        if hidden is not None:
            raise RefusalError(
                hidden,
                f"`{min(names)}` is read or bound in an inner scope here, so its uses cannot "
                "be told apart",
                "use another name there",
                module,
            )


def _parameters(function: AnyFunction) -> list[str]:
    return [a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)]


def _integer(expr: ast.expr) -> int | None:
    match expr:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return None
