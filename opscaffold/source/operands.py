"""What an expression stands for once the parameters around it do: names, defaults, choices."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from opscaffold.records import dataclass, field
from opscaffold.source.classes import class_of_self, instance_attributes, is_property, method
from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.resolve import Resolver
from opscaffold.source.returning import returned
from opscaffold.source.scopes import Binding, How

MAX_DEPTH = 40
_MAX_TESTS = 4
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SOMETHING = (*DEFINITIONS, ast.ClassDef, ast.Lambda, ast.JoinedStr)


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression (or the definition a decorator stands on), and where its names are read."""

    module: Module
    node: ast.AST
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """What the parameters of functions that are being looked into stand for.

    ``packed`` holds what ``*args`` and ``**kwargs`` parameters stand for: positional values
    under their index, keyword ones under their name.
    """

    parameters: Mapping[ast.AST, Operand] = field(default_factory=dict)
    packed: Mapping[ast.AST, Mapping[str | int, Operand]] = field(default_factory=dict)


class Operands:
    """Follows expressions as far as they lead; parameters are looked up in a frame."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._depth = 0
        self._deciding = 0
        self._added: dict[Module, frozenset[object]] = {}

    def follow(self, operand: Operand) -> Operand | None:
        """Return what an expression stands for, one step on. None where that is not sure."""
        if self._depth > MAX_DEPTH:
            return None
        self._depth += 1
        try:
            return self._follow(operand)
        finally:
            self._depth -= 1

    def settle(self, operand: Operand) -> Operand:
        """Follow names, parameters and choices as far as they lead."""
        for _ in range(MAX_DEPTH):
            followed = self.follow(operand)
            if followed is None or followed.node is operand.node:
                return operand
            operand = followed
        return operand

    def definition(self, operand: Operand) -> FunctionNode | ast.Lambda | None:
        """Return the function definition or lambda that an operand stands for, if it is sure."""
        node = self.settle(operand).node
        return node if isinstance(node, (*DEFINITIONS, ast.Lambda)) else None

    def is_none(self, operand: Operand) -> bool:
        """Say whether an operand surely is None."""
        node = self.settle(operand).node
        return isinstance(node, ast.Constant) and node.value is None

    def constant(self, operand: Operand) -> ast.Constant | None:
        """Return the constant that an operand comes to; None where that is not sure."""
        node = self.settle(operand).node
        return node if isinstance(node, ast.Constant) else None

    def decide(self, operand: Operand) -> bool | None:
        """Return the truth of a condition; None where it is not known."""
        node = operand.node

        def part(expression: ast.AST) -> Operand:
            return Operand(operand.module, expression, operand.frame)

        match node:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                found = self.decide(part(inner))
                return None if found is None else not found
            case ast.BoolOp(op=op, values=values):
                answers = [self.decide(part(value)) for value in values]
                deciding = isinstance(op, ast.Or)
                if deciding in answers:
                    return deciding
                return None if None in answers else not deciding
            case ast.Compare(
                left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(None)]
            ):
                absent = self._is_absent(self.settle(part(left)))
                return absent if absent is None or isinstance(op, ast.Is) else not absent
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
                one, other = self.constant(part(left)), self.constant(part(right))
                if one is None or other is None:
                    return None
                return (one.value == other.value) is isinstance(op, ast.Eq)
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[right]):
                held = self._holds(part(left), part(right))
                return held if held is None or isinstance(op, ast.In) else not held
            case ast.Call(func=ast.Name(id="callable"), args=[inner], keywords=[]):
                settled = self.settle(part(inner)).node
                if isinstance(settled, (*DEFINITIONS, ast.Lambda)):
                    return True
                return False if isinstance(settled, ast.Constant) else None
        settled = self.settle(operand).node
        if isinstance(settled, ast.Constant):
            return bool(settled.value)
        if isinstance(settled, (ast.Tuple, ast.List, ast.Set)) and not any(
            isinstance(e, ast.Starred) for e in settled.elts
        ):
            return bool(settled.elts)
        return True if isinstance(settled, (*DEFINITIONS, ast.Lambda)) else None

    def entries(self, operand: Operand) -> Mapping[str | int, Operand] | None:
        """Return the entries of a dict, list or tuple that is written out; None for others."""
        settled = self.settle(operand)
        node, module, frame = settled.node, settled.module, settled.frame
        if isinstance(node, ast.Name) and frame is not None:
            bindings = self.resolver.bindings_of(module, node)
            if len(bindings) == 1 and bindings[0].node in frame.packed:
                return frame.packed[bindings[0].node]
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, (ast.Tuple, ast.List)):
            pairs = [(ast.Constant(i), value) for i, value in enumerate(node.elts)]
            if any(isinstance(value, ast.Starred) for _, value in pairs):
                return None
        elif (
            isinstance(node, ast.Call)
            and not node.args
            and self.dotted(Operand(module, node.func)) == "builtins.dict"
        ):
            pairs = [(ast.Constant(k.arg) if k.arg else None, k.value) for k in node.keywords]
        else:
            return None
        found: dict[str | int, Operand] = {}
        for key, value in pairs:
            if key is None:
                inner = self.entries(Operand(module, value, frame))
                if inner is None:
                    return None
                found.update(inner)
            else:
                at = self.settle(Operand(module, key, frame)).node if key in module.parents else key
                if isinstance(at, ast.Constant) and isinstance(at.value, (str, int)):
                    found[at.value] = Operand(module, value, frame)
        return found

    def dotted(self, operand: Operand) -> str | None:
        """Return the full name of what an expression stands for outside the tree, if sure."""
        if not isinstance(operand.node, ast.expr):
            return None
        target = self.resolver.resolve(operand.module, operand.node).certain
        return target.dotted if target is not None else None

    def arguments(
        self, call: ast.Call, module: Module, frame: Frame | None, positional: Sequence[str]
    ) -> dict[str, Operand]:
        """Return the arguments of a call by parameter name, star arguments taken apart.

        What stands behind a star argument that cannot be taken apart is left out.
        """
        found: dict[str, Operand] = {}
        values: list[Operand] = []
        for value in call.args:
            if isinstance(value, ast.Starred):
                entries = self.entries(Operand(module, value.value, frame))
                if entries is None or any(isinstance(key, str) for key in entries):
                    break
                values += entries.values()
            else:
                values.append(Operand(module, value, frame))
        found.update(zip(positional, values, strict=False))
        for keyword in call.keywords:
            if keyword.arg is not None:
                found[keyword.arg] = Operand(module, keyword.value, frame)
                continue
            given = self.entries(Operand(module, keyword.value, frame)) or {}
            found.update({key: each for key, each in given.items() if isinstance(key, str)})
        return found

    def _follow(self, operand: Operand) -> Operand | None:
        node, module, frame = operand.node, operand.module, operand.frame
        match node:
            case ast.Name() | ast.Attribute():
                return self._named(operand)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                answer = self.decide(Operand(module, test, frame))
                if answer is None:
                    return None
                return Operand(module, body if answer else orelse, frame)
            case ast.BoolOp(op=ast.Or(), values=[first, *others]):
                # `fake or fn`: the first that is not None decides.
                settled = self.settle(Operand(module, first, frame))
                answer = self.decide(settled)
                if answer is None and isinstance(settled.node, (ast.Name, ast.Attribute)):
                    return None
                if answer is not False:
                    return settled
                rest = others[0] if len(others) == 1 else ast.BoolOp(op=ast.Or(), values=others)
                return Operand(module, rest, frame)
            case ast.NamedExpr(value=value):
                return Operand(module, value, frame)
            case ast.Subscript(value=value, slice=key):
                return self._entry(operand, value, key, None)
            case ast.Call(
                func=ast.Attribute(value=value, attr="get" | "pop"),
                args=[key, *rest],
                keywords=[],
            ) if len(rest) < 2:
                default = rest[0] if rest else ast.Constant(None)
                return self._entry(operand, value, key, default)
        return None

    def _entry(
        self, operand: Operand, value: ast.expr, key: ast.expr, default: ast.expr | None
    ) -> Operand | None:
        at = self.settle(Operand(operand.module, key, operand.frame)).node
        if not isinstance(at, ast.Constant) or not isinstance(at.value, (str, int)):
            return None
        entries = self.entries(Operand(operand.module, value, operand.frame))
        if entries is None:
            return None
        if at.value in entries:
            return entries[at.value]
        return None if default is None else Operand(operand.module, default, operand.frame)

    def _named(self, operand: Operand) -> Operand | None:
        node, module, frame = operand.node, operand.module, operand.frame
        if isinstance(node, ast.Name):
            bindings = self._possible(operand, self.resolver.bindings_of(module, node))
            if len(bindings) == 1:
                binding = bindings[0]
                if binding.how is How.PARAMETER and frame is not None:
                    return frame.parameters.get(binding.node)
                if binding.how is How.VALUE and binding.value is not None:
                    # Stay in the frame: the value may hold parameters of the same function.
                    return Operand(module, binding.value, frame)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        target = self.resolver.resolve(module, node).certain
        if target is not None and target.module is not None and target.node is not None:
            return Operand(target.module, target.node, frame)
        return self._of_self(operand) if isinstance(node, ast.Attribute) else None

    def _possible(self, operand: Operand, bindings: list[Binding]) -> list[Binding]:
        """Leave out the bindings that stand in branches which are known not to be taken."""
        if len(bindings) < 2:
            return bindings
        left: list[Binding] = []
        for binding in bindings:
            taken: bool | None = True
            for node, branch in binding.path:
                if not isinstance(node, ast.If):
                    taken = None
                    continue
                answer = self._test(Operand(operand.module, node.test, operand.frame))
                if answer is None:
                    taken = None if taken else taken
                elif answer != (branch == "body"):
                    taken = False
                    break
            if taken and not binding.elsewhere:
                # It is surely bound here: what came before is gone.
                left = []
            if taken is not False:
                left.append(binding)
        return left

    def _test(self, operand: Operand) -> bool | None:
        # What a name is may depend on a test of it, and so on: that need not be followed far.
        if self._deciding >= _MAX_TESTS:
            return None
        self._deciding += 1
        try:
            return self.decide(operand)
        finally:
            self._deciding -= 1

    def _of_self(self, operand: Operand) -> Operand | None:
        """Return what ``self.x`` was set to, where one place of the class sets it."""
        node = operand.node
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return None
        for binding in self.resolver.bindings_of(operand.module, node.value):
            holder = class_of_self(operand.module, binding.node)
            if holder is None:
                continue
            values = instance_attributes(holder).get(node.attr, [])
            scope = self.resolver.tree.scopes(operand.module).inner(holder)
            bound = scope.bindings.get(node.attr, ()) if scope is not None else ()
            values += [b.value for b in bound if b.value is not None]
            if len(values) == 1:
                return Operand(operand.module, values[0], operand.frame)
            read = method(holder, node.attr)
            if not values and read is not None and is_property(read):
                return self._of_property(operand, read)
        return None

    def _of_property(self, operand: Operand, read: FunctionNode) -> Operand | None:
        def decide(test: ast.expr) -> bool | None:
            return self._test(Operand(operand.module, test, operand.frame))

        value = returned(read.body, decide)
        return None if value is None else Operand(operand.module, value, operand.frame)

    def _holds(self, key: Operand, container: Operand) -> bool | None:
        """Say whether a key is in a dict, list or tuple that is written out."""
        constant, entries = self.constant(key), self.entries(container)
        if constant is None or entries is None:
            return None
        if not isinstance(self.settle(container).node, (ast.Tuple, ast.List)):
            if constant.value in entries:
                return True
            added = self._added.get(container.module)
            if added is None:
                added = self._added[container.module] = added_keys(container.module)
            return None if constant.value in added else False
        members = [self.constant(each) for each in entries.values()]
        if any(m is not None and m.value == constant.value for m in members):
            return True
        return None if None in members else False

    def _is_absent(self, operand: Operand) -> bool | None:
        node = operand.node
        if isinstance(node, ast.Constant):
            return node.value is None
        if isinstance(node, (*_SOMETHING, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.BinOp)):
            return False
        if isinstance(node, ast.Call):
            made = self.resolver.resolve(operand.module, node.func).certain
            if made is not None and (
                isinstance(made.node, ast.ClassDef)
                or (made.dotted or "").rpartition(".")[2][:1].isupper()
            ):
                return False
        return None


def added_keys(module: Module) -> frozenset[object]:
    """Return the constants under which a module puts something into a container it has."""
    return frozenset(
        node.slice.value
        for node in module.parents
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.slice, ast.Constant)
    )


def parts(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a choice may come to: the branches of a conditional, the operands of ``or``."""
    if isinstance(node, ast.IfExp):
        yield from parts(node.body)
        yield from parts(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from parts(value)
    elif isinstance(node, ast.expr):
        yield node
