"""Following expressions: what each evaluates to, and what its evaluation does to memory."""

from __future__ import annotations

import ast
from dataclasses import replace

from opscaffold.effects import arrays, aten, terms
from opscaffold.effects.conditions import Conditions
from opscaffold.effects.conversions import RETYPING, dtype_of, stands_on
from opscaffold.effects.trace import Effect
from opscaffold.effects.values import (
    ANYTHING,
    NONE,
    SCALAR,
    UNSEEN,
    Env,
    Made,
    Value,
    gathered,
    is_made_once,
    join,
    merged,
)

_DISPLAYED = 16  # elements of a repeated display that are told apart


class Expressions(Conditions):
    """Evaluates expressions in an environment and records what it sees in ``trace``."""

    def call(self, node: ast.Call, env: Env) -> Value:
        """Evaluate a call. Overridden where calls are understood."""
        return self.opaque_call(node, self.arguments(node, env), env)

    def launcher(self, expr: ast.expr, env: Env) -> Made | None:
        """The kernel that an expression launches. Overridden where launches are understood."""
        del expr, env
        return None

    def value(self, expr: ast.expr, env: Env) -> Value:
        """Evaluate an expression."""
        result = self._value(expr, env)
        if expr in self.trace.nulls:
            self.trace.nulls[expr].add(result.null)
        return result

    def _value(self, expr: ast.expr, env: Env) -> Value:
        match expr:
            case ast.Constant():
                if expr.value is None:
                    return NONE
                term = terms.of_constant(expr.value)
                return Value(null=False, truth=bool(expr.value), term=term)
            case ast.Name():
                return self.lookup(expr, env)
            case ast.NamedExpr():
                result = self.value(expr.value, env)
                env.names[expr.target.id] = result
                return result
            case ast.IfExp():
                return self.conditional(expr, env)
            case ast.BoolOp():
                return self.bool_op(expr, env)
            case ast.Compare():
                return self.compared(expr, env)
            case ast.UnaryOp(op=ast.Not()):
                return Value(null=False, truth=self.truth(expr, env), term=self.tested)
            case ast.Call():
                return self.call(expr, env)
            case ast.Attribute():
                return self.attribute(expr, env)
            case ast.Subscript():
                return self.subscript(expr, env)
            case ast.BinOp():
                return self.arithmetic(expr, env)
            case ast.UnaryOp():
                operand = self.value(expr.operand, env)
                self.read([operand], expr, env)
                number = terms.number_of(operand)
                if isinstance(expr.op, ast.USub) and number is not None:
                    return Value(False, number != 0, term=terms.of_constant(-number))
                if isinstance(expr.op, ast.UAdd):
                    return operand.viewed(whole=True)
                return self.computed(expr, [operand], type(expr.op).__name__)
            case ast.Tuple() | ast.List():
                parts = [self.value(e, env) for e in expr.elts]
                if any(isinstance(e, ast.Starred) for e in expr.elts):
                    return gathered(parts)
                listed = isinstance(expr, ast.List)
                return Value(null=False, items=tuple(parts), container=listed)
            case ast.Starred():
                return self.value(expr.value, env).element()
            case ast.JoinedStr():
                for part in expr.values:
                    if isinstance(part, ast.FormattedValue):
                        self.read([self.value(part.value, env)], expr, env)
                return SCALAR
            case ast.Lambda():
                self.captured(expr, env)
                self.inner.add(expr)
                return Value(null=False, truth=True, made=Made(expr, self.names))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(expr, env)
            case ast.Dict(keys=[*keys], values=[*held]) if all(
                isinstance(key, ast.Constant) for key in keys
            ):
                names = tuple(literal_key(key) for key in keys if key is not None)
                if len(set(names)) == len(names) == len(held):
                    items = tuple(self.value(e, env) for e in held)
                    return Value(null=False, items=items, container=True, keys=names)
                return gathered(self.value(e, env) for e in held)
            case ast.Dict() | ast.Set():
                return gathered(self.value(e, env) for e in _operands(expr))
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

    def arithmetic(self, expr: ast.BinOp, env: Env) -> Value:
        """The result of an operator: lists are joined, numbers and tensors make new ones."""
        left, right = self.value(expr.left, env), self.value(expr.right, env)
        lists = [v for v in (left, right) if v.container or v.items is not None]
        times = literal_key(expr.right)
        held = left.items if isinstance(expr.op, ast.Mult) and left.keys is None else None
        if held is not None and isinstance(times, int) and times * len(held) <= _DISPLAYED:
            return replace(left, items=held * times, term=None)
        if lists and isinstance(expr.op, ast.Add | ast.Mult):
            if len(lists) == 2 and left.items is not None and right.items is not None:
                return Value(False, items=left.items + right.items, container=left.container)
            return merged(lists)
        self.read([left, right], expr, env)
        return self.computed(expr, [left, right], type(expr.op).__name__)

    def computed(self, expr: ast.expr, operands: list[Value], how: str = "") -> Value:
        """The result of arithmetic: a new tensor where an operand may be one."""
        if any(value.all_refs() for value in operands):
            return self.new(expr)
        return replace(SCALAR, term=terms.of_parts(how, operands) if how else None)

    def attribute(self, expr: ast.Attribute, env: Env) -> Value:
        """Evaluate an attribute that is not called."""
        dotted = self.names.dotted(expr)
        if dotted is not None:
            known = dotted.startswith("torch.")
            dtype = dtype_of(expr, self.names)
            named = f"={dotted}" if known and dotted.count(".") == 1 else dotted
            named = named if dtype is None else f"=torch.{dtype}"
            return Value(null=False if known else None, term=named)
        owner = self.value(expr.value, env)
        if not owner.all_refs() - {UNSEEN} and not _is_local(expr, env):
            found = self.outside(expr)
            if found is not None:
                return found
        return self.attribute_of(owner, expr.attr)

    def attribute_of(self, owner: Value, name: str) -> Value:
        """An attribute of a value, where it is no attribute of what is bound outside."""
        term = self.metadata_term(owner, name)
        if not owner.all_refs():
            return Value(term=term)
        null = False if owner.is_tensor else None
        if name in aten.METADATA_ATTRIBUTES:
            truth = stands_on(owner, name, self.devices)
            nullable = name in aten.NULLABLE_ATTRIBUTES
            return Value(null=None if nullable else null, truth=truth, term=term)
        arrays_only = all(r.array for r in owner.refs)
        if arrays_only and owner.refs and name in arrays.VIEW_ATTRIBUTES:
            return owner.viewed()
        if name in RETYPING:
            owner = replace(owner, refs=frozenset(replace(r, dtype="") for r in owner.refs))
        if name in aten.VIEW_ATTRIBUTES:
            return replace(owner.viewed(whole=name in aten.WHOLE_VIEWS), null=null)
        if name in aten.FIELDS and all(r.several for r in owner.refs):
            return replace(owner.element(name), null=False)
        return Value(refs=owner.guessed() | {UNSEEN})

    def subscript(self, expr: ast.Subscript, env: Env) -> Value:
        """Evaluate an index or a slice: basic ones are views, all others copies or unknown."""
        kernel = self.launcher(expr, env)
        if kernel is not None:
            return Value(null=False, made=kernel)
        owner, index = self.value(expr.value, env), self.value(expr.slice, env)
        position = _literal_index(expr.slice)
        key = literal_key(expr.slice)
        known = None if key is None else owner.at(key)
        if known is not None:
            return known
        if not owner.all_refs():
            named = not owner.container and position is not None and owner.term is not None
            return Value(term=f"{owner.term}[{position}]" if named else None)
        if isinstance(expr.slice, ast.Slice):
            part = sliced(owner, expr.slice)
            if part is not None:
                return part
        inside = owner.container or owner.items is not None
        if inside and key is not None and len(owner.roots) > 1:
            # Which of the elements that is cannot be told.
            return Value(refs=owner.guessed() | {UNSEEN})
        if not inside and _is_point(expr.slice):
            return owner.element()
        if not inside and _gathers(expr.slice, index):
            # Indexing by a tensor or a list gathers into a new tensor.
            self.read([owner, index], expr, env)
            return self.new(expr)
        if index.all_refs() and not inside:
            self.read([owner], expr, env)
            return Value(null=False, refs=owner.guessed())
        if not inside and covers_all(expr.slice) and not any(r.several for r in owner.refs):
            return owner.viewed(whole=True)
        if owner.items and not _has_slice(expr.slice):
            return _either(owner.items)
        # An element of a list or dict may be None; a slice of anything is not.
        viewed = owner.element("*" if position is None else position)
        sure = _has_slice(expr.slice) or (not inside and owner.is_tensor)
        return replace(viewed, null=False if sure else None)

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
        before = self.within
        for generator in expr.generators:
            self.bind_each(generator.target, self.iterate(generator.iter, scope), scope)
            for test in generator.ifs:
                self.truth(test, scope)
                scope = self.narrow(test, scope, True)
        elements = [expr.key, expr.value] if isinstance(expr, ast.DictComp) else [expr.elt]
        self.within = f"{before}#{expr.lineno}:{expr.col_offset}"
        self.looping += 1
        values = [self.value(e, scope) for e in elements]
        made, self.within = self.within, before
        self.looping -= 1
        env.touched |= scope.touched
        refs = gathered(values).refs
        # What each round made anew is separate; what was there before is the same every time.
        kept = {r for r in refs if is_made_once(r) and made not in r.root}
        views = {replace(r, exact=False, whole=False, several=True) for r in kept}
        return Value(False, refs=frozenset(refs - kept | views), container=True)

    def iterate(self, expr: ast.expr, env: Env) -> Value:
        """What a loop over an expression binds in each round."""
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name) and not expr.keywords:
            name, plain = expr.func.id, not any(isinstance(a, ast.Starred) for a in expr.args)
            if name == "enumerate" and plain and expr.args:
                values = [self.value(a, env) for a in expr.args]
                return Value(null=False, items=(SCALAR, values[0].element()))
            if name == "zip" and plain:
                return Value(False, items=tuple(self.value(a, env).element() for a in expr.args))
            if name == "range":
                self.read([self.value(a, env) for a in expr.args], expr, env)
                return SCALAR
        value = self.value(expr, env)
        pairs = isinstance(expr, ast.Call) and not expr.args and not expr.keywords
        if pairs and isinstance(expr, ast.Call) and getattr(expr.func, "attr", "") == "items":
            return Value(null=False, items=(SCALAR, value.element()))
        return _either(value.items) if value.items else value.element()

    def bind_each(self, target: ast.expr, value: Value, env: Env) -> None:
        """Bind the target of a loop to what one round yields."""
        if isinstance(target, ast.Name):
            env.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            same = value.items is not None and len(value.items) == len(target.elts)
            for number, part in enumerate(target.elts):
                inner = value.items[number] if same and value.items else value.element()
                self.bind_each(part, inner, env)
        elif isinstance(target, ast.Starred):
            self.bind_each(target.value, value, env)


def sliced(owner: Value, index: ast.Slice) -> Value | None:
    """A slice of a list, as far as it is told which elements that are; None for other values."""
    bounds = [
        None if b is None else _literal_index(b) for b in (index.lower, index.upper, index.step)
    ]
    written = all(
        b is None or n is not None
        for b, n in zip((index.lower, index.upper, index.step), bounds, strict=True)
    )
    if owner.items is not None and owner.keys is None and written and bounds[2] != 0:
        return Value(False, items=owner.items[slice(*bounds)], container=owner.container)
    if not owner.container:
        return None
    lower, upper = bounds[0] or 0, bounds[1]
    last = upper is None and index.upper is None and lower == -1
    one = last or (upper is not None and upper - lower == 1 and upper * lower >= 0)
    if not written or bounds[2] is not None or not one:
        return merged([owner])
    return replace(merged([owner.element()]), container=True)


def bind_all(target: ast.expr, value: Value, env: Env) -> None:
    """Bind every name in a target to what may be a value, or anything else."""
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            env.names[node.id] = Value(None, None, value.all_refs() | {UNSEEN})


def covers_all(index: ast.expr) -> bool:
    """Whether an index of a tensor takes every element."""
    match index:
        case ast.Slice():
            return index.lower is None and index.upper is None and index.step is None
        case ast.Tuple():
            return bool(index.elts) and all(covers_all(part) for part in index.elts)
    return isinstance(index, ast.Constant) and index.value is Ellipsis


def _has_slice(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(p, ast.Slice) for p in parts)


def _either(values: tuple[Value, ...]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result


def _literal_index(index: ast.expr) -> int | None:
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
        inner = _literal_index(index.operand)
        return None if inner is None else -inner
    value = index.value if isinstance(index, ast.Constant) else None
    return value if isinstance(value, int) else None


def literal_key(index: ast.expr) -> int | str | None:
    """A literal index or key of a list or dict, None for anything else."""
    number = _literal_index(index)
    if number is not None:
        return number
    value = index.value if isinstance(index, ast.Constant) else None
    return value if isinstance(value, str) else None


def _is_point(index: ast.expr) -> bool:
    """Whether an index is a tensor without dimensions, which counts as a number."""
    match index:
        case ast.Call(func=ast.Attribute(attr="argmax" | "argmin"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="tensor"), args=[ast.Constant() | ast.Name(), *_]):
            return True
    return False


def _gathers(index: ast.expr, value: Value) -> bool:
    """Whether an index surely is, or holds, a tensor or a list."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    # A Python bool masks, and so copies, as a tensor of them does.
    if any(isinstance(p, ast.List | ast.ListComp | ast.Compare) for p in parts):
        return True
    if any(isinstance(p, ast.Constant) and isinstance(p.value, bool) for p in parts):
        return True
    values = value.items if isinstance(index, ast.Tuple) and value.items is not None else (value,)
    return any(v.container or v.all_refs() - {UNSEEN} for v in values)


def _is_local(expr: ast.expr, env: Env) -> bool:
    while isinstance(expr, ast.Attribute):
        expr = expr.value
    return not isinstance(expr, ast.Name) or (
        expr.id in env.names and expr.id not in {"self", "cls"}
    )


def _operands(node: ast.AST) -> list[ast.expr]:
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
