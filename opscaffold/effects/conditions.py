"""Truth and nullness: how tests come out, and what is known on the path behind each outcome."""

from __future__ import annotations

import ast
from dataclasses import replace

from opscaffold.effects import terms
from opscaffold.effects.recorder import Recorder
from opscaffold.effects.trace import Effect
from opscaffold.effects.values import UNSEEN, Env, Value, fresh, join

_TENSOR = frozenset({"Tensor", "torch.Tensor"})


def is_none(expr: ast.expr) -> bool:
    """Whether this is the literal ``None``."""
    return isinstance(expr, ast.Constant) and expr.value is None


class Conditions(Recorder):
    """Adds tests, and expressions that choose by one.

    ``tested`` is the term of the test that was evaluated last.
    """

    tested: str | None = None

    def compared(self, expr: ast.Compare, env: Env) -> Value:
        """The result of a comparison: of tensors, a new tensor."""
        truth = self.truth(expr, env)
        if len(expr.ops) == 1 and not isinstance(
            expr.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn
        ):
            sides = (expr.left, expr.comparators[0])
            if truth is None and any(self.value(side, env.copy()).all_refs() for side in sides):
                return self.new(expr)
        return Value(null=False, truth=truth, term=self.tested)

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
        env.touched |= then.touched | other.touched
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
        # Operands behind the first may not be evaluated at all.
        scope = env.copy()
        for operand in expr.values[1:]:
            result = join(result, self.value(operand, scope))
        env.touched |= scope.touched
        for name in scope.names:
            if name in env.names:
                env.names[name] = join(env.names[name], scope.names[name])
            else:
                env.names[name] = scope.names[name]
        return replace(result, truth=answer)

    def truth(self, expr: ast.expr, env: Env) -> bool | None:
        """Evaluate an expression for its truth, and record the answer."""
        self.tested = None
        answer = self._truth(expr, env)
        self.trace.tests.setdefault(expr, set()).add(answer)
        if answer is None:
            return self.assume(self.tested, expr)
        self.tested = None
        return answer

    def _truth(self, expr: ast.expr, env: Env) -> bool | None:
        match expr:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._truth(operand, env)
                self.trace.tests.setdefault(operand, set()).add(inner)
                self.tested = terms.negated(self.tested)
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
                self.tested = None
                env.names.update({k: v for k, v in scope.names.items() if k not in env.names})
                env.touched |= scope.touched
                if stop in answers and all(a is not None for a in answers):
                    return stop
                if answers[-1] is stop:
                    return stop
                return None if None in answers else not stop
            case ast.Compare(ops=[_]) | ast.BinOp(op=ast.BitXor()) if (
                alike := self._are_alike(expr, env)
            ) is not None:
                self.tested = None
                return alike
            case ast.Compare(ops=[ast.In() | ast.NotIn() as op], comparators=[right]) if isinstance(
                right, ast.Tuple | ast.List | ast.Set
            ):
                return self.is_among(expr, right.elts, env, positive=isinstance(op, ast.In))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                sides = [self.value(left, env), self.value(right, env)]
                if isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
                    tested = sides[0] if is_none(right) else sides[1] if is_none(left) else None
                    if tested is not None:
                        positive = isinstance(op, ast.Is | ast.Eq)
                        self.tested = terms.of_nullness(tested, positive=positive)
                        return None if tested.null is None else tested.null is positive
                if not isinstance(op, ast.Is | ast.IsNot):
                    self.read(sides, expr, env)
                self.tested = terms.of_comparison(sides[0], op, sides[1])
                return terms.settled(self.tested)
            case ast.Call(func=ast.Name(id="isinstance"), args=[subject, kind]):
                owner = self.value(subject, env)
                if _is_tensor_or_none(owner, kind):
                    self.tested = terms.of_nullness(owner, positive=False)
                    return None if owner.null is None else not owner.null
                asked = f"isinstance({owner.term}, {ast.unparse(kind)})"
                self.tested = None if owner.term is None else asked
                return False if owner.null is True else None
            case ast.Compare():
                self.read([self.value(e, env) for e in [expr.left, *expr.comparators]], expr, env)
                self.tested = None
                return None
            case _:
                result = self.value(expr, env)
                if result.refs - {UNSEEN}:
                    self.emit(Effect.TRUTH, result, expr, env)
                self.tested = terms.of_truth(result)
                return False if result.null is True else result.truth

    def _are_alike(self, expr: ast.Compare | ast.BinOp, env: Env) -> bool | None:
        """The outcome of ``(a is None) == (b is None)`` and the like, where both are known."""
        if isinstance(expr, ast.BinOp):
            left, right, positive = expr.left, expr.right, False
        else:
            left, right = expr.left, expr.comparators[0]
            positive = isinstance(expr.ops[0], ast.Is | ast.Eq)
            if not positive and not isinstance(expr.ops[0], ast.IsNot | ast.NotEq):
                return None
        if not (_is_nullness(left) and _is_nullness(right)):
            return None
        answers = [self.truth(left, env), self.truth(right, env)]
        return None if None in answers else (answers[0] is answers[1]) is positive

    def is_among(
        self, expr: ast.Compare, elements: list[ast.expr], env: Env, *, positive: bool
    ) -> bool | None:
        """How ``a in (b, c)`` comes out: as the comparisons with each of them do."""
        left, others = self.value(expr.left, env), [self.value(e, env) for e in elements]
        self.read([left, *others], expr, env)
        self.tested = None
        answers = []
        for other in others:
            asked = terms.of_comparison(left, ast.Eq(), other)
            known = terms.settled(asked)
            answers.append(self.assume(asked, expr) if known is None else known)
        if True in answers:
            return positive
        return None if None in answers else not positive

    def matches(self, pattern: ast.pattern, subject: Value) -> bool | None:
        """Whether a value fits a pattern, where it says to which constants it is equal."""
        match pattern:
            case ast.MatchOr(patterns=patterns):
                answers = [self.matches(part, subject) for part in patterns]
                if True in answers:
                    return True
                return None if None in answers else False
            case ast.MatchValue(value=ast.Constant() as constant):
                given = Value(term=terms.of_constant(constant.value))
                return self.assume(terms.of_comparison(subject, ast.Eq(), given), constant)
            case ast.MatchSingleton(value=None):
                known = subject.null
                asked = terms.of_nullness(subject, positive=True)
                return self.assume(asked, pattern) if known is None else known
        return None

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
                    scope.names[name.id] = self.lookup(name, scope).with_null(null)
                elif isinstance(op, ast.IsNot | ast.NotEq if outcome else ast.Is | ast.Eq):
                    by_name = isinstance(op, ast.Is | ast.IsNot)
                    if by_name is isinstance(left, ast.Name):
                        _tell_apart(left, right, scope)
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name() as name, kind]):
                if _is_tensor_or_none(self.lookup(name, scope), kind):
                    scope.names[name.id] = self.lookup(name, scope).with_null(not outcome)
                elif outcome:
                    scope.names[name.id] = self.lookup(name, scope).with_null(False)
            case ast.Name() | ast.NamedExpr():
                name = test if isinstance(test, ast.Name) else test.target
                if outcome:
                    scope.names[name.id] = self.lookup(name, scope).with_null(False)
        return scope


def _is_tensor_or_none(value: Value, kind: ast.expr) -> bool:
    """Whether ``isinstance(value, Tensor)`` asks no more than whether a tensor is there."""
    return (
        ast.unparse(kind) in _TENSOR
        and value.items is None
        and not value.container
        and bool(value.refs)
        and all(r.exact and not r.several and not r.array and r != UNSEEN for r in value.refs)
    )


def _is_nullness(expr: ast.expr) -> bool:
    """Whether an expression tests whether something is None, which gives a bool."""
    match expr:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[right]):
            return is_none(left) or is_none(right)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_nullness(operand)
    return False


def _tell_apart(left: ast.expr, right: ast.expr, env: Env) -> None:
    """Two names, or the addresses of two, that a test says are not the same memory."""
    names = [_owner_of_address(left), _owner_of_address(right)]
    one, other = (env.names.get(name or "") for name in names)
    if one is None or other is None:
        return
    for name, own, foreign in ((names[0], one, other), (names[1], other, one)):
        exact = {r.root for r in foreign.refs if r.exact}
        drop_exact = len(own.refs) > 1
        kept = frozenset(
            r for r in own.refs if not (r.root in exact and (r.perhaps or (r.exact and drop_exact)))
        )
        if name is not None and kept != own.refs:
            made = fresh(0, 0, f"@{name}").refs if not kept else frozenset()
            env.names[name] = replace(own, refs=kept | made)


def _owner_of_address(expr: ast.expr) -> str | None:
    match expr:
        case (
            ast.Name(id=name)
            | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="data_ptr"))
        ):
            return name
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="storage" | "untyped_storage")
                ),
                attr="data_ptr",
            )
        ):
            return name
    return None
