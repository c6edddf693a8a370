"""What is evaluated in which order, and what may be evaluated at another time."""

from __future__ import annotations

import ast

from opscaffold.migrate.rebinding import may_be_rebound
from opscaffold.migrate.refusal import RefusalError
from opscaffold.source.model import Module
from opscaffold.source.nodes import walk
from opscaffold.source.project import Project

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NESTED_SCOPES = (
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def written_order(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call as they stand in the text, which is how they are evaluated."""
    arguments = [*call.args, *(k.value for k in call.keywords)]
    starts = {k.value: (k.lineno, k.col_offset) for k in call.keywords}
    return sorted(arguments, key=lambda a: starts.get(a, (a.lineno, a.col_offset)))


def enclosing(module: Module, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
    """The nearest node of these kinds that holds a node."""
    current = module.parents.get(node)
    while current is not None and not isinstance(current, kinds):
        current = module.parents.get(current)
    return current


def is_plain(module: Module, expr: ast.expr) -> bool:
    """Whether evaluating it has no effect and depends on no other evaluation.

    An attribute read counts as such, unless the file defines a property of that name.
    """
    if isinstance(expr, ast.UnaryOp):
        return is_plain(module, expr.operand)
    if isinstance(expr, ast.Attribute):
        computed = any(
            isinstance(n, ast.FunctionDef) and n.name == expr.attr and n.decorator_list
            for n in walk(module.tree)
        )
        return not computed and is_plain(module, expr.value)
    return isinstance(expr, ast.Name | ast.Constant)


def may_come_first(module: Module, call: ast.Call, argument: ast.expr, other: ast.expr) -> bool:
    """Whether an argument behind the buffer may be evaluated before it."""
    if isinstance(other, ast.UnaryOp):
        return may_come_first(module, call, argument, other.operand)
    if isinstance(other, ast.Constant):
        return True
    if not isinstance(other, ast.Name):
        return False
    quiet = is_quiet(argument) or is_own_local(module, call, other.id)
    return quiet and not any(isinstance(n, ast.NamedExpr) for n in walk(argument))


def name_for_test(project: Project, module: Module, call: ast.Call) -> str:
    """A name to bind the buffer to while it is tested."""
    owner = enclosing(module, call, (*FUNCTIONS, *NESTED_SCOPES))
    if isinstance(owner, NESTED_SCOPES):
        raise RefusalError(
            call,
            "whether the buffer is None is not known here, and it cannot be named first",
            "assign the buffer to a name outside, and pass the name",
        )
    taken = project.bindings_in_scope(module, call)
    taken |= {n.id for n in walk(module.tree) if isinstance(n, ast.Name)}
    return next(n for n in ("buffer", "out_buffer", *map("buffer_{}".format, range(2, 99)))
                if n not in taken)  # fmt: skip


def refuse_reordering(module: Module, call: ast.Call, argument: ast.expr) -> None:
    """Raise RefusalError where testing the buffer first could change what is evaluated."""
    others = [a for a in written_order(call) if a is not argument]
    before = others[: written_order(call).index(argument)]
    refusal = RefusalError(
        call,
        f"whether `{ast.unparse(argument)}` is None is not known here, and testing it first "
        "would change the order of evaluation",
        "assign it to a local name first, and pass the name",
    )
    if any(isinstance(n, ast.Await | ast.Yield | ast.YieldFrom) for n in walk(call)):
        raise refusal
    if isinstance(argument, ast.Name):
        bound = {n.target.id for o in others for n in walk(o) if isinstance(n, ast.NamedExpr)}
        if argument.id in bound or (
            not is_own_local(module, call, argument.id) and not all(map(is_quiet, before))
        ):
            raise refusal
        return
    quiet = all(is_plain(module, o) for o in before)
    if not quiet or any(isinstance(n, ast.NamedExpr) for n in walk(argument)):
        raise refusal
    calls = any(isinstance(n, ast.Call) for n in walk(argument))
    names = {n.id for o in before for n in walk(o) if isinstance(n, ast.Name)}
    if calls and not all(is_own_local(module, call, name) for name in names):
        raise refusal


def is_quiet(expr: ast.expr) -> bool:
    """Whether evaluating an expression calls nothing and binds nothing."""
    return not any(isinstance(n, ast.Call | ast.NamedExpr) for n in walk(expr))


def is_own_local(module: Module, call: ast.Call, name: str) -> bool:
    """Whether only the code around the call itself can rebind a name."""
    owner = enclosing(module, call, FUNCTIONS)
    if not isinstance(owner, FUNCTIONS):
        return False
    shared = any(isinstance(n, ast.Nonlocal | ast.Global) and name in n.names for n in walk(owner))
    parameters = {a.arg for a in walk(owner.args) if isinstance(a, ast.arg)}
    stored = {n.id for n in walk(owner) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return not shared and name in parameters | stored


def is_settled(project: Project, module: Module, call: ast.Call, name: str) -> bool:
    """Whether nothing that the arguments of a call run can rebind a name."""
    if is_own_local(module, call, name):
        return True
    if may_be_rebound(project, module, name):
        return False
    return all(map(is_quiet, written_order(call))) or not any(
        isinstance(n, ast.Nonlocal) and name in n.names for n in walk(module.tree)
    )
