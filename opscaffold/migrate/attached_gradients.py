"""What a backward formula returns, without the gradient of the buffer.

PyTorch wants a tuple with one gradient for each positional argument, or fewer where the last ones
were not passed; what is no tuple is the first gradient (FACTS section 3).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from opscaffold.effects import aten
from opscaffold.migrate.attached_change import AnyFunction, FunctionChange
from opscaffold.migrate.refusal import RefusalError
from opscaffold.rules.functions import own_nodes, positional_names, returned
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module

# Methods and functions of torch that return one tensor, beside those known to make one.
_ONE_TENSOR = frozenset(
    {"mul", "add", "sub", "div", "neg", "sum", "mean", "matmul", "mm", "bmm", "where", "exp", "log"}
    | {"pow", "sign", "sigmoid", "tanh", "cos", "sin", "clone", "contiguous", "to", "float", "half"}
    | {"t", "transpose", "permute", "reshape", "view", "view_as", "expand", "expand_as", "flatten"}
    | {"unsqueeze", "squeeze", "masked_fill", "index_add", "index_select", "gather", "square"}
    | {"scatter_add", "cat", "stack", "einsum", "outer", "detach", "type_as", "softmax", "flip"}
    | {"multiply", "subtract", "divide", "true_divide", "sqrt", "rsqrt", "reciprocal", "abs"}
    | {"double", "movedim", "roll", "cumsum", "cosh", "sinh", "relu", "clamp", "addmm", "negative"}
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a tuple that is written out: an element, or one that is repeated.

    ``count`` is the number of gradients it stands for, None where that is not written.
    """

    owner: ast.Tuple | ast.List
    index: int
    count: int | None
    times: ast.Constant | None = None
    starred: tuple[ast.Tuple | ast.List, int] | None = None


@dataclass(frozen=True, slots=True)
class Gradients:
    """The returns of one backward formula. ``slot`` is the buffer's place among the arguments."""

    module: Module
    names: ProjectNames
    function: AnyFunction
    change: FunctionChange
    buffer: str
    slot: int

    def drop(self) -> None:
        """Take the buffer's gradient out of every return. Raises RefusalError for unclear ones."""
        done: set[str] = set()
        for value in returned(self.function):
            self._drop(value, done)

    def _drop(self, value: ast.expr, done: set[str]) -> None:
        match value:
            case ast.IfExp(body=body, orelse=orelse):
                self._drop(body, done)
                self._drop(orelse, done)
                return
            case ast.Name(id=name) if name in done:
                return
            case ast.Name(id=name) if not self._is_one(value):
                done.add(name)
                self._drop(self._settled(value), done)
                return
            case ast.Call(
                func=ast.Name(id="tuple") as func, args=[ast.Tuple() | ast.List() as made]
            ):
                if self.names.dotted(func) == "builtins.tuple":
                    self._from_parts(value, self._parts(made), unwrap=False)
                    return
        if isinstance(value, ast.Constant) and value.value is None:
            self._first_only(value)
            return
        parts = self._parts(value)
        if parts is None or isinstance(value, ast.List):
            if not self._is_one(value):
                raise self._unclear(value)
            self._first_only(value)
            return
        self._from_parts(value, parts, unwrap=isinstance(value, ast.Tuple))

    def _first_only(self, value: ast.expr) -> None:
        if self.slot == 0:
            raise self._unclear(value)

    def _from_parts(self, value: ast.expr, parts: list[_Part] | None, *, unwrap: bool) -> None:
        if parts is None:
            raise self._unclear(value)
        at = 0
        for part in parts:
            if part.count is None:
                raise self._unclear(value)
            if at + part.count > self.slot:
                self._drop_from(part, value, unwrap=unwrap)
                return
            at += part.count

    def _drop_from(self, part: _Part, value: ast.expr, *, unwrap: bool) -> None:
        element = part.owner.elts[part.index]
        if part.times is not None:
            if not _is_none(element) or not isinstance(part.times.value, int):
                raise self._unclear(value)
            if part.times.value > 1 or part.starred is None:
                self.change.set_text(part.times, str(part.times.value - 1))
            else:
                self.change.drop_element(*part.starred)
            return
        if not isinstance(element, ast.Constant | ast.Name):
            raise RefusalError(
                element,
                f"this gradient is the one of `{self.buffer}`, and is no plain None",
                f"return None for `{self.buffer}`, which is never differentiated",
                self.module,
            )
        others = [e for i, e in enumerate(part.owner.elts) if i != part.index]
        alone = unwrap and len(others) == 1 and part.owner is value and self._is_one(others[0])
        self.change.drop_element(part.owner, part.index, unwrap=alone)

    def _parts(self, value: ast.expr) -> list[_Part] | None:
        """The pieces of a tuple as written, or None where it is not written out."""
        match value:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                found: list[_Part] = []
                for index, element in enumerate(elements):
                    if not isinstance(element, ast.Starred):
                        found.append(_Part(value, index, 1))
                        continue
                    inner = self._parts(element.value)
                    place = (value, index)
                    if inner is None:
                        found.append(_Part(value, index, None))
                    else:
                        found += [_Part(p.owner, p.index, p.count, p.times, place) for p in inner]
                return found
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return _repeated(left, right) or _repeated(right, left)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self._parts(left), self._parts(right)
                return None if first is None or second is None else first + second
        return None

    def _settled(self, name: ast.Name) -> ast.expr:
        """What a returned name was bound to, where that is all that happens to it."""
        uses = [n for n in ast.walk(self.function) if isinstance(n, ast.Name) and n.id == name.id]
        stores = [n for n in uses if not isinstance(n.ctx, ast.Load)]
        loads = [n for n in uses if isinstance(n.ctx, ast.Load)]
        at_returns = {id(n) for value in returned(self.function) for n in _arms(value)}
        assigned = self._assigned(name.id)
        if assigned is None or len(stores) != 1 or any(id(n) not in at_returns for n in loads):
            raise self._unclear(name)
        return assigned

    def _assigned(self, name: str) -> ast.expr | None:
        """What a name is bound to, where one plain assignment binds it."""
        bound = [
            n
            for n in own_nodes(self.function)
            if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
        ]
        values = [
            n.value
            for n in own_nodes(self.function)
            if isinstance(n, ast.Assign)
            and len(n.targets) == 1
            and isinstance(n.targets[0], ast.Name)
            and n.targets[0].id == name
        ]
        return values[0] if len(bound) == 1 == len(values) else None

    def _is_one(self, value: ast.expr, depth: int = 5) -> bool:
        """Whether an expression surely is one tensor, and no tuple of gradients."""
        if depth == 0:
            return False
        match value:
            case ast.Name(id=name):
                assigned = self._assigned(name)
                if assigned is not None:
                    return self._is_one(assigned, depth - 1)
                rebound = any(
                    isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
                    for n in ast.walk(self.function)
                )
                return not rebound and name in positional_names(self.function)[1:]
            case ast.Call(func=func):
                contract = (
                    self.names.op(func) if isinstance(func, ast.Name | ast.Attribute) else None
                )
                if contract is not None:
                    return len(contract.returns) == 1 and str(contract.returns[0].type) == "Tensor"
                if not isinstance(func, ast.Attribute):
                    return False
                method = func.attr
                dotted = self.names.dotted(func)
                if dotted is not None and not dotted.startswith("torch."):
                    return False
                return (
                    method in _ONE_TENSOR
                    or aten.is_allocator(method)
                    or (aten.is_inplace(method) and method.endswith("_"))
                )
            case ast.BinOp(op=ast.Mult() | ast.Add(), left=left, right=right):
                # Tuples can be repeated and joined, by these operators only.
                return self._is_one(left, depth - 1) or self._is_one(right, depth - 1)
            case ast.BinOp():
                return True
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._is_one(operand, depth - 1)
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_one(body, depth - 1) and self._is_one(orelse, depth - 1)
            case ast.Subscript(value=ast.Attribute(attr="saved_tensors"), slice=ast.Constant()):
                return True
        return False

    def _unclear(self, node: ast.expr) -> RefusalError:
        return RefusalError(
            node,
            f"backward returns one gradient for each argument, `{self.buffer}` included, and which "
            "of them is which cannot be told here",
            "return the gradients as a tuple that is written out",
            self.module,
        )


def _repeated(display: ast.expr, times: ast.expr) -> list[_Part] | None:
    """``(None,) * 2`` as one part; of an unknown length where the number is not written."""
    if not isinstance(display, ast.Tuple | ast.List) or len(display.elts) != 1:
        return None
    if isinstance(display.elts[0], ast.Starred):
        return None
    if isinstance(times, ast.Constant) and type(times.value) is int and times.value >= 0:
        return [_Part(display, 0, times.value, times)]
    return [_Part(display, 0, None)]


def _arms(value: ast.expr) -> list[ast.expr]:
    if isinstance(value, ast.IfExp):
        return [*_arms(value.body), *_arms(value.orelse)]
    return [value]


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
