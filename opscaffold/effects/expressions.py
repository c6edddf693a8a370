"""Following expressions: what each evaluates to, and what its evaluation does to memory."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from opscaffold.effects import aten
from opscaffold.effects.trace import MUTATIONS, Effect, Event, Names, Trace
from opscaffold.effects.values import (
    ANYTHING,
    NONE,
    SCALAR,
    UNSEEN,
    Env,
    Ref,
    Value,
    fresh,
    join,
)


def is_none(expr: ast.expr) -> bool:
    """Whether this is the literal ``None``."""
    return isinstance(expr, ast.Constant) and expr.value is None


class Expressions:
    """Evaluates expressions in an environment and records what it sees in ``trace``."""

    def __init__(self, names: Names, trace: Trace) -> None:
        self.names = names
        self.trace = trace

    def emit(self, effect: Effect, value: Value, node: ast.AST, env: Env) -> None:
        """Record an effect on everything a value stands on."""
        every = value.all_refs()
        refs = every - {UNSEEN}
        sure = len({ref.root for ref in every}) == 1
        for ref in sorted(refs, key=lambda r: r.root):
            actual = effect
            if effect is Effect.WRITE and not (ref.whole and len(refs) == 1):
                actual = Effect.WRITE_PART
            self.trace.events.append(Event(actual, ref.root, node, ref.root in env.written, sure))
            if actual is Effect.WRITE:
                env.written |= {ref.root}
            if actual in MUTATIONS and sure:
                env.mutated |= {ref.root}

    def read(self, values: Iterable[Value], node: ast.AST, env: Env) -> None:
        """Record a read of everything these values stand on."""
        for value in values:
            self.emit(Effect.READ, value, node, env)

    def opaque_call(self, node: ast.Call, values: list[Value], env: Env) -> Value:
        """A call of code out of sight: it may do anything to its arguments and return them."""
        for value in values:
            self.emit(Effect.OPAQUE, value, node, env)
        refs = frozenset(Ref(r.root) for value in values for r in value.all_refs())
        return Value(refs=refs | {UNSEEN})

    def call(self, node: ast.Call, env: Env) -> Value:
        """Evaluate a call. Overridden where calls are understood."""
        return self.opaque_call(node, self.arguments(node, env), env)

    def arguments(self, node: ast.Call, env: Env) -> list[Value]:
        """Evaluate all arguments, positional ones first."""
        return [self.value(a, env) for a in node.args] + [
            self.value(k.value, env) for k in node.keywords
        ]

    def value(self, expr: ast.expr, env: Env) -> Value:
        """Evaluate an expression."""
        result = self._value(expr, env)
        if expr in self.trace.nulls:
            self.trace.nulls[expr].add(result.null)
        return result

    def _value(self, expr: ast.expr, env: Env) -> Value:
        match expr:
            case ast.Constant():
                return NONE if expr.value is None else Value(null=False, truth=bool(expr.value))
            case ast.Name():
                return env.names.get(expr.id, ANYTHING)
            case ast.NamedExpr():
                result = self.value(expr.value, env)
                env.names[expr.target.id] = result
                return result
            case ast.IfExp():
                return self.conditional(expr, env)
            case ast.BoolOp():
                return self.bool_op(expr, env)
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return Value(null=False, truth=self.truth(expr, env))
            case ast.Call():
                return self.call(expr, env)
            case ast.Attribute():
                return self.attribute(expr, env)
            case ast.Subscript():
                return self.subscript(expr, env)
            case ast.BinOp():
                operands = [self.value(expr.left, env), self.value(expr.right, env)]
                self.read(operands, expr, env)
                return self.computed(expr, operands)
            case ast.UnaryOp():
                operand = self.value(expr.operand, env)
                self.read([operand], expr, env)
                if isinstance(expr.op, ast.UAdd):
                    return operand.viewed(whole=True)
                return self.computed(expr, [operand])
            case ast.Tuple() | ast.List():
                if any(isinstance(e, ast.Starred) for e in expr.elts):
                    parts = [self.value(e, env) for e in expr.elts]
                    return Value(null=False, refs=frozenset().union(*(p.all_refs() for p in parts)))
                return Value(null=False, items=tuple(self.value(e, env) for e in expr.elts))
            case ast.Starred():
                return self.value(expr.value, env).viewed()
            case ast.JoinedStr():
                for part in expr.values:
                    if isinstance(part, ast.FormattedValue):
                        self.read([self.value(part.value, env)], expr, env)
                return SCALAR
            case ast.Lambda():
                self.captured(expr, env)
                return SCALAR
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(expr, env)
            case ast.Dict() | ast.Set():
                parts = [self.value(e, env) for e in _operands(expr)]
                return Value(null=False, refs=frozenset().union(*(p.all_refs() for p in parts)))
            case ast.Slice():
                bounds = [b for b in (expr.lower, expr.upper, expr.step) if b is not None]
                self.read([self.value(b, env) for b in bounds], expr, env)
                return SCALAR
            case _:
                # await, yield: control leaves the function, with what is handed out.
                parts = [self.value(e, env) for e in _operands(expr)]
                for value in parts:
                    self.emit(Effect.OPAQUE, value, expr, env)
                return ANYTHING

    def computed(self, expr: ast.expr, operands: list[Value]) -> Value:
        """The result of arithmetic: a new tensor where an operand may be one."""
        if any(value.all_refs() for value in operands):
            return fresh(expr.lineno, expr.col_offset)
        return SCALAR

    def conditional(self, expr: ast.IfExp, env: Env) -> Value:
        """Evaluate ``a if test else b``, with what the test says of names in each arm."""
        answer = self.truth(expr.test, env)
        if answer is True:
            return self.value(expr.body, env)
        if answer is False:
            return self.value(expr.orelse, env)
        then, other = self.narrow(expr.test, env, True), self.narrow(expr.test, env, False)
        result = join(self.value(expr.body, then), self.value(expr.orelse, other))
        env.written |= then.written & other.written
        env.mutated |= then.mutated & other.mutated
        return result

    def bool_op(self, expr: ast.BoolOp, env: Env) -> Value:
        """Evaluate ``and``/``or`` for its value; a given tensor counts as the result of ``or``."""
        left = self.value(expr.values[0], env)
        if isinstance(expr.op, ast.Or) and len(expr.values) == 2:
            if left.null is True:
                self.trace.chosen.setdefault(expr, set()).add(False)
                return self.value(expr.values[1], env)
            if left.null is False and left.refs and UNSEEN not in left.refs:
                self.trace.chosen.setdefault(expr, set()).add(True)
                self.emit(Effect.TRUTH, left, expr, env)
                return left
            self.trace.chosen.setdefault(expr, set()).add(None)
        answer = self.truth(expr, env)
        if left.refs:
            self.emit(Effect.TRUTH, left, expr, env)
        result = left
        for operand in expr.values[1:]:
            result = join(result, self.value(operand, env))
        return Value(result.null, answer, result.refs, result.items)

    def truth(self, expr: ast.expr, env: Env) -> bool | None:
        """Evaluate an expression for its truth, and record the answer."""
        answer = self._truth(expr, env)
        self.trace.tests.setdefault(expr, set()).add(answer)
        return answer

    def _truth(self, expr: ast.expr, env: Env) -> bool | None:
        match expr:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.truth(operand, env)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                stop = isinstance(op, ast.Or)
                scope, answers = env.copy(), []
                for operand in values:
                    answer = self.truth(operand, scope)
                    answers.append(answer)
                    if answer is stop:
                        break
                    scope = self.narrow(operand, scope, not stop)
                env.names.update({k: v for k, v in scope.names.items() if k not in env.names})
                if stop in answers and all(a is not None for a in answers):
                    return stop
                if answers[-1] is stop:
                    return stop
                return None if None in answers else not stop
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                sides = [self.value(left, env), self.value(right, env)]
                if isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
                    tested = sides[0] if is_none(right) else sides[1] if is_none(left) else None
                    if tested is not None:
                        positive = isinstance(op, ast.Is | ast.Eq)
                        return None if tested.null is None else tested.null is positive
                if not isinstance(op, ast.Is | ast.IsNot):
                    self.read(sides, expr, env)
                return None
            case ast.Call(func=ast.Name(id="isinstance"), args=[subject, _]):
                return False if self.value(subject, env).null is True else None
            case ast.Compare():
                self.read([self.value(e, env) for e in [expr.left, *expr.comparators]], expr, env)
                return None
            case _:
                result = self.value(expr, env)
                if result.refs - {UNSEEN}:
                    self.emit(Effect.TRUTH, result, expr, env)
                return False if result.null is True else result.truth

    def narrow(self, test: ast.expr, env: Env, outcome: bool) -> Env:
        """The environment behind a test that came out this way."""
        scope = env.copy()
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.narrow(operand, env, not outcome)
            case ast.BoolOp(op=op, values=values):
                if isinstance(op, ast.And) is outcome:
                    for operand in values:
                        scope = self.narrow(operand, scope, outcome)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                name = left if is_none(right) else right if is_none(left) else None
                if isinstance(name, ast.NamedExpr):
                    name = name.target
                if isinstance(name, ast.Name) and isinstance(
                    op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq
                ):
                    null = isinstance(op, ast.Is | ast.Eq) is outcome
                    scope.names[name.id] = scope.names.get(name.id, ANYTHING).with_null(null)
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name() as name, _]):
                if outcome:
                    scope.names[name.id] = scope.names.get(name.id, ANYTHING).with_null(False)
            case ast.Name() | ast.NamedExpr():
                key = test.id if isinstance(test, ast.Name) else test.target.id
                if outcome:
                    scope.names[key] = scope.names.get(key, ANYTHING).with_null(False)
        return scope

    def attribute(self, expr: ast.Attribute, env: Env) -> Value:
        """Evaluate an attribute that is not called."""
        if self.names.dotted(expr) is not None:
            return Value(null=False)
        owner = self.value(expr.value, env)
        if not owner.all_refs():
            return Value()
        if expr.attr in aten.METADATA_ATTRIBUTES:
            return SCALAR
        if expr.attr in aten.VIEW_ATTRIBUTES:
            return owner.viewed(whole=expr.attr in aten.WHOLE_VIEWS)
        return Value(refs=frozenset(Ref(r.root) for r in owner.all_refs()) | {UNSEEN})

    def subscript(self, expr: ast.Subscript, env: Env) -> Value:
        """Evaluate an index or a slice: basic ones are views, all others copies or unknown."""
        owner, index = self.value(expr.value, env), self.value(expr.slice, env)
        if owner.items is not None and isinstance(expr.slice, ast.Constant):
            position = expr.slice.value
            if isinstance(position, int) and -len(owner.items) <= position < len(owner.items):
                return owner.items[position]
        if not owner.all_refs():
            return Value()
        if index.all_refs() - {UNSEEN} or isinstance(expr.slice, ast.List):
            # Indexing by a tensor or a list gathers into a new tensor.
            self.read([owner, index], expr, env)
            return fresh(expr.lineno, expr.col_offset)
        if index.all_refs():
            self.read([owner], expr, env)
        viewed = owner.viewed(perhaps=bool(index.all_refs()))
        # An element of a list or dict may be None; a slice of anything is not.
        sliced = _has_slice(expr.slice) or UNSEEN not in owner.all_refs()
        return Value(False if sliced else None, None, viewed.refs)

    def captured(self, node: ast.AST, env: Env) -> None:
        """Record that a nested function sees the memory its free names stand on."""
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and child.id in env.names:
                value = env.names[child.id]
                if value.refs or value.items:
                    self.emit(Effect.OPAQUE, value, node, env)

    def comprehension(
        self, expr: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Env
    ) -> Value:
        """Evaluate a comprehension once over views of what it iterates over."""
        scope = env.copy()
        for generator in expr.generators:
            source = self.value(generator.iter, scope)
            bind_all(generator.target, source.viewed(), scope)
            for test in generator.ifs:
                self.truth(test, scope)
                scope = self.narrow(test, scope, True)
        elements = [expr.key, expr.value] if isinstance(expr, ast.DictComp) else [expr.elt]
        values = [self.value(e, scope) for e in elements]
        refs = frozenset().union(*(v.all_refs() for v in values))
        return Value(null=False, refs=frozenset(Ref(r.root) for r in refs))


def bind_all(target: ast.expr, value: Value, env: Env) -> None:
    """Bind every name in a target to one value."""
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            env.names[node.id] = Value(None, None, value.all_refs() | {UNSEEN})


def _has_slice(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(p, ast.Slice) for p in parts)


def _operands(node: ast.AST) -> list[ast.expr]:
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
