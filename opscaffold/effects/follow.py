"""Following a whole function body, branch by branch, for given values of its parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any

from opscaffold.effects.expressions import bind_all
from opscaffold.effects.helpers import (
    as_kept,
    decoration,
    defaults_of,
    lets_through,
    own_names,
    statements_of,
    stored_names,
)
from opscaffold.effects.loops import Loops
from opscaffold.effects.trace import Effect, FunctionNode, Names, Returned, Trace
from opscaffold.effects.values import (
    ANYTHING,
    NONE,
    SCALAR,
    Env,
    Made,
    Value,
    join,
    join_envs,
)

_DEPTH = 4  # project functions followed below one another; deeper ones count as out of sight


def follow(
    body: Iterable[ast.stmt],
    values: Mapping[str, Value],
    names: Names,
    *,
    ask: Iterable[ast.expr] = (),
    devices: frozenset[str] = frozenset(),
    assumed: Mapping[str, bool] | None = None,
) -> Trace:
    """Follow statements from the given values of the local names; return all that was seen.

    ``ask`` lists expressions whose nullness should be recorded in ``Trace.nulls``. ``devices`` are
    the types of device that arguments stand on, empty where not known; ``assumed`` gives the
    outcome of tests by their terms.
    """
    trace = Trace(nulls={expr: set() for expr in ask})
    follower = Follower(names, trace)
    follower.devices, follower.assumed = devices, assumed or {}
    follower.run(list(body), Env(dict(values)))
    return trace


class Follower(Loops):
    """Executes statements over abstract environments. None stands for a path that ended."""

    def __init__(self, names: Names, trace: Trace, stack: tuple[ast.AST, ...] = ()) -> None:
        super().__init__(names, trace)
        self.stack = stack
        self.exits: list[tuple[Value, Env]] = []
        self.leaving = []

    def run(self, body: list[ast.stmt], env: Env) -> None:
        """Follow a function body to its end."""
        end = self.block(body, env)
        if end is not None and not end.swallowed:
            self.leave(None, NONE, end)

    def leave(self, node: ast.Return | None, value: Value, env: Env) -> None:
        """Record a way out of the function."""
        self.exits.append((value, env))
        if not self.stack:
            self.trace.returns.append(Returned(node, value, env.mutated, env.written))

    def block(self, body: Iterable[ast.stmt], env: Env | None) -> Env | None:
        """Follow statements in turn."""
        for statement in body:
            if env is None:
                return None
            env = self.statement(statement, env)
        return env

    def statement(self, node: ast.stmt, env: Env) -> Env | None:
        """Follow one statement."""
        match node:
            case ast.Expr():
                self.value(node.value, env)
            case ast.Assign():
                value = self.value(node.value, env)
                for target in node.targets:
                    self.bind(target, value, env)
            case ast.AnnAssign():
                if node.value is not None:
                    self.bind(node.target, self.value(node.value, env), env)
            case ast.AugAssign():
                self.augment(node, env)
            case ast.Return():
                value = NONE if node.value is None else self.value(node.value, env)
                self.leave(node, value, env)
                return None
            case ast.Raise():
                for part in (node.exc, node.cause):
                    if part is not None:
                        self.value(part, env)
                return None
            case ast.Assert():
                asked = self.truth(node.test, env)
                return None if asked is False else self.narrow(node.test, env, True)
            case ast.If():
                return self.branch(node, env)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self.loop(node, env)
            case ast.With() | ast.AsyncWith():
                return self.within_context(node, env)
            case ast.Try():
                return self.attempt(node, env)
            case ast.Match():
                return self.match(node, env)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self.captured(node, env)
                self.inner.add(node)
                made = None if isinstance(node, ast.ClassDef) else Made(node, self.names)
                env.names[node.name] = replace(SCALAR, made=made)
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        env.names.pop(target.id, None)
            case ast.Break() | ast.Continue():
                self.leave_round(node, env)
                return None
            case _:
                if isinstance(getattr(node, "handlers", None), list):
                    return self.attempt(node, env)
                self.declare(node, env)
        return env

    def declare(self, node: ast.stmt, env: Env) -> None:
        """Imports, ``global`` and the like: their names stand for something out of sight."""
        if isinstance(node, ast.Global | ast.Nonlocal):
            self.lasting.update(node.names)
            return
        for alias in getattr(node, "names", []):
            name = alias if isinstance(alias, str) else (alias.asname or alias.name).split(".")[0]
            env.names[name] = ANYTHING

    def branch(self, node: ast.If, env: Env) -> Env | None:
        """Follow an ``if``: one branch where the test is decided, else both."""
        answer = self.truth(node.test, env)
        if answer is not None:
            return self.block(node.body if answer else node.orelse, env)
        then = self.block(node.body, self.narrow(node.test, env, True))
        other = self.block(node.orelse, self.narrow(node.test, env, False))
        return join_envs(then, other)

    def attempt(self, node: Any, env: Env) -> Env | None:
        """Follow a ``try`` (or ``try`` with ``except*``, of which Python 3.10 has no class).

        A handler may start from any point of the body.
        """
        before = env.copy()
        body = self.block(node.body, env)
        anywhere = self.interrupted(node.body, before, env if body is None else body)
        end = self.block(node.orelse, body)
        for handler in node.handlers:
            scope = anywhere.copy()
            if handler.name:
                scope.names[handler.name] = SCALAR
            end = join_envs(end, self.block(handler.body, scope))
        if not node.finalbody:
            return end
        if end is None:
            self.block(node.finalbody, anywhere)
            return None
        return self.block(node.finalbody, end)

    def within_context(self, node: ast.With | ast.AsyncWith, env: Env) -> Env | None:
        """Follow a ``with``: a context manager may swallow what is raised at any point."""
        for item in node.items:
            value = self.value(item.context_expr, env)
            if item.optional_vars is not None:
                bind_all(item.optional_vars, value, env)
        if all(lets_through(item.context_expr, self.names) for item in node.items):
            return self.block(node.body, env)
        before = env.copy()
        end = self.block(node.body, env)
        anywhere = self.interrupted(node.body, before, env if end is None else end)
        anywhere.swallowed = True
        return join_envs(end, anywhere)

    def interrupted(self, body: list[ast.stmt], before: Env, after: Env) -> Env:
        """The environment where an exception left a body at any point."""
        anywhere = before.copy()
        anywhere.touched |= after.touched
        for child in body:
            for name in stored_names(child):
                anywhere.names[name] = join(before.names.get(name, ANYTHING), ANYTHING)
        return anywhere

    def match(self, node: ast.Match, env: Env) -> Env | None:
        """Follow a ``match``: any case may be taken, or none."""
        subject = self.value(node.subject, env)
        self.emit(Effect.READ, subject, node, env)
        end: Env | None = None
        for case in node.cases:
            answer = self.matches(case.pattern, subject)
            if answer is False:
                continue
            scope = env.copy()
            self.capture(case.pattern, subject, scope)
            if case.guard is not None:
                self.truth(case.guard, scope)
            end = join_envs(end, self.block(case.body, scope))
            if case.guard is None and (answer or _takes_all(case.pattern)):
                return end
        return join_envs(end, env)

    def project_call(self, node: ast.Call, target: tuple[FunctionNode, Names], env: Env) -> Value:
        """Follow a function of the project with the values of this call."""
        return self.made_call(node, Made(*target), env)

    def made_call(self, node: ast.Call, made: Made, env: Env) -> Value:
        """Follow a function with the values of this call, and those it was given before."""
        function = made.function
        bound = self.bind_arguments(node, made, env)
        cached: bool | None = False
        if not isinstance(function, ast.Lambda):
            cached = decoration(function, made.home)
        if (
            bound is None
            or cached is None
            or function in self.stack
            or len(self.stack) >= _DEPTH
            or isinstance(function, ast.AsyncFunctionDef)
            or _yields(function)
        ):
            held = [v for v in (*made.given, *(v for _, v in made.named)) if v.all_refs()]
            return self.opaque_call(node, [*held, *self.arguments(node, env)], env)
        around = dict(env.names) if function in self.inner else {}
        inner_trace = Trace()
        inner = Follower(made.home, inner_trace, (*self.stack, function))
        inner.within = f"{self.within}@{node.lineno}:{node.col_offset}"
        inner.looping, inner.inner = self.looping, set(self.inner)
        inner.devices, inner.assumed, inner.resized = self.devices, self.assumed, self.resized
        body = statements_of(function)
        inner.run(body, Env(around | bound, env.written, env.mutated, env.touched))
        for event in inner_trace.events:
            inside = event.inside or (event.node, made.home)
            self.trace.events.append(replace(event, node=node, inside=inside))
        self.trace.repeated |= inner_trace.repeated
        self.trace.undefined |= inner_trace.undefined
        for term, places in inner_trace.asked.items():
            self.trace.asked.setdefault(term, set()).update(places)
        result: Value | None = None
        end: Env | None = None
        if function in self.inner:
            self.take_back(function, bound, inner.exits, env)
        for value, left in inner.exits:
            result = value if result is None else join(result, value)
            end = join_envs(end, left)
        if end is not None:
            env.take_memory(end)
        if result is None:
            return ANYTHING
        return as_kept(result, getattr(function, "name", "lambda")) if cached else result

    def take_back(
        self,
        function: FunctionNode | ast.Lambda,
        bound: Mapping[str, Value],
        exits: list[tuple[Value, Env]],
        env: Env,
    ) -> None:
        """Take over what an inner function made of the names around it."""
        own = own_names(function) | bound.keys()
        for name in env.names.keys() - own:
            after = [left.names[name] for _, left in exits if name in left.names]
            if after:
                env.names[name] = reduce(join, after)

    def bind_arguments(self, node: ast.Call, made: Made, env: Env) -> dict[str, Value] | None:
        """The values of a function's parameters at a call, or None where that is not plain."""
        if any(isinstance(a, ast.Starred) for a in node.args):
            return None
        if any(k.arg is None for k in node.keywords):
            return None
        spec = made.function.args
        if spec.vararg or spec.kwarg:
            return None
        positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        count = len(made.given)
        if count + len(node.args) > len(positional):
            return None
        bound = dict(made.named) | dict(zip(positional, made.given, strict=False))
        for name, arg in zip(positional[count:], node.args, strict=False):
            bound[name] = self.value(arg, env)
        for keyword in node.keywords:
            bound[keyword.arg or ""] = self.value(keyword.value, env)
        for name, default in defaults_of(spec).items():
            if name not in bound:
                here = env if made.function in self.inner else Env()
                bound[name] = self.value(default, here)
        known = {*positional, *(a.arg for a in spec.kwonlyargs)}
        return bound if bound.keys() == known else None


# A function is followed anew at each of its calls, and its text stays as it is.
@lru_cache(maxsize=4096)
def _yields(function: FunctionNode | ast.Lambda) -> bool:
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function))


def _takes_all(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None
