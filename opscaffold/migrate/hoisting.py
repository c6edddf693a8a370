"""Whether a call may be made a statement in front of the one that it stands in."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from opscaffold.migrate.evaluation import is_plain, is_quiet, is_settled, written_order
from opscaffold.migrate.refusal import RefusalError
from opscaffold.source.model import Module
from opscaffold.source.project import Project

_REMEDY = "write the call as a statement of its own, and use its argument afterwards"


def check_hoistable(
    project: Project, module: Module, call: ast.Call, hoisted: Collection[ast.Call]
) -> ast.stmt:
    """The statement that a call stands in, in front of which it can be made.

    ``hoisted`` are calls that are made in front of their statements already. Raises RefusalError
    where the call may not be evaluated exactly once, or where what is evaluated before it could
    come out otherwise behind it.
    """
    node: ast.AST = call
    before: list[ast.AST] = []
    while not isinstance(node, ast.stmt):
        parent = module.parents[node]
        before += _before(module, parent, node, call)
        node = parent
    bound = {n.target.id for n in ast.walk(call) if isinstance(n, ast.NamedExpr)}
    quiet = all(is_quiet(a) for a in written_order(call))
    for other in before:
        if not _keeps(project, module, other, call, hoisted, bound=bound, quiet=quiet):
            text = _text(other)
            raise RefusalError(
                call,
                f"the op returns nothing now, and its call cannot be put first: `{text}` is "
                "evaluated before it and may come out otherwise",
                _REMEDY,
            )
    return node


def _text(node: ast.AST) -> str:
    """The source of an expression, also of a field of an f-string."""
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return ast.unparse(node)


def _refusal(call: ast.Call, where: str) -> RefusalError:
    return RefusalError(
        call,
        f"the op returns nothing now, and its call cannot be put before the statement: it stands "
        f"in {where}",
        _REMEDY,
    )


def _before(module: Module, parent: ast.AST, node: ast.AST, call: ast.Call) -> Sequence[ast.AST]:
    """What a node evaluates before one of its parts, which it must evaluate exactly once."""
    match parent:
        case ast.stmt():
            return _before_in_statement(module, parent, node, call)
        case ast.Call(func=func, args=args):
            if node is func:
                return []
            if node in args:
                return [func, *args[: args.index(node)]]
            earlier = parent.keywords[: parent.keywords.index(node)]  # type: ignore[arg-type]
            return [func, *args, *(k.value for k in earlier)]
        case ast.BinOp(left=left, right=right):
            return [left] if node is right else []
        case ast.Subscript(value=value):
            return [] if node is value else [value]
        case ast.BoolOp(values=values):
            if node is not values[0]:
                raise _refusal(call, f"the right side of `{_word(parent.op)}`")
            return []
        case ast.Compare(left=left, comparators=[first, *_]):
            if node is left or node is first:
                return [] if node is left else [left]
            raise _refusal(call, "a chained comparison")
        case ast.IfExp(test=test):
            if node is not test:
                raise _refusal(call, "one branch of a conditional expression")
            return []
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return parts[: parts.index(node)]  # type: ignore[arg-type]
        case ast.JoinedStr(values=parts):
            return parts[: parts.index(node)]  # type: ignore[arg-type]
        case ast.Dict():
            pairs = zip(parent.keys, parent.values, strict=True)
            every = [part for pair in pairs for part in pair if part is not None]
            return every[: every.index(node)]  # type: ignore[arg-type]
        case ast.Slice():
            bounds = [p for p in (parent.lower, parent.upper, parent.step) if p is not None]
            return bounds[: bounds.index(node)]  # type: ignore[arg-type]
        case ast.FormattedValue(value=value):
            return [] if node is value else [value]
        case (
            ast.Attribute()
            | ast.UnaryOp()
            | ast.keyword()
            | ast.Starred()
            | ast.NamedExpr()
            | ast.Await()
            | ast.Yield()
            | ast.YieldFrom()
            | ast.withitem()
        ):
            return []
        case ast.comprehension(iter=iterated):
            # The outermost iterable alone is evaluated at once, and outside.
            display = module.parents[parent]
            outermost = getattr(display, "generators", [None])[0] is parent
            if outermost and node is iterated and not parent.is_async:
                return []
            raise _refusal(call, "a comprehension")
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            if isinstance(node, ast.comprehension):
                return []
            raise _refusal(call, "a comprehension")
        case ast.Lambda():
            raise _refusal(call, "a lambda")
        case ast.arguments():
            raise _refusal(call, "the default of a parameter")
        case ast.match_case():
            raise _refusal(call, "the guard of a case")
        case ast.ExceptHandler():
            raise _refusal(call, "an except clause")
    raise _refusal(call, "an expression that is not known here")


def _word(op: ast.boolop) -> str:
    return "and" if isinstance(op, ast.And) else "or"


def _before_in_statement(
    module: Module, statement: ast.stmt, node: ast.AST, call: ast.Call
) -> Sequence[ast.AST]:
    match statement:
        case ast.Expr() | ast.Return() | ast.Match():
            return []
        case ast.Assign(value=value) | ast.AnnAssign(value=value) if node is value:
            return []
        case ast.AugAssign(target=target, value=value) if node is value:
            return [target]
        case ast.Assert(test=test) if node is test:
            # Under ``python -O`` the call used to be left out; nobody can mean that.
            return []
        case ast.Raise(exc=raised):
            return [] if node is raised or raised is None else [raised]
        case ast.If(test=test) if node is test:
            start = module.source.text.split("\n")[statement.lineno - 1].encode()
            if start[statement.col_offset :].startswith(b"elif"):
                raise _refusal(call, "the test of an `elif`")
            return []
        case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated) if node is iterated:
            return []
        case ast.With(items=items) | ast.AsyncWith(items=items):
            if node is items[0] and _holds(items[0].context_expr, call):
                return []
            raise _refusal(call, "a later item of a `with`")
        case ast.While():
            raise _refusal(call, "the test of a loop")
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            raise _refusal(call, "the head of a definition")
    raise _refusal(call, "a place that it cannot be taken out of")


def _holds(expr: ast.AST, call: ast.Call) -> bool:
    return any(n is call for n in ast.walk(expr))


def _keeps(
    project: Project,
    module: Module,
    other: ast.AST,
    call: ast.Call,
    hoisted: Collection[ast.Call],
    *,
    bound: set[str],
    quiet: bool,
) -> bool:
    """Whether an expression comes out the same behind the call.

    ``bound`` are the names that the call's arguments bind, ``quiet`` says that they call nothing.
    """
    match other:
        case ast.Constant():
            return True
        case ast.Call():
            # It is put in front as well, before this one: what is left of it is a name.
            return other in hoisted and quiet
        case ast.Name(id=name):
            if name in bound:
                return False
            return is_settled(project, module, call, name)
        case ast.Attribute():
            target = project.resolve(module, other).certain
            known = target is not None and (target.is_module or target.dotted is not None)
            root = other.value
            return (known or (quiet and is_plain(module, other))) and _keeps(
                project, module, root, call, hoisted, bound=bound, quiet=quiet
            )
        case ast.UnaryOp(operand=ast.Constant()):
            return True
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(
                _keeps(project, module, p, call, hoisted, bound=bound, quiet=quiet) for p in parts
            )
        case ast.keyword(value=value):
            return _keeps(project, module, value, call, hoisted, bound=bound, quiet=quiet)
    return False
