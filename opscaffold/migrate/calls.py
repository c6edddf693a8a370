"""What each call of a split op becomes: by which argument is the buffer, and may it be None."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from opscaffold.contract.model import BaseType
from opscaffold.effects.follow import Follower, follow
from opscaffold.effects.trace import FunctionNode, Trace
from opscaffold.effects.values import ANYTHING, Env, Value, parameter
from opscaffold.migrate.edits import CallEdit, CallForm
from opscaffold.migrate.evaluation import (
    FUNCTIONS,
    enclosing,
    is_own_local,
    may_come_first,
    name_for_test,
    refuse_reordering,
    written_order,
)
from opscaffold.migrate.passed_none import may_be_passed_none
from opscaffold.migrate.rebinding import CallerNames, may_be_rebound, stored_names
from opscaffold.migrate.refusal import RefusalError
from opscaffold.source.model import Module
from opscaffold.source.project import Project

_NO_PARENTHESES = (ast.Expr, ast.Assign, ast.Return, ast.keyword, ast.Call)


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of an op as its callers see them.

    ``into`` says where the mutable half takes the buffer by position, returning nothing; None
    where it takes it as a keyword-only out= and returns it.
    """

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    buffer: str
    into: int | None = None

    @classmethod
    def of(cls, function: FunctionNode | ast.Lambda, buffer: str) -> Signature:
        """The signature of a kernel."""
        spec = function.args
        return cls(
            tuple(a.arg for a in (*spec.posonlyargs, *spec.args)),
            tuple(a.arg for a in spec.kwonlyargs),
            buffer,
        )

    @property
    def slot(self) -> int | None:
        """The position of the buffer, None where it is keyword-only."""
        return self.positional.index(self.buffer) if self.buffer in self.positional else None


def buffer_argument(call: ast.Call, signature: Signature) -> ast.expr | None:
    """The argument that a call passes as the buffer, or None where it passes none.

    Raises RefusalError where that cannot be told (star arguments), or the call does not fit.
    """
    if any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg is None for k in call.keywords
    ):
        raise RefusalError(
            call,
            "a call with star arguments may pass the buffer or not",
            "spell the arguments out",
        )
    known = {*signature.positional, *signature.keyword_only}
    if len(call.args) > len(signature.positional) or any(k.arg not in known for k in call.keywords):
        raise RefusalError(call, "a call does not fit the op's signature", "mend the call")
    for keyword in call.keywords:
        if keyword.arg == signature.buffer:
            return keyword.value
    slot = signature.slot
    return call.args[slot] if slot is not None and slot < len(call.args) else None


def plan_call(
    project: Project,
    module: Module,
    call: ast.Call,
    signature: Signature,
    function: Callable[[], str],
) -> CallEdit | None:
    """Decide what a call becomes, or None where it stays as it is.

    ``function`` gives the text of the expression that the out= op is to be called by; it is
    asked for only where a call needs it. Raises RefusalError where the right form cannot be
    told, or not be written without changing the order of evaluation.
    """
    argument = buffer_argument(call, signature)
    if argument is None:
        return None
    index = written_order(call).index(argument)
    behind = call.args[call.args.index(argument) + 1 :] if argument in call.args else []
    names = signature.positional[len(call.args) - len(behind) : len(call.args)]
    null = nullness(project, module, call, argument)
    if null is True:
        if not isinstance(argument, ast.Constant | ast.Name):
            raise RefusalError(
                call, f"`{ast.unparse(argument)}` is None here, but evaluating it may matter",
                "leave the argument out",
            )  # fmt: skip
        return CallEdit(CallForm.FRESH, index, signature.buffer)
    edit = CallEdit(
        CallForm.GIVEN,
        index,
        signature.buffer,
        function(),
        keywords=names,
        in_order=not all(may_come_first(module, call, argument, e) for e in behind),
        places=() if signature.into is None else _places(module, call, argument, signature),
    )
    if null is False:
        return edit
    test_name = "" if isinstance(argument, ast.Name) else name_for_test(project, module, call)
    refuse_reordering(module, call, argument)
    parent = module.parents[call]
    return replace(
        edit,
        form=CallForm.EITHER,
        test_name=test_name,
        parenthesised=not isinstance(parent, _NO_PARENTHESES)
        or (isinstance(parent, ast.Call) and parent.func is call),
        column=call.col_offset,
        one_line=enclosing(module, call, (ast.JoinedStr,)) is not None,
    )


def _places(
    module: Module, call: ast.Call, argument: ast.expr, signature: Signature
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """How the buffer can be passed where the new op takes it by position."""
    into = signature.into or 0
    order = written_order(call)
    index = order.index(argument)
    others = [p for p in signature.positional if p != signature.buffer]
    names = dict(zip(call.args, signature.positional, strict=False))
    found = []
    rest = [a for a in order if a is not argument]
    passed = rest[min(into, index) : max(into, index)]
    if len([a for a in call.args if a is not argument]) >= into and all(
        may_come_first(module, call, argument, a) or may_come_first(module, call, a, argument)
        for a in passed
    ):
        found.append((into, ("",) * len(order)))
    by_name, written = False, []
    for place, value in enumerate(order):
        if value is argument:
            own, wanted = signature.buffer, into
        elif value in names:
            own = names[value]
            wanted = others.index(own) + (others.index(own) >= into)
        else:
            own, wanted = "", -1
        by_name = by_name or wanted != place
        written.append(own if by_name else "")
    found.append((index, tuple(written)))
    return tuple(dict.fromkeys(found))


def nullness(project: Project, module: Module, call: ast.Call, argument: ast.expr) -> bool | None:
    """Whether an argument is None (True), is not (False), or may be either (None)."""
    names = CallerNames(project, module)
    owner = enclosing(module, call, FUNCTIONS)
    body: Sequence[ast.stmt] = module.tree.body
    values: dict[str, Value] = {}
    if isinstance(owner, FUNCTIONS):
        body, values = owner.body, parameter_values(owner, names)
        values |= _tensors_passed(owner, call, argument, names)
    trace = follow(body, values, names, ask=[argument])
    answers = trace.nulls[argument]
    if answers in ({True}, {False}):
        rebound = _is_rebound_elsewhere(project, module, call, argument)
        return None if rebound else answers == {True}
    if True in answers or False in answers:
        return None
    # Out of the sight of the statements followed: in a lambda, or bound in a scope around.
    return _settled(project, module, argument, met=bool(answers)).null


def _tensors_passed(
    owner: FunctionNode, call: ast.Call, argument: ast.expr, names: CallerNames
) -> dict[str, Value]:
    """The parameters that a call passes for plain Tensors, beside the buffer."""
    contract = names.op(call.func)
    if contract is None or any(isinstance(a, ast.Starred) for a in call.args):
        return {}
    wanted = {p.name for p in contract.parameters if p.type == BaseType("Tensor")}
    positional = [p.name for p in contract.parameters if not p.kw_only]
    pairs = [*zip(positional, call.args, strict=False)]
    pairs += [(k.arg or "", k.value) for k in call.keywords]
    passed = {
        a.id
        for name, a in pairs
        if name in wanted and isinstance(a, ast.Name) and a is not argument
    }
    spec = owner.args
    own = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    return {name: parameter(name) for name in passed & own - set(stored_names(owner))}


def _is_rebound_elsewhere(
    project: Project, module: Module, call: ast.Call, argument: ast.expr
) -> bool:
    """Whether other code may rebind a name in an argument between its uses here."""
    outermost: ast.AST = module.tree
    owner = enclosing(module, call, FUNCTIONS)
    while owner is not None:
        outermost, owner = owner, enclosing(module, owner, FUNCTIONS)
    names = {n.id for n in ast.walk(argument) if isinstance(n, ast.Name)}
    if any(
        isinstance(n, ast.Nonlocal | ast.Global) and not names.isdisjoint(n.names)
        for n in ast.walk(outermost)
    ):
        return True
    foreign = {name for name in names if not is_own_local(module, call, name)}
    foreign |= {n.attr for n in ast.walk(argument) if isinstance(n, ast.Attribute)}
    return any(may_be_rebound(project, module, name) for name in foreign)


def _settled(
    project: Project, module: Module, expr: ast.expr, depth: int = 4, *, met: bool = False
) -> Value:
    """The value of an expression as far as names that are bound once tell.

    ``met`` says that the statements around were followed to it: what they bind is known as far
    as can be.
    """
    env = Env()
    for node in ast.walk(expr):
        if isinstance(node, ast.Name) and depth:
            env.names[node.id] = _settled_name(project, module, node, depth, met=met)
    return Follower(CallerNames(project, module), Trace()).value(expr, env)


def _settled_name(
    project: Project, module: Module, name: ast.Name, depth: int, *, met: bool
) -> Value:
    given = _parameter_around(project, module, name)
    if given is not None:
        return given
    owner = enclosing(module, name, FUNCTIONS)
    if met and isinstance(owner, FUNCTIONS) and name.id in stored_names(owner):
        return ANYTHING
    binder = owner
    while isinstance(binder, FUNCTIONS) and name.id not in stored_names(binder):
        binder = enclosing(module, binder, FUNCTIONS)
    if isinstance(binder, FUNCTIONS):
        if stored_names(binder).count(name.id) > 1:
            return ANYTHING
    elif may_be_rebound(project, module, name.id):
        return ANYTHING
    target = project.resolve(module, name).certain
    if target is None or target.module is None or not isinstance(target.node, ast.expr):
        return ANYTHING
    if target.is_none or any(
        may_be_rebound(project, step.module, step.alias.name) for step in target.via
    ):
        # A module that binds None means to bind something else in time.
        return ANYTHING
    return _settled(project, target.module, target.node, depth - 1)


def _parameter_around(project: Project, module: Module, name: ast.Name) -> Value | None:
    """The value of a parameter of a function around, which nothing rebinds."""
    owner = enclosing(module, name, (*FUNCTIONS, ast.Lambda))
    while isinstance(owner, (*FUNCTIONS, ast.Lambda)):
        if isinstance(owner, ast.Lambda):
            if any(isinstance(a, ast.arg) and a.arg == name.id for a in ast.walk(owner.args)):
                return ANYTHING
            owner = enclosing(module, owner, (*FUNCTIONS, ast.Lambda))
            continue
        values = parameter_values(owner, CallerNames(project, module))
        if name.id in stored_names(owner):
            return ANYTHING if name.id in values else None
        if name.id in values:
            return values[name.id]
        owner = enclosing(module, owner, (*FUNCTIONS, ast.Lambda))
    return None


def parameter_values(function: FunctionNode, names: CallerNames) -> dict[str, Value]:
    """What the annotations of a function say of its arguments.

    A plain Tensor is not None, unless a caller passes that all the same.
    """
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults))
    defaults += spec.defaults
    pairs = [*zip(positional, defaults, strict=True)]
    pairs += zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
    values = {}
    for arg, default in pairs:
        none_default = isinstance(default, ast.Constant) and default.value is None
        declared = arg.annotation is not None and _is_tensor(arg.annotation, names)
        if (
            declared
            and not none_default
            and not may_be_passed_none(names.project, function, arg.arg)
        ):
            values[arg.arg] = parameter(arg.arg)
        else:
            values[arg.arg] = ANYTHING
    for star in (spec.vararg, spec.kwarg):
        if star is not None:
            values[star.arg] = ANYTHING
    return values


def _is_tensor(annotation: ast.expr, names: CallerNames) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.strip() in {"Tensor", "torch.Tensor"}
    return names.dotted(annotation) in {
        "torch.Tensor",
        "torch.nn.Parameter",
        "torch.nn.parameter.Parameter",
    }
