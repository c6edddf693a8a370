"""Writing the statements of calls that return nothing now."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from opscaffold.migrate.edits import CallEdit, VoidEdit
from opscaffold.migrate.sequences import comments_of, insert_after, remove_at
from opscaffold.migrate.syntax import Key, code_of

_NO_SPACE = cst.SimpleWhitespace("")
_PLAIN_EQUAL = cst.AssignEqual(_NO_SPACE, _NO_SPACE)
_PAREN = {"lpar": [cst.LeftParen()], "rpar": [cst.RightParen()]}

FRAMES = (cst.BaseCompoundStatement, cst.SimpleStatementLine, cst.SimpleStatementSuite)
"""The nodes in front of which, or in which, calls are made statements."""


@dataclass(frozen=True, slots=True)
class Hoisted:
    """Statements to make in front of the one that the call at ``key`` stands in."""

    key: Key
    statements: tuple[cst.BaseSmallStatement | cst.If, ...]


def with_places(call: cst.Call, edit: CallEdit, buffer: cst.BaseExpression) -> cst.Call:
    """The call of an op that takes its buffer by position."""
    at, names = edit.places[0]
    if at != edit.argument and is_commented(call, edit.argument):
        at, names = edit.places[-1]
    args: list[cst.Arg] = list(call.args)
    if at == edit.argument:
        args[at] = args[at].with_changes(value=buffer)
    else:
        rest = remove_at(args, edit.argument)
        args = _inserted(rest, at, cst.Arg(buffer))
    for place, name in enumerate(names):
        arg = args[place]
        if name and arg.keyword is None:
            args[place] = arg.with_changes(keyword=cst.Name(name), equal=_PLAIN_EQUAL)
        elif not name and place == at and arg.keyword is not None:
            args[place] = arg.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
    return call.with_changes(func=callee(edit.function), args=args)


def callee(text: str) -> cst.BaseExpression:
    """What an op is called by; one over several lines, as it may be in parentheses, on one."""
    if "\n" in text:
        text = ast.unparse(ast.parse(f"({text})", mode="eval"))
    return cst.parse_expression(text)


def is_commented(call: cst.Call, index: int) -> bool:
    """Whether comments stand with an argument, which would have to move with it."""
    space = call.whitespace_before_args
    above = isinstance(space, cst.ParenthesizedWhitespace) and any(
        line.comment for line in space.empty_lines
    )
    return comments_of(call.args, index) or (index == 0 and above)


def _inserted(args: list[cst.Arg], at: int, arg: cst.Arg) -> list[cst.Arg]:
    if at or not args:
        return insert_after(args, at - 1, arg)
    placed = insert_after(args, 0, arg)
    # The two change places, so that the layout around them stays.
    first, second = placed[0], placed[1]
    placed[0] = first.with_changes(
        value=second.value, keyword=second.keyword, equal=second.equal, star=second.star
    )
    placed[1] = second.with_changes(
        value=first.value, keyword=first.keyword, equal=first.equal, star=first.star
    )
    return placed


def with_bound(call: cst.Call, void: VoidEdit) -> tuple[cst.Call, list[cst.BaseSmallStatement]]:
    """The call with arguments named, and the statements that name them ahead of it."""
    args = list(call.args)
    ahead: list[cst.BaseSmallStatement] = []
    for index, text, first in void.bound:
        name, value = cst.Name(text), args[index].value
        if first:
            ahead.append(cst.Assign([cst.AssignTarget(name)], standing_alone(value)))
            args[index] = args[index].with_changes(value=name)
        else:
            named = cst.NamedExpr(name, value, **_PAREN)  # type: ignore[arg-type]
            args[index] = args[index].with_changes(value=named)
    return call.with_changes(args=args), ahead


def hoisted(
    key: Key, call: cst.Call, ahead: Sequence[cst.BaseSmallStatement], void: VoidEdit
) -> tuple[Hoisted, cst.BaseExpression]:
    """A call as a statement, and what is left where it stood."""
    statement = cst.Expr(_dedented(standing_alone(call)))
    value = value_of(void)
    if any("#" in code_of(part) for part in (*call.lpar, *call.rpar)):
        value = value.with_changes(lpar=call.lpar, rpar=call.rpar)
    elif void.many:
        value = value.with_changes(**_PAREN)
    return Hoisted(key, (*ahead, statement)), value


def chosen(
    key: Key,
    call: cst.Call,
    choice: cst.IfExp,
    ahead: Sequence[cst.BaseSmallStatement],
    void: VoidEdit,
) -> tuple[Hoisted, cst.BaseExpression]:
    """A choice between two calls as a statement that binds a name, and the name.

    ``call`` is the one that it was made of.
    """
    name = cst.Name(void.name)
    statement = _branches(choice, void, cst.Assign([cst.AssignTarget(name)], name))
    left = name
    if any("#" in code_of(part) for part in (*call.lpar, *call.rpar)):
        left = name.with_changes(lpar=call.lpar, rpar=call.rpar)
    return Hoisted(key, (*ahead, statement)), left


def _branches(choice: cst.IfExp, void: VoidEdit, use: Any, rest: Any = None) -> cst.If:
    """A choice as a statement; ``use`` is what is done with its value where there is one.

    ``rest`` is the same where the value was the op's own arguments, if it is another statement.
    """
    value, void_call = choice.body, choice.orelse
    if void.first:
        value, void_call = void_call, value
    given = cst.Expr(_dedented(standing_alone(void_call)))
    left = (rest or use).with_changes(value=value_of(void))
    fresh = cst.IndentedBlock(_lines([use.with_changes(value=_dedented(standing_alone(value)))]))
    written = cst.IndentedBlock(_lines([given, *_rest(left, void)]))
    then, other = (written, fresh) if void.first else (fresh, written)
    return cst.If(standing_alone(choice.test), then, cst.Else(other))


def value_of(void: VoidEdit) -> cst.BaseExpression:
    """What the value of the call was."""
    comma = "," if void.many and len(void.values) == 1 else ""
    return cst.parse_expression(", ".join(void.values) + comma)


def picked(text: str, subscript: cst.Subscript) -> cst.BaseExpression:
    """One of the values, in place of the subscript that took it out of the tuple."""
    value = cst.parse_expression(text)
    return value.with_changes(lpar=subscript.lpar, rpar=subscript.rpar)


def standing_alone(value: cst.BaseExpression) -> cst.BaseExpression:
    """An expression as it can stand on a line of its own: its parentheses only where needed."""
    bare = value.with_changes(lpar=[], rpar=[])
    try:
        ast.parse(code_of(bare), mode="eval")
    except SyntaxError:
        return value if value.lpar else value.with_changes(**_PAREN)
    return bare


def _dedented(value: cst.BaseExpression) -> cst.BaseExpression:
    """A call on several lines, as far to the left as where its statement starts."""
    if not isinstance(value, cst.Call) or not value.args or value.lpar:
        return value
    last = value.args[-1]
    space = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else None
    if not isinstance(space, cst.ParenthesizedWhitespace):
        space = last.whitespace_after_arg
    if not isinstance(space, cst.ParenthesizedWhitespace) or not space.last_line.value:
        return value
    return cst.ensure_type(value.visit(_Dedenter(space.last_line.value)), cst.Call)


class _Dedenter(cst.CSTTransformer):
    """Takes leading space away from the lines inside brackets."""

    def __init__(self, space: str) -> None:
        super().__init__()
        self.space = space

    def leave_ParenthesizedWhitespace(
        self,
        original_node: cst.ParenthesizedWhitespace,
        updated_node: cst.ParenthesizedWhitespace,
    ) -> cst.ParenthesizedWhitespace:
        """The lines of one gap between two tokens."""
        del original_node
        lines = [
            line.with_changes(whitespace=self._less(line.whitespace))
            for line in updated_node.empty_lines
        ]
        last = self._less(updated_node.last_line)
        return updated_node.with_changes(empty_lines=lines, last_line=last)

    def _less(self, space: cst.SimpleWhitespace) -> cst.SimpleWhitespace:
        return space.with_changes(value=space.value.removeprefix(self.space))


class Blocks:
    """Puts statements in front of others. ``spans`` are those of the original tree."""

    def __init__(self, spans: Mapping[cst.CSTNode, Key], voids: Mapping[Key, VoidEdit]) -> None:
        self.spans = spans
        self.voids = voids

    def before(self, updated: Any, pending: Sequence[Hoisted]) -> Any:
        """A compound statement with calls out of its head in front of it."""
        lines = _lines([s for made in pending for s in made.statements])
        lines[0] = lines[0].with_changes(leading_lines=updated.leading_lines)
        return cst.FlattenSentinel([*lines, updated.with_changes(leading_lines=())])

    def of_line(
        self,
        original: cst.SimpleStatementLine,
        updated: cst.SimpleStatementLine,
        pending: Sequence[Hoisted],
    ) -> Any:
        """A line of simple statements, each with its calls in front of it."""
        lines = self._expanded(original, updated, pending)
        lines[0] = lines[0].with_changes(leading_lines=updated.leading_lines)
        lines[-1] = _with_trailing(lines[-1], updated.trailing_whitespace)
        return cst.FlattenSentinel(lines)

    def of_suite(
        self,
        original: cst.SimpleStatementSuite,
        updated: cst.SimpleStatementSuite,
        pending: Sequence[Hoisted],
    ) -> cst.BaseSuite:
        """A suite on the line of its header, as a block."""
        lines = self._expanded(original, updated, pending)
        return cst.IndentedBlock(lines, header=updated.trailing_whitespace)

    def _expanded(
        self,
        original: cst.SimpleStatementLine | cst.SimpleStatementSuite,
        updated: cst.SimpleStatementLine | cst.SimpleStatementSuite,
        pending: Sequence[Hoisted],
    ) -> list[Any]:
        lines: list[Any] = []
        for old, new in zip(original.body, updated.body, strict=True):
            start, end = self.spans.get(old, (-1, -1))
            mine = [p for p in pending if start <= p.key[0] and p.key[1] <= end]
            bare = new.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            lines += _lines([s for made in mine for s in made.statements])
            choice = self._choice(old, bare)
            if choice is not None:
                lines.append(choice)
                continue
            whole = getattr(old, "value", None)
            void = self.voids.get(self.spans.get(whole, (-1, -1))) if whole is not None else None
            lines += _lines(_rest(bare, void) if mine else [bare])
        return lines

    def _choice(self, old: cst.BaseSmallStatement, new: Any) -> cst.If | None:
        """``y = f(x) if b is None else ...`` as a statement, where one of the two is no value."""
        whole, choice = getattr(old, "value", None), getattr(new, "value", None)
        if not isinstance(whole, cst.Call) or not isinstance(choice, cst.IfExp):
            return None
        void = self.voids.get(self.spans.get(whole, (-1, -1)))
        if void is None:
            return None
        rest = new
        if isinstance(new, cst.AnnAssign):
            rest = cst.Assign([cst.AssignTarget(new.target)], choice)
        return _branches(choice, void, new, rest)


def _rest(statement: Any, void: VoidEdit | None) -> list[cst.BaseSmallStatement]:
    """What is left of a statement once its call stands in front of it."""
    if void is None:
        return [statement]
    value = getattr(statement, "value", None)
    if void.many and isinstance(value, cst.Tuple) and not isinstance(statement, cst.AugAssign):
        # A tuple that is all of a statement needs no parentheses.
        statement = statement.with_changes(value=value.with_changes(lpar=[], rpar=[]))
    if void.kept is None:
        return [statement]
    if not void.kept:
        return []
    target = statement.targets[0].target
    names = [code_of(target.elements[i].value) for i in void.kept]
    texts = [void.values[i] for i in void.kept]
    made = cst.parse_statement(f"{', '.join(names)} = {', '.join(texts)}")
    return list(cst.ensure_type(made, cst.SimpleStatementLine).body)


def _lines(statements: Sequence[cst.BaseSmallStatement | cst.If]) -> list[Any]:
    return [s if isinstance(s, cst.If) else cst.SimpleStatementLine([s]) for s in statements]


def _with_trailing(line: Any, trailing: cst.TrailingWhitespace) -> Any:
    if isinstance(line, cst.If):
        body = line.body.with_changes(header=trailing)
        return line.with_changes(body=body)
    return line.with_changes(trailing_whitespace=trailing)
