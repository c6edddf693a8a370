"""What the parameters of a function stand for in one call of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from opscaffold.records import dataclass
from opscaffold.source.model import FunctionNode, Module
from opscaffold.source.nodes import children
from opscaffold.source.operands import DEFINITIONS, Frame, Operand, Operands

# More than anybody hands on by one star argument.
_MANY = 20


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One place that calls a function or puts it on a definition as decorator.

    ``callee`` is the function as written, ``call`` the call that applies it (None for a
    decorator, which is applied to ``decorated``).
    """

    module: Module
    callee: ast.expr
    call: ast.Call | None
    decorated: FunctionNode | None

    @property
    def written(self) -> ast.Call | None:
        """The call that stands in the text, if there is one."""
        if self.call is not None:
            return self.call
        return self.callee if isinstance(self.callee, ast.Call) else None


def bind(
    operands: Operands,
    home: Module,
    function: FunctionNode,
    use: Use,
    frame: Frame | None,
    around: Frame | None = None,
    instance: Operand | None = None,
) -> Frame:
    """Return what the parameters of ``function``, which stands in ``home``, are in one use of it.

    ``frame`` is that of the use, ``around`` what is known of the functions around. ``instance``
    is what the method is called on.
    """
    around = around or Frame()
    parameters, packed = dict(around.parameters), dict(around.packed)
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    for argument, default in zip(reversed(positional), reversed(spec.defaults), strict=False):
        parameters[argument] = Operand(home, default)
    for argument, keyword in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        if keyword is not None:
            parameters[argument] = Operand(home, keyword)
    if is_bound(home, function) and positional:
        own, *positional = positional
        if instance is not None:
            parameters[own] = instance
    if use.call is None:
        if positional and use.decorated is not None:
            parameters[positional[0]] = Operand(use.module, use.decorated)
        return Frame(parameters, packed)
    names = [argument.arg for argument in positional]
    # No parameter is called like these.
    extra = [f"*{number}" for number in range(len(use.call.args) + _MANY)]
    given = operands.arguments(use.call, use.module, frame, [*names, *extra])
    named = {a.arg: a for a in (*positional, *spec.kwonlyargs)}
    rest: dict[str | int, Operand] = {}
    surplus: list[Operand] = []
    for name, value in given.items():
        if name.startswith("*"):
            surplus.append(value)
        elif name in named:
            parameters[named[name]] = value
        else:
            rest[name] = value
    if spec.vararg is not None:
        packed[spec.vararg] = dict(enumerate(surplus))
    if spec.kwarg is not None:
        packed[spec.kwarg] = rest
    return Frame(parameters, packed)


def is_bound(home: Module, function: FunctionNode) -> bool:
    """Say whether the first parameter of a function is not given by who calls it."""
    return isinstance(home.parents.get(function), ast.ClassDef) and not any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
    )


def of_instance(operands: Operands, made: Operand, kind: Operand, around: Frame | None) -> Frame:
    """Return what the parameters of ``__init__`` are in the call that made an instance.

    ``made`` is that call, ``kind`` the class.
    """
    found = around or Frame()
    if not isinstance(kind.node, ast.ClassDef) or not isinstance(made.node, ast.Call):
        return found
    for statement in kind.node.body:
        if isinstance(statement, DEFINITIONS) and statement.name == "__init__":
            use = Use(made.module, made.node.func, made.node, None)
            return bind(operands, kind.module, statement, use, made.frame, found, made)
    return found


def returned_values(function: FunctionNode) -> Iterator[ast.expr]:
    """Yield the expressions that a function returns, in order of the text."""
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        elif not isinstance(node, (*DEFINITIONS, ast.ClassDef, ast.Lambda, ast.expr)):
            stack += reversed(children(node))
