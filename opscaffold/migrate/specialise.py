"""Rewriting a body for tests whose outcome is known, keeping comments and layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import libcst as cst

from opscaffold.migrate.sequences import remove_at
from opscaffold.migrate.syntax import Key

_Flat = cst.FlattenSentinel[cst.BaseStatement]
Statement = cst.BaseStatement


class Specialiser(cst.CSTTransformer):
    """Replaces decided tests by their outcome.

    ``decided`` maps the span of a test to its outcome, ``chosen`` the span of an ``a or b`` to
    whether ``a`` is the result, ``nones`` are the spans of names that stand for None, and
    ``absent`` those of them that are passed to torch as ``out=``. Branches not taken go, with the
    comments inside them; branches taken are dedented in place, with the comments around their
    test.
    """

    def __init__(
        self,
        spans: Mapping[cst.CSTNode, Key],
        decided: Mapping[Key, bool],
        chosen: Mapping[Key, bool],
        nones: AbstractSet[Key] = frozenset(),
        absent: AbstractSet[Key] = frozenset(),
    ) -> None:
        super().__init__()
        self.nones = nones
        self.absent = absent
        self.spans = spans
        self.decided = decided
        self.chosen = chosen
        self._elifs: set[cst.If] = set()
        self._after: dict[int, tuple[cst.EmptyLine, ...]] = {}

    def truth(self, node: cst.BaseExpression) -> bool | None:
        """The known outcome of a test, or None."""
        known = self.decided.get(self.spans.get(node, (-1, -1)))
        if known is not None:
            return known
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            inner = self.truth(node.expression)
            return None if inner is None else not inner
        if isinstance(node, cst.BooleanOperation):
            stop = isinstance(node.operator, cst.Or)
            sides = (self.truth(node.left), self.truth(node.right))
            if stop in sides:
                return stop
            return None if None in sides else not stop
        return None

    def visit_If(self, node: cst.If) -> None:
        """Remember which ``if`` is an ``elif``: it cannot be flattened where it stands."""
        if isinstance(node.orelse, cst.If):
            self._elifs.add(node.orelse)

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> Any:
        """Keep the branch that is taken."""
        outcome = self.truth(original_node.test)
        if outcome is None:
            return updated_node
        if original_node in self._elifs:
            if outcome:
                return cst.Else(body=updated_node.body, leading_lines=updated_node.leading_lines)
            return updated_node.orelse or cst.RemoveFromParent()
        if outcome:
            return self._flatten(updated_node.leading_lines, updated_node.body)
        rest = updated_node.orelse
        if rest is None:
            return cst.RemoveFromParent()
        lines = (*_comments(updated_node.leading_lines), *rest.leading_lines)
        if isinstance(rest, cst.If):
            return rest.with_changes(leading_lines=(*_blank(updated_node.leading_lines), *lines))
        return self._flatten((*_blank(updated_node.leading_lines), *lines), rest.body)

    def _flatten(self, lines: Sequence[cst.EmptyLine], body: cst.BaseSuite) -> _Flat:
        statements: list[Statement] = []
        if isinstance(body, cst.IndentedBlock):
            statements = list(body.body)
            if body.header.comment is not None:
                lines = (*lines, cst.EmptyLine(comment=body.header.comment))
            footer = _comments(body.footer)
        elif isinstance(body, cst.SimpleStatementSuite):
            statements = [
                cst.SimpleStatementLine(body.body, trailing_whitespace=body.trailing_whitespace)
            ]
            footer = ()
        statements[0] = with_lines_before(statements[0], lines)
        if footer:
            self._after[id(statements[-1])] = footer
        return cst.FlattenSentinel(statements)

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.BaseExpression:
        """Keep the arm that is taken."""
        outcome = self.truth(original_node.test)
        if outcome is None:
            return updated_node
        return _in_place_of(updated_node, updated_node.body if outcome else updated_node.orelse)

    def leave_BooleanOperation(
        self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation
    ) -> cst.BaseExpression:
        """Fold a decided operand away, or the whole operation."""
        chosen = self.chosen.get(self.spans.get(original_node, (-1, -1)))
        if chosen is not None:
            return _in_place_of(updated_node, updated_node.left if chosen else updated_node.right)
        if self.truth(original_node) is not None:
            return _constant(self.truth(original_node))
        if self.truth(original_node.left) is not None:
            return _in_place_of(updated_node, updated_node.right)
        if self.truth(original_node.right) is not None:
            return _in_place_of(updated_node, updated_node.left)
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        """A name known to be None, which is no longer a parameter."""
        if self.spans.get(original_node, (-1, -1)) in self.nones:
            return updated_node.with_changes(value="None")
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """``out=None`` is what leaving ``out=`` out means, to PyTorch."""
        for index, arg in enumerate(original_node.args):
            key = self.spans.get(arg.value, (-1, -1))
            if arg.keyword is not None and arg.keyword.value == "out" and key in self.absent:
                return updated_node.with_changes(args=remove_at(updated_node.args, index))
        return updated_node

    def leave_Comparison(
        self, original_node: cst.Comparison, updated_node: cst.Comparison
    ) -> cst.BaseExpression:
        """A decided comparison is a constant."""
        outcome = self.truth(original_node)
        return updated_node if outcome is None else _constant(outcome)

    def leave_UnaryOperation(
        self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation
    ) -> cst.BaseExpression:
        """A decided negation is a constant."""
        if not isinstance(original_node.operator, cst.Not):
            return updated_node
        outcome = self.truth(original_node)
        return updated_node if outcome is None else _constant(outcome)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        """Drop what specialising left without effect: ``out = out``, ``assert True``."""
        del original_node
        kept = [s for s in updated_node.body if not _is_idle(s)]
        if len(kept) == len(updated_node.body):
            return updated_node
        if not kept:
            return cst.RemoveFromParent()
        return updated_node.with_changes(body=kept)

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        """Drop statements that can no longer be reached, and put comments where they belong."""
        shrunk = len(updated_node.body) != len(original_node.body)
        body: list[Statement] = []
        pending: tuple[cst.EmptyLine, ...] = ()
        for statement in updated_node.body:
            if body and ends(body[-1]) and not ends_originally(original_node, body[-1]):
                pending = ()
                break
            after = self._after.pop(id(statement), ())
            body.append(with_lines_before(statement, pending) if pending else statement)
            pending = after
        if not body:
            body = [cst.SimpleStatementLine([cst.Pass()])]
        footer = (*pending, *updated_node.footer)
        if shrunk and original_node.body and updated_node.body:
            body[0] = _tidy_first(body[0], original_node.body[0])
        return updated_node.with_changes(body=body, footer=footer)


def ends(statement: cst.BaseStatement) -> bool:
    """Whether control never passes this statement."""
    if isinstance(statement, cst.SimpleStatementLine):
        return any(
            isinstance(s, cst.Return | cst.Raise | cst.Continue | cst.Break) for s in statement.body
        )
    if isinstance(statement, cst.If):
        rest = statement.orelse
        if rest is None or not _suite_ends(statement.body):
            return False
        return ends(rest) if isinstance(rest, cst.If) else _suite_ends(rest.body)
    return False


def _suite_ends(suite: cst.BaseSuite) -> bool:
    if isinstance(suite, cst.IndentedBlock):
        last = suite.body[-1]
        return isinstance(last, cst.BaseStatement) and ends(last)
    return any(isinstance(s, cst.Return | cst.Raise) for s in suite.body)


def ends_originally(block: cst.IndentedBlock, statement: cst.BaseStatement) -> bool:
    """Whether this very statement stood in the block, ending it, before specialising."""
    return any(statement is original for original in block.body)


def with_lines_before(
    statement: cst.BaseStatement, lines: Iterable[cst.EmptyLine]
) -> cst.BaseStatement:
    """The statement with more lines ahead of its own leading lines."""
    own: Sequence[cst.EmptyLine] = statement.leading_lines  # type: ignore[attr-defined]
    return statement.with_changes(leading_lines=(*lines, *own))


def _comments(lines: Iterable[cst.EmptyLine]) -> tuple[cst.EmptyLine, ...]:
    return tuple(line for line in lines if line.comment is not None)


def _blank(lines: Sequence[cst.EmptyLine]) -> tuple[cst.EmptyLine, ...]:
    found = []
    for line in lines:
        if line.comment is not None:
            break
        found.append(line)
    return tuple(found)


def _tidy_first(
    statement: cst.BaseStatement, original: cst.BaseStatement | cst.BaseSmallStatement
) -> cst.BaseStatement:
    """A statement that moved to the head of its block needs no blank lines before it."""
    if statement is original:
        return statement
    lines: Sequence[cst.EmptyLine] = statement.leading_lines  # type: ignore[attr-defined]
    return statement.with_changes(leading_lines=lines[len(_blank(lines)) :])


def _constant(value: bool | None) -> cst.Name:
    return cst.Name("True" if value else "False")


def _is_idle(statement: cst.BaseSmallStatement) -> bool:
    if isinstance(statement, cst.Assert):
        return isinstance(statement.test, cst.Name) and statement.test.value == "True"
    match statement:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(a))], value=cst.Name(b)):
            return a == b
        case cst.AnnAssign(target=cst.Name(a), value=cst.Name(b)):
            return a == b
    return False


def _in_place_of(outer: cst.BaseExpression, inner: cst.BaseExpression) -> cst.BaseExpression:
    """The inner expression where the outer stood: in its parentheses where it needs them."""
    simple = isinstance(inner, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
    simple = simple or isinstance(inner, cst.BaseNumber | cst.SimpleString)
    if simple or inner.lpar or not outer.lpar:
        return inner
    return inner.with_changes(lpar=outer.lpar, rpar=outer.rpar)
