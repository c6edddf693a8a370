"""Applying the changes of one file to the nodes of its trees."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import libcst as cst

from opscaffold.migrate.edits import CallEdit, CallForm, FileEdits, ImportEdit
from opscaffold.migrate.kept_comments import (
    KeptComments,
    is_commented_inside,
    with_comments_of,
    without_commented_parentheses,
)
from opscaffold.migrate.sequences import insert_after, remove_at
from opscaffold.migrate.syntax import Key, Syntax, code_of
from opscaffold.migrate.void_rewrite import (
    FRAMES,
    Blocks,
    Hoisted,
    callee,
    chosen,
    hoisted,
    is_commented,
    picked,
    standing_alone,
    with_bound,
    with_places,
)
from opscaffold.migrate.wrapping import filled, with_keywords, without

_WIDTH = 88
_NO_SEMICOLON = cst.MaybeSentinel.DEFAULT
_NO_SPACE = cst.SimpleWhitespace("")
_PLAIN_EQUAL = cst.AssignEqual(_NO_SPACE, _NO_SPACE)


class Rewriter(cst.CSTTransformer):
    """Applies edits to the nodes at their positions."""

    def __init__(self, syntax: Syntax, edits: FileEdits) -> None:
        super().__init__()
        self.edits = edits
        self._key = syntax.spans
        self._parts = {part for t in edits.expressions.values() for part in t.parts}
        self._kept: dict[Key, cst.BaseExpression] = {}
        self._blocks = Blocks(syntax.spans, edits.voids)
        self._picked = {
            v.picked[0]: v.values[v.picked[1]] for v in edits.voids.values() if v.picked
        }
        self._pending: list[list[Hoisted]] = []
        self._comments = KeptComments()

    def key(self, node: cst.CSTNode) -> Key:
        """The span of a node of the original tree."""
        return self._key.get(node, (-1, -1))

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Gather what is to stand in front of a statement, each for itself."""
        if isinstance(node, FRAMES):
            self._pending.append([])
            self._comments.enter()
        return super().on_visit(node)

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        """Change an expression, once all that is inside it is changed."""
        left: Any = super().on_leave(original_node, updated_node)
        if isinstance(original_node, FRAMES):
            pending = self._pending.pop()
            new = self._in_block(original_node, updated_node, left, pending)
            made = sum(len(p.statements) for p in pending)
            return self._comments.leave(original_node, new, made)
        if isinstance(original_node, cst.Subscript) and self.key(original_node) in self._picked:
            return picked(self._picked[self.key(original_node)], original_node)
        if not isinstance(left, cst.BaseExpression):
            return left
        key = self.key(original_node)
        if isinstance(left, cst.Call) and key in self.edits.keywords:
            left = with_keywords(left, self.edits.keywords[key])
        if key in self._parts:
            self._kept[key] = left
        template = self.edits.expressions.get(key)
        if template is None:
            return left
        return filled(template.code, [self._kept[part] for part in template.parts], left)

    def _in_block(
        self, original: cst.CSTNode, updated: cst.CSTNode, left: Any, pending: list[Hoisted]
    ) -> Any:
        """A statement with the calls out of it in front of it."""
        match original, updated:
            case cst.SimpleStatementLine(), cst.SimpleStatementLine():
                if pending or any(map(self._is_choice, original.body)):
                    return self._blocks.of_line(original, updated, pending)
            case cst.SimpleStatementSuite(), cst.SimpleStatementSuite():
                if pending or any(map(self._is_choice, original.body)):
                    return self._blocks.of_suite(original, updated, pending)
            case _ if pending:
                return self._blocks.before(left, pending)
        return left

    def _is_choice(self, small: cst.BaseSmallStatement) -> bool:
        """Whether all of a statement is a call that returns nothing in one of two cases."""
        value = getattr(small, "value", None)
        key = self.key(value) if isinstance(value, cst.Call) else (-1, -1)
        void = self.edits.voids.get(key)
        edit = self.edits.calls.get(key) if void is not None and not void.name else None
        return edit is not None and edit.form is CallForm.EITHER

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        """A function that is replaced as a whole holds no other changes."""
        return self.key(node) not in self.edits.statements

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> Any:
        """Replace a function by the functions that take its place."""
        key = self.key(original_node)
        if key in self.edits.removed:
            return without(original_node.leading_lines)
        statements = self.edits.statements.get(key)
        behind = self.edits.behind.get(key, [])
        if statements is None and not behind:
            return updated_node
        return cst.FlattenSentinel([*(statements or [updated_node]), *behind])

    def leave_Lambda(
        self, original_node: cst.Lambda, updated_node: cst.Lambda
    ) -> cst.BaseExpression:
        """Replace a lambda."""
        return self.edits.lambdas.get(self.key(original_node), updated_node)

    def leave_SimpleString(
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.BaseExpression:
        """Replace the text of a literal."""
        text = self.edits.literals.get(self.key(original_node))
        return updated_node if text is None else updated_node.with_changes(value=text)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        """A conditional whose result nobody takes reads better as an ``if``.

        A name appended to ``__all__`` is followed by the new name.
        """
        replaced = self.edits.statements.get(self.key(original_node))
        if replaced is not None:
            return cst.FlattenSentinel(replaced)
        own = self.key(original_node.body[0])
        if own in self.edits.removed and len(original_node.body) == 1:
            return without(original_node.leading_lines)
        behind = self.edits.behind.get(own)
        if behind:
            return cst.FlattenSentinel([updated_node, *behind])
        match original_node.body, updated_node.body:
            case [cst.Expr(value=cst.Call() as call)], [cst.Expr(value=cst.IfExp() as choice)]:
                edit = self.edits.calls.get(self.key(call))
                if edit is not None and edit.form is CallForm.EITHER:
                    return _as_statement(updated_node, choice)
            case [cst.Expr(value=cst.Call(args=[cst.Arg(cst.SimpleString() as literal)]))], _:
                added = self.edits.exports.get(self.key(literal), [])
                more = [_appended(updated_node, name) for name in added]
                return cst.FlattenSentinel([updated_node, *more]) if more else updated_node
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a call of an op that was split."""
        key = self.key(original_node)
        edit, void = self.edits.calls.get(key), self.edits.voids.get(key)
        if edit is not None or void is not None:
            self._comments.watch()
        if void is None:
            return updated_node if edit is None else rewrite_call(updated_node, edit)
        call, ahead = with_bound(updated_node, void)
        new = call if edit is None else rewrite_call(call, edit)
        if isinstance(new, cst.Call):
            made, value = hoisted(key, new, ahead, void)
        elif void.name:
            choice = cst.ensure_type(new, cst.IfExp)
            made, value = chosen(key, updated_node, choice, ahead, void)
        else:
            return new
        self._pending[-1].append(made)
        return value

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom:
        """Import more names."""
        if isinstance(original_node.names, cst.ImportStar):
            return updated_node
        names: list[cst.ImportAlias] = list(updated_node.names)  # type: ignore[arg-type]
        for alias in reversed(original_node.names):
            index = list(original_node.names).index(alias)
            for edit in reversed(self.edits.imports.get(self.key(alias), [])):
                names = insert_after(names, index, _import_alias(edit))
        return updated_node.with_changes(names=names)

    def leave_List(self, original_node: cst.List, updated_node: cst.List) -> cst.BaseExpression:
        """Add names to ``__all__``."""
        return self._exported(original_node, updated_node)

    def leave_Tuple(self, original_node: cst.Tuple, updated_node: cst.Tuple) -> cst.BaseExpression:
        """Add names to ``__all__``."""
        return self._exported(original_node, updated_node)

    def _exported(
        self, original: cst.List | cst.Tuple, updated: cst.List | cst.Tuple
    ) -> cst.BaseExpression:
        elements: list[Any] = list(updated.elements)
        if any(self.key(e.value) in self.edits.elements for e in original.elements):
            return self._shortened(original, updated)
        for index in range(len(original.elements) - 1, -1, -1):
            value = original.elements[index].value
            if not isinstance(value, cst.SimpleString):
                continue
            for name in reversed(self.edits.exports.get(self.key(value), [])):
                text = f"{value.prefix}{value.quote}{name}{value.quote}"
                elements = insert_after(elements, index, cst.Element(cst.SimpleString(text)))
        grown = elements and elements[-1] is not updated.elements[-1]
        changed = updated.with_changes(elements=elements)
        return _with_comment_moved(changed) if grown else changed

    def _shortened(
        self, original: cst.List | cst.Tuple, updated: cst.List | cst.Tuple
    ) -> cst.BaseExpression:
        elements: list[Any] = list(updated.elements)
        for index in range(len(original.elements) - 1, -1, -1):
            if self.key(original.elements[index].value) in self.edits.elements:
                elements = remove_at(elements, index)
        if isinstance(updated, cst.Tuple) and len(elements) == 1:
            elements = [elements[0].with_changes(comma=cst.Comma())]
        return updated.with_changes(elements=elements)


def _with_comment_moved(display: cst.List | cst.Tuple) -> cst.List | cst.Tuple:
    """Keep the comment behind a formerly last name there: it was read as one of the bracket."""
    if isinstance(display, cst.Tuple) and not display.rpar:
        return display
    bracket = display.rbracket if isinstance(display, cst.List) else display.rpar[0]
    space = bracket.whitespace_before
    if not isinstance(space, cst.ParenthesizedWhitespace) or space.first_line.comment is None:
        return display
    opening = display.lbracket if isinstance(display, cst.List) else display.lpar[0]
    inner = getattr(opening.whitespace_after, "last_line", cst.SimpleWhitespace("    "))
    behind = space.with_changes(empty_lines=(), last_line=inner)
    elements: list[Any] = list(display.elements)
    comma = cst.Comma(whitespace_after=behind)
    elements[-2] = elements[-2].with_changes(comma=comma)
    line = space.first_line.with_changes(comment=None, whitespace=_NO_SPACE)
    bracket = bracket.with_changes(whitespace_before=space.with_changes(first_line=line))
    if isinstance(display, cst.List):
        return display.with_changes(elements=elements, rbracket=bracket)
    return display.with_changes(elements=elements, rpar=[bracket, *display.rpar[1:]])


def _appended(line: cst.SimpleStatementLine, name: str) -> cst.SimpleStatementLine:
    """``__all__.append(...)`` once more, of another name."""
    expr = cst.ensure_type(line.body[0], cst.Expr)
    call = cst.ensure_type(expr.value, cst.Call)
    literal = cst.ensure_type(call.args[0].value, cst.SimpleString)
    text = f"{literal.prefix}{literal.quote}{name}{literal.quote}"
    arg = call.args[0].with_changes(value=literal.with_changes(value=text))
    again = expr.with_changes(value=call.with_changes(args=[arg]), semicolon=_NO_SEMICOLON)
    return line.with_changes(
        body=[again], leading_lines=(), trailing_whitespace=cst.TrailingWhitespace()
    )


def _import_alias(edit: ImportEdit) -> cst.ImportAlias:
    asname = None if edit.asname is None else cst.AsName(cst.Name(edit.asname))
    return cst.ImportAlias(cst.Name(edit.name), asname=asname)


def rewrite_call(call: cst.Call, edit: CallEdit) -> cst.BaseExpression:
    """Rewrite one call as planned."""
    if edit.form is CallForm.FRESH:
        for index in sorted((edit.argument, *edit.more), reverse=True):
            call = with_comments_of(_fresh(call, index), call, index)
        return call
    if edit.flag is not None:
        return _by_flag(call, edit, writes=edit.flag)
    if edit.form is CallForm.GIVEN:
        return _given(call, edit, call.args[edit.argument].value)
    buffer = call.args[edit.argument].value
    tested = without_commented_parentheses(buffer)
    if edit.test_name:
        name = cst.Name(edit.test_name)
        tested = cst.NamedExpr(name, buffer, lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        buffer = name
    test = cst.Comparison(tested, [cst.ComparisonTarget(cst.Is(), cst.Name("None"))])
    choice = cst.IfExp(
        test=test,
        body=_bare(_fresh(call, edit.argument)),
        orelse=_bare(_given(copy.deepcopy(call), edit, buffer)),
    )
    return _laid_out(call, edit, choice)


def _laid_out(call: cst.Call, edit: CallEdit, choice: cst.IfExp) -> cst.IfExp:
    long = edit.column + len(code_of(choice)) > _WIDTH and not edit.one_line
    if is_commented_inside((*call.lpar, *call.rpar)):
        choice = _on_lines(choice) if long else choice
        return choice.with_changes(lpar=call.lpar, rpar=call.rpar)
    if long:
        return _on_lines(choice)
    if edit.parenthesised or call.lpar:
        return choice.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return choice


def _by_flag(call: cst.Call, edit: CallEdit, *, writes: bool) -> cst.BaseExpression:
    """A call whose flag chose, without it: of the new op, or a choice between two calls."""
    fresh = call if edit.argument < 0 else _fresh(call, edit.argument)
    if edit.argument >= 0 and edit.form is CallForm.GIVEN:
        fresh = with_comments_of(fresh, call, edit.argument)
    writing = copy.deepcopy(fresh).with_changes(func=callee(edit.function))
    if edit.form is CallForm.GIVEN:
        return writing
    test = call.args[edit.argument].value
    loose = isinstance(test, cst.IfExp | cst.Lambda | cst.NamedExpr)
    if not test.lpar and (loose or "\n" in code_of(test)):
        test = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    then, other = (writing, fresh) if writes else (fresh, writing)
    return _laid_out(call, edit, cst.IfExp(test=test, body=_bare(then), orelse=_bare(other)))


def _as_statement(line: cst.SimpleStatementLine, choice: cst.IfExp) -> cst.If:
    def block(value: cst.BaseExpression, header: cst.TrailingWhitespace) -> cst.IndentedBlock:
        return cst.IndentedBlock(
            [cst.SimpleStatementLine([cst.Expr(standing_alone(value))])], header=header
        )

    return cst.If(
        standing_alone(choice.test),
        block(choice.body, line.trailing_whitespace),
        cst.Else(block(choice.orelse, cst.TrailingWhitespace())),
        leading_lines=line.leading_lines,
    )


def _on_lines(choice: cst.IfExp) -> cst.IfExp:
    """A long conditional, one part a line."""
    inner = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    return choice.with_changes(
        lpar=[cst.LeftParen(whitespace_after=inner)],
        whitespace_before_if=inner,
        whitespace_before_else=inner,
        rpar=[cst.RightParen(whitespace_before=cst.ParenthesizedWhitespace(indent=True))],
    )


def _bare(call: cst.Call) -> cst.Call:
    return call.with_changes(lpar=[], rpar=[])


def _fresh(call: cst.Call, index: int) -> cst.Call:
    args, space = remove_at(call.args, index), call.whitespace_before_args
    old = call.args[index].comma
    if index == 0 and args and isinstance(old, cst.Comma):
        # What stands above the second argument stands above the first now.
        following = old.whitespace_after
        lines = getattr(following, "empty_lines", ())
        if isinstance(space, cst.ParenthesizedWhitespace):
            space = space.with_changes(empty_lines=lines)
    return call.with_changes(args=args, whitespace_before_args=space)


def _given(call: cst.Call, edit: CallEdit, buffer: cst.BaseExpression) -> cst.Call:
    if edit.places:
        return with_places(call, edit, buffer)
    function = callee(edit.function)
    args: Sequence[cst.Arg] = call.args
    old = args[edit.argument]
    if old.keyword is not None:
        args = [*args[: edit.argument], old.with_changes(value=buffer), *args[edit.argument + 1 :]]
    elif edit.in_order or is_commented(call, edit.argument):
        named = [
            arg.with_changes(keyword=cst.Name(name), equal=_PLAIN_EQUAL)
            for arg, name in zip(args[edit.argument + 1 :], edit.keywords, strict=False)
        ]
        rest = args[edit.argument + 1 + len(named) :]
        out = old.with_changes(value=buffer, keyword=cst.Name(edit.buffer), equal=_PLAIN_EQUAL)
        args = [*args[: edit.argument], out, *named, *rest]
    else:
        out = cst.Arg(buffer, keyword=cst.Name(edit.buffer), equal=_PLAIN_EQUAL)
        if edit.argument == len(args) - 1 or args[edit.argument + 1].keyword is not None:
            kept = old.with_changes(value=buffer, keyword=out.keyword, equal=_PLAIN_EQUAL)
            args = [*args[: edit.argument], kept, *args[edit.argument + 1 :]]
        else:
            rest = remove_at(args, edit.argument)
            args = insert_after(rest, len(rest) - 1, out)
    return call.with_changes(func=function, args=args)
