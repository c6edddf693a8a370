"""What each call of a split op becomes: by which argument is the buffer, and may it be None."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opscaffold.contract.model import BaseType
from opscaffold.effects.follow import Follower, follow
from opscaffold.effects.trace import FunctionNode, Trace
from opscaffold.effects.values import ANYTHING, Env, Value, parameter
from opscaffold.migrate.edits import CallEdit, CallForm
from opscaffold.migrate.rebinding import CallerNames, may_be_rebound, stored_names
from opscaffold.migrate.refusal import RefusalError
from opscaffold.source.model import Module
from opscaffold.source.project import Project

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NESTED_SCOPES = (
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_NO_PARENTHESES = (ast.Expr, ast.Assign, ast.Return, ast.keyword, ast.Call)


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of an op as its callers see them."""

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    buffer: str

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
    index = _written_order(call).index(argument)
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
        in_order=not all(_may_come_first(module, call, argument, e) for e in behind),
    )
    if null is False:
        return edit
    test_name = "" if isinstance(argument, ast.Name) else _free_name(project, module, call)
    _refuse_reordering(module, call, argument)
    parent = module.parents[call]
    return CallEdit(
        CallForm.EITHER,
        index,
        signature.buffer,
        edit.function,
        names,
        edit.in_order,
        test_name,
        parenthesised=not isinstance(parent, _NO_PARENTHESES)
        or (isinstance(parent, ast.Call) and parent.func is call),
        column=call.col_offset,
        one_line=enclosing(module, call, (ast.JoinedStr,)) is not None,
    )


def _written_order(call: ast.Call) -> list[ast.expr]:
    arguments = [*call.args, *(k.value for k in call.keywords)]
    starts = {k.value: (k.lineno, k.col_offset) for k in call.keywords}
    return sorted(arguments, key=lambda a: starts.get(a, (a.lineno, a.col_offset)))


def nullness(project: Project, module: Module, call: ast.Call, argument: ast.expr) -> bool | None:
    """Whether an argument is None (True), is not (False), or may be either (None)."""
    names = CallerNames(project, module)
    owner = enclosing(module, call, _FUNCTIONS)
    body: Sequence[ast.stmt] = module.tree.body
    values: dict[str, Value] = {}
    if isinstance(owner, _FUNCTIONS):
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
    owner = enclosing(module, call, _FUNCTIONS)
    while owner is not None:
        outermost, owner = owner, enclosing(module, owner, _FUNCTIONS)
    names = {n.id for n in ast.walk(argument) if isinstance(n, ast.Name)}
    if any(
        isinstance(n, ast.Nonlocal | ast.Global) and not names.isdisjoint(n.names)
        for n in ast.walk(outermost)
    ):
        return True
    foreign = {name for name in names if not _is_own_local(module, call, name)}
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
    owner = enclosing(module, name, _FUNCTIONS)
    if met and isinstance(owner, _FUNCTIONS) and name.id in stored_names(owner):
        return ANYTHING
    binder = owner
    while isinstance(binder, _FUNCTIONS) and name.id not in stored_names(binder):
        binder = enclosing(module, binder, _FUNCTIONS)
    if isinstance(binder, _FUNCTIONS):
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
    owner = enclosing(module, name, (*_FUNCTIONS, ast.Lambda))
    while isinstance(owner, (*_FUNCTIONS, ast.Lambda)):
        if isinstance(owner, ast.Lambda):
            if any(isinstance(a, ast.arg) and a.arg == name.id for a in ast.walk(owner.args)):
                return ANYTHING
            owner = enclosing(module, owner, (*_FUNCTIONS, ast.Lambda))
            continue
        values = parameter_values(owner, CallerNames(project, module))
        if name.id in stored_names(owner):
            return ANYTHING if name.id in values else None
        if name.id in values:
            return values[name.id]
        owner = enclosing(module, owner, (*_FUNCTIONS, ast.Lambda))
    return None


def parameter_values(function: FunctionNode, names: CallerNames) -> dict[str, Value]:
    """What the annotations of a function say of its arguments: a plain Tensor is not None."""
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults))
    defaults += spec.defaults
    pairs = [*zip(positional, defaults, strict=True)]
    pairs += zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
    values = {}
    for arg, default in pairs:
        none_default = isinstance(default, ast.Constant) and default.value is None
        if arg.annotation is not None and not none_default and _is_tensor(arg.annotation, names):
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


def enclosing(module: Module, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
    """The nearest node of these kinds that holds a node."""
    current = module.parents.get(node)
    while current is not None and not isinstance(current, kinds):
        current = module.parents.get(current)
    return current


def _is_plain(module: Module, expr: ast.expr) -> bool:
    """Whether evaluating it has no effect and depends on no other evaluation.

    An attribute read counts as such, unless the file defines a property of that name.
    """
    if isinstance(expr, ast.UnaryOp):
        return _is_plain(module, expr.operand)
    if isinstance(expr, ast.Attribute):
        computed = any(
            isinstance(n, ast.FunctionDef) and n.name == expr.attr and n.decorator_list
            for n in ast.walk(module.tree)
        )
        return not computed and _is_plain(module, expr.value)
    return isinstance(expr, ast.Name | ast.Constant)


def _may_come_first(module: Module, call: ast.Call, argument: ast.expr, other: ast.expr) -> bool:
    """Whether an argument behind the buffer may be evaluated before it."""
    if isinstance(other, ast.UnaryOp):
        return _may_come_first(module, call, argument, other.operand)
    if isinstance(other, ast.Constant):
        return True
    if not isinstance(other, ast.Name):
        return False
    quiet = _is_quiet(argument) or _is_own_local(module, call, other.id)
    return quiet and not any(isinstance(n, ast.NamedExpr) for n in ast.walk(argument))


def _free_name(project: Project, module: Module, call: ast.Call) -> str:
    """A name to bind the buffer to while it is tested."""
    owner = enclosing(module, call, (*_FUNCTIONS, *_NESTED_SCOPES))
    if isinstance(owner, _NESTED_SCOPES):
        raise RefusalError(
            call,
            "whether the buffer is None is not known here, and it cannot be named first",
            "assign the buffer to a name outside, and pass the name",
        )
    taken = project.bindings_in_scope(module, call)
    taken |= {n.id for n in ast.walk(module.tree) if isinstance(n, ast.Name)}
    return next(n for n in ("buffer", "out_buffer", *map("buffer_{}".format, range(2, 99)))
                if n not in taken)  # fmt: skip


def _refuse_reordering(module: Module, call: ast.Call, argument: ast.expr) -> None:
    """Raise RefusalError where testing the buffer first could change what is evaluated."""
    others = [a for a in _written_order(call) if a is not argument]
    before = others[: _written_order(call).index(argument)]
    refusal = RefusalError(
        call,
        f"whether `{ast.unparse(argument)}` is None is not known here, and testing it first "
        "would change the order of evaluation",
        "assign it to a local name first, and pass the name",
    )
    if any(isinstance(n, ast.Await | ast.Yield | ast.YieldFrom) for n in ast.walk(call)):
        raise refusal
    if isinstance(argument, ast.Name):
        bound = {n.target.id for o in others for n in ast.walk(o) if isinstance(n, ast.NamedExpr)}
        if argument.id in bound or (
            not _is_own_local(module, call, argument.id) and not all(map(_is_quiet, before))
        ):
            raise refusal
        return
    quiet = all(_is_plain(module, o) for o in before)
    if not quiet or any(isinstance(n, ast.NamedExpr) for n in ast.walk(argument)):
        raise refusal
    calls = any(isinstance(n, ast.Call) for n in ast.walk(argument))
    names = {n.id for o in before for n in ast.walk(o) if isinstance(n, ast.Name)}
    if calls and not all(_is_own_local(module, call, name) for name in names):
        raise refusal


def _is_quiet(expr: ast.expr) -> bool:
    return not any(isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(expr))


def _is_own_local(module: Module, call: ast.Call, name: str) -> bool:
    """Whether only the code around the call itself can rebind a name."""
    owner = enclosing(module, call, _FUNCTIONS)
    if not isinstance(owner, _FUNCTIONS):
        return False
    shared = any(
        isinstance(n, ast.Nonlocal | ast.Global) and name in n.names for n in ast.walk(owner)
    )
    parameters = {a.arg for a in ast.walk(owner.args) if isinstance(a, ast.arg)}
    stored = {
        n.id for n in ast.walk(owner) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return not shared and name in parameters | stored
