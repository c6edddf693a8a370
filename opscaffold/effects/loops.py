"""Following loops: how often their bodies run, and what holds once they have ended."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterable

from opscaffold.effects.assignments import Assignments
from opscaffold.effects.helpers import plain_calls, stored_names
from opscaffold.effects.terms import number_of, of_comparison, of_constant
from opscaffold.effects.values import ANYTHING, Env, Value, gathered, join, join_envs
from opscaffold.records import dataclass, field

Loop = ast.For | ast.AsyncFor | ast.While

_ROUNDS = 4  # a loop body is followed again until nothing new is learnt


@dataclass(slots=True)
class Leaving:
    """The environments in which a loop, or one round of it, was left before its end."""

    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)


class Loops(Assignments):
    """Adds loops. ``leaving`` are the loops around the statement that is followed."""

    leaving: list[Leaving]

    @abstractmethod
    def block(self, body: Iterable[ast.stmt], env: Env | None) -> Env | None:
        """Follow statements in turn."""

    def leave_round(self, node: ast.Break | ast.Continue, env: Env) -> None:
        """Record a way out of a round."""
        if self.leaving:
            left = self.leaving[-1]
            (left.breaks if isinstance(node, ast.Break) else left.continues).append(env)

    def loop(self, node: Loop, env: Env) -> Env | None:
        """Follow a loop body until its environment is stable.

        Unless something in sight says how often it runs, it may run no time at all.
        """
        outer = self.each_round
        before = env.copy()
        at_once = False if isinstance(node, ast.While) else self.runs(node.iter, env)
        if at_once is None:
            return self.block(node.orelse, env)
        left = Leaving()
        self.leaving.append(left)
        self.looping += 1
        current: Env | None = env
        ended: Env | None = None  # after a whole round
        asked: bool | None = None
        for number in range(_ROUNDS):
            if current is None:
                break
            scope = current.copy()
            self.each_round = plain_calls(node)
            if isinstance(node, ast.While):
                asked = self.truth(node.test, scope)
                if asked is False:
                    ended = scope if ended is None else ended
                    break
                at_once = at_once or (number == 0 and asked is True)
                scope = self.narrow(node.test, scope, True)
            else:
                self.bind_each(node.target, self.iterate(node.iter, scope), scope)
            ended = self.block(node.body, scope)
            for way in left.continues:
                ended = join_envs(ended, way)
            after = join_envs(current.copy(), ended)
            if after == current:
                break
            current = after
        else:
            asked = None
            # Nothing is known of what is still on the move after so many rounds.
            for name in stored_names(node):
                for known in (current, ended):
                    if known is not None and name in known.names:
                        known.names[name] = join(known.names[name], ANYTHING)
        self.looping -= 1
        self.each_round = outer
        self.leaving.pop()
        end = ended if at_once else current
        if isinstance(node, ast.While):
            # A loop whose test cannot fail is left by break only.
            end = None if asked is True or end is None else self.narrow(node.test, end, False)
        elif end is not None:
            self.replaced(node, before, end)
        end = self.block(node.orelse, end)
        for way in left.breaks:
            end = join_envs(end, way)
        return end

    def runs(self, source: ast.expr, env: Env) -> bool | None:
        """Whether a loop over this surely runs at least once; None where it surely never does."""
        match source:
            case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts):
                return any(not isinstance(e, ast.Starred) for e in elts) or (
                    None if not elts else False
                )
            case ast.Constant(value=str(text)):
                return bool(text) or None
            case ast.Call(func=ast.Name(id="range"), args=[*bounds], keywords=[]) if bounds:
                if "range" in env.names or any(isinstance(b, ast.Starred) for b in bounds):
                    return False
                return self.runs_range([self.value(b, env.copy()) for b in bounds], source)
            case ast.Call(
                func=ast.Name(id="enumerate" | "reversed" | "list" | "tuple"), args=[first, *_]
            ):
                return self.runs(first, env) is True
        return False

    def runs_range(self, bounds: list[Value], source: ast.expr) -> bool | None:
        """Whether a loop over ``range`` of these runs at least once, likewise."""
        numbers = [number_of(b) for b in bounds]
        if all(n is not None for n in numbers):
            plain = [n for n in numbers if n is not None]
            return bool(range(*plain)) or None if len(plain) < 3 or plain[2] else False
        if len(bounds) > 1 and (numbers[0] != 0 or (len(bounds) > 2 and (numbers[2] or 0) <= 0)):
            return False
        count = bounds[0] if len(bounds) == 1 else bounds[1]
        if count.truth is True:
            return True
        zero, one = Value(term=of_constant(0)), Value(term=of_constant(1))
        # A count is not negative: another test of it may have told it from zero.
        if True in (
            self.told(of_comparison(count, ast.NotEq(), zero)),
            self.told(of_comparison(count, ast.GtE(), one)),
        ):
            return True
        answer = self.assume(of_comparison(count, ast.Gt(), zero), source)
        return False if answer is None else answer or None

    def replaced(self, node: ast.For | ast.AsyncFor, before: Env, end: Env) -> None:
        """Where every round replaces an element of a list, the list holds what was put there."""
        found = _replaces(node)
        if found is None:
            return
        target, counted = found
        owner = target.value.id if isinstance(target.value, ast.Name) else ""
        held, put = before.names.get(owner), self.put.get(target)
        over = before.names.get(counted)
        if held is None or put is None or over is None or not held.container:
            return
        if held.all_refs() == over.all_refs():
            end.names[owner] = gathered([put])


def _replaces(node: ast.For | ast.AsyncFor) -> tuple[ast.Subscript, str] | None:
    """The one element that every round stores, and the list whose places are counted."""
    match node.iter, node.target:
        case (
            ast.Call(
                func=ast.Name(id="range"),
                args=[ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=counted)])],
            ),
            ast.Name(id=index),
        ):
            pass
        case (
            ast.Call(func=ast.Name(id="enumerate"), args=[ast.Name(id=counted)]),
            ast.Tuple(elts=[ast.Name(id=index), _]),
        ):
            pass
        case _:
            return None
    inside = [n for statement in node.body for n in ast.walk(statement)]
    if any(isinstance(n, ast.Break | ast.Continue | ast.Return) for n in inside):
        return None
    stores = [
        n for n in inside if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store | ast.Del)
    ]
    match [s for s in node.body if isinstance(s, ast.Assign) and s.targets[0] in stores]:
        case [
            ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=owner), slice=ast.Name(id=at)) as t]
            )
        ]:
            others = [s for s in stores if s is not t and _names(s.value, owner)]
            bound = owner in stored_names(node) or index in {
                name for s in node.body for name in stored_names(s)
            }
            used = any(isinstance(n, ast.Attribute) and _names(n.value, owner) for n in inside)
            return None if at != index or others or bound or used else (t, counted)
    return None


def _names(expr: ast.expr, name: str) -> bool:
    return isinstance(expr, ast.Name) and expr.id == name
