"""Taking the returned value away from a function that is to return nothing."""

from __future__ import annotations

from typing import Any

import libcst as cst

_ALLOCATORS = frozenset({"new_empty", "empty", "new_zeros", "zeros"})


def returning_nothing(function: cst.FunctionDef) -> cst.FunctionDef:
    """The function with every return bare; what a returned expression did is still done.

    The annotation becomes ``None`` where there was one, and a bare return at the end goes.
    """
    changed = cst.ensure_type(function.body.visit(_Dropper()), type(function.body))
    if isinstance(changed, cst.IndentedBlock):
        changed = _without_last_return(changed)
    function = function.with_changes(body=changed)
    if function.returns is not None:
        none = function.returns.with_changes(annotation=cst.Name("None"))
        function = function.with_changes(returns=none)
    return function


class _Dropper(cst.CSTTransformer):
    """Drops the values of a function's own returns."""

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        """What an inner function returns stays."""
        del node
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        """A lambda holds no return."""
        del node
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        """Methods are functions of their own."""
        del node
        return False

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        """``return f(x)`` becomes ``f(x)`` and ``return``."""
        del original_node
        last = updated_node.body[-1]
        if not isinstance(last, cst.Return) or last.value is None:
            return updated_node
        bare = _bare(last)
        if _is_idle(last.value):
            return updated_node.with_changes(body=[*updated_node.body[:-1], bare])
        effect = cst.Expr(last.value)
        first = updated_node.with_changes(body=[*updated_node.body[:-1], effect])
        return cst.FlattenSentinel([first, cst.SimpleStatementLine([bare])])

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.SimpleStatementSuite:
        """The same on the line of an ``if``."""
        del original_node
        last = updated_node.body[-1]
        if not isinstance(last, cst.Return) or last.value is None:
            return updated_node
        more = [] if _is_idle(last.value) else [cst.Expr(last.value)]
        return updated_node.with_changes(body=[*updated_node.body[:-1], *more, _bare(last)])


def _bare(node: cst.Return) -> cst.Return:
    return node.with_changes(value=None, whitespace_after_return=cst.SimpleWhitespace(""))


def _is_idle(value: cst.BaseExpression) -> bool:
    """Whether evaluating it does nothing that lasts."""
    match value:
        case cst.Name() | cst.SimpleString() | cst.BaseNumber():
            return True
        case cst.Attribute(value=inner):
            return _is_idle(inner)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return all(_is_idle(e.value) for e in elements)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name)), args=args):
            return (
                name in _ALLOCATORS and _is_idle(inner) and all(_is_idle(arg.value) for arg in args)
            )
    return False


def _without_last_return(block: cst.IndentedBlock) -> cst.IndentedBlock:
    match block.body[-1]:
        case cst.SimpleStatementLine(
            body=[cst.Return(value=None)],
            leading_lines=lines,
            trailing_whitespace=cst.TrailingWhitespace(comment=None),
        ):
            kept = list(block.body[:-1])
        case cst.SimpleStatementLine(body=[*rest, cst.Return(value=None)]) as line if rest:
            rest[-1] = rest[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            return block.with_changes(body=[*block.body[:-1], line.with_changes(body=rest)])
        case _:
            return block
    comments = [line for line in lines if line.comment is not None]
    if not kept or (len(kept) == 1 and _is_docstring(kept[0]) and not comments):
        kept.append(cst.SimpleStatementLine([cst.Pass()], leading_lines=lines))
        return block.with_changes(body=kept)
    return block.with_changes(body=kept, footer=[*comments, *block.footer])


def _is_docstring(statement: cst.BaseStatement | cst.BaseSmallStatement) -> bool:
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString())]):
            return True
    return False
