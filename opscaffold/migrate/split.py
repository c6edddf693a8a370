"""Splitting a maybe-out op's definition: one function becomes a functional and an out= op."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

import libcst as cst

from opscaffold.contract.derive import DerivationError, out_of
from opscaffold.contract.grammar import SchemaError, format_schema, parse_schema
from opscaffold.contract.pytypes import strip_alias
from opscaffold.effects.buffers import BufferUse
from opscaffold.effects.trace import Trace
from opscaffold.migrate import docstrings
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.sequences import append
from opscaffold.migrate.shared import hoist, names_in
from opscaffold.migrate.signature import with_keyword_out, without_parameter
from opscaffold.migrate.specialise import Specialiser, with_lines_before
from opscaffold.migrate.syntax import Key, Syntax, code_of

_OUT_SENTENCE = "the buffer to write the result to; it is overwritten and returned."


@dataclass(frozen=True, slots=True)
class SplitNames:
    """The names that a split gives: of the old op, of the out= op, and of its functions."""

    old_qualname: str
    out_qualname: str
    out_function: str
    kernel_function: str
    tag: str


@dataclass(frozen=True, slots=True)
class Halves:
    """The functions that take the place of the old one, in order; ``kernel`` may be absent."""

    kernel: cst.FunctionDef | None
    functional: cst.FunctionDef
    out: cst.FunctionDef

    def statements(self) -> list[cst.FunctionDef]:
        """The functions as they follow one another."""
        return [f for f in (self.kernel, self.functional, self.out) if f is not None]


def split(
    syntax: Syntax, function: ast.FunctionDef, call: ast.Call, use: BufferUse, names: SplitNames
) -> Halves:
    """Split a decorated kernel. ``call`` is the registering decorator's call.

    Raises RefusalError where one half would not be sound by itself.
    """
    node = syntax.find(function, cst.FunctionDef)
    buffer = use.argument.name
    refuse_lost_effects(use, use.omitted, use.given)
    refuse_lost_effects(use, use.given, use.omitted)
    functional = _half(syntax, node, use.omitted, use.given)
    functional = functional.with_changes(params=without_parameter(functional.params, buffer))
    refuse_early_use(functional, buffer, function)
    out = _half(syntax, node, use.given, use.omitted)
    out = out.with_changes(
        params=with_keyword_out(out.params, buffer), name=cst.Name(names.out_function)
    )
    functional = _document(functional, lambda text: docstrings.without_entry(text, buffer))
    out = _document(out, lambda text: docstrings.with_entry(text, buffer, _OUT_SENTENCE))
    registration = _Registration(syntax.key(call), syntax, buffer, names)
    functional = registration.functional(node, functional)
    out = registration.out(node, out)
    hoisted = hoist(functional, out, names.kernel_function, buffer)
    kernel = None
    if hoisted is not None:
        kernel, functional, out = hoisted
    return _spaced(node, kernel, functional, out, 1 if function.col_offset else 2)


def specialised(syntax: Syntax, node: cst.CSTNode, trace: Trace, other: Trace) -> cst.CSTNode:
    """A node with every test replaced by its outcome that the buffer decided.

    ``trace`` is the way to call that the result is for, ``other`` the other way: a test that
    comes out alike in both has nothing to do with the buffer, and stays.
    """
    decided = {syntax.key(n): v for n, v in _folded(trace, other).items()}
    chosen = {syntax.key(n): v for n, v in _folded_choices(trace, other).items()}
    nones = {
        syntax.key(n)
        for n, answers in trace.nulls.items()
        if answers == {True} and other.nulls.get(n) != answers
    }
    absent = {syntax.key(n) for n in trace.absent_outs} & nones
    result = node.visit(Specialiser(syntax.spans, decided, chosen, nones, absent))
    if not isinstance(result, cst.CSTNode):
        raise TypeError("specialising removed the node itself")
    return result


def _folded(trace: Trace, other: Trace) -> dict[ast.expr, bool]:
    return {n: v for n, v in trace.decided().items() if other.tests.get(n) != {v}}


def _folded_choices(trace: Trace, other: Trace) -> dict[ast.BoolOp, bool]:
    return {
        node: answers == {True}
        for node, answers in trace.chosen.items()
        if answers in ({True}, {False}) and other.chosen.get(node) != answers
    }


def refuse_lost_effects(use: BufferUse, trace: Trace, other: Trace) -> None:
    """Raise RefusalError where folding a test would drop a call or an assignment inside it."""
    lost: list[tuple[ast.expr, ast.expr]] = []
    for node in _folded(trace, other):
        if isinstance(node, ast.BoolOp):
            # Operands that are not reached have no effect to lose.
            lost += [(node, operand) for operand in node.values if operand in trace.tests]
        else:
            lost.append((node, node))
    lost += [(n, n.values[0]) for n, left in _folded_choices(trace, other).items() if not left]
    for node, part in lost:
        effects = [n for n in ast.walk(part) if isinstance(n, ast.Call | ast.NamedExpr)]
        if any(not _is_harmless(effect) for effect in effects):
            raise RefusalError(
                node,
                f"this test of `{use.argument.name}` also calls code or binds a name, which may "
                "matter",
                f"test `{use.argument.name}` in an `if` of its own",
            )


def _is_harmless(node: ast.AST) -> bool:
    func = node.func if isinstance(node, ast.Call) else None
    name = getattr(func, "attr", getattr(func, "id", ""))
    return name in {
        "dim", "size", "numel", "is_contiguous", "isinstance", "len", "stride", "element_size",
        "is_floating_point", "is_complex", "any", "all", "is_compiling", "is_grad_enabled",
    }  # fmt: skip


def _half(syntax: Syntax, node: cst.FunctionDef, trace: Trace, other: Trace) -> cst.FunctionDef:
    body = specialised(syntax, node.body, trace, other)
    half = node.with_changes(body=body)
    return _without_dead_flags(half)


def _without_dead_flags(function: cst.FunctionDef) -> cst.FunctionDef:
    """Drop ``flag = True`` where folding the tests left no reader of ``flag``."""
    if not isinstance(function.body, cst.IndentedBlock):
        return function
    loads = names_in(function.body.body).loads
    kept = [s for s in function.body.body if not _is_dead_flag(s, loads)]
    if len(kept) == len(function.body.body):
        return function
    kept = kept or [cst.SimpleStatementLine([cst.Pass()])]
    return function.with_changes(body=function.body.with_changes(body=kept))


def _is_dead_flag(statement: cst.CSTNode, loads: frozenset[str]) -> bool:
    match statement:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(name))],
                    value=cst.Name("True" | "False"),
                )
            ]
        ):
            return name not in loads
    return False


def refuse_early_use(functional: cst.FunctionDef, buffer: str, function: ast.FunctionDef) -> None:
    """Raise RefusalError where a half that does not take the buffer uses it before binding it."""
    tree = ast.parse(code_of(functional.with_changes(decorators=(), leading_lines=())))
    first: dict[bool, tuple[int, int]] = {}
    for node in ast.walk(tree.body[0]):
        if isinstance(node, ast.Name) and node.id == buffer:
            store = isinstance(node.ctx, ast.Store)
            # The value of an assignment is read before its target is bound.
            at = (node.lineno, -1 if not store else node.col_offset)
            first[store] = min(first.get(store, at), at)
    if False in first and (True not in first or first[False] <= first[True]):
        raise RefusalError(
            function,
            f"`{buffer}` is still used when it is omitted, before anything is allocated",
            f"allocate `{buffer}` before its first use, or split the op by hand",
        )


def _document(function: cst.FunctionDef, edit: Callable[[str], str]) -> cst.FunctionDef:
    """Apply an edit to the text of the function's docstring, if it has one."""
    if not isinstance(function.body, cst.IndentedBlock):
        return function
    first = function.body.body[0]
    match first:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString(text) as literal)]):
            expr = first.body[0].with_changes(value=literal.with_changes(value=edit(text)))
            line = first.with_changes(body=[expr])
            body = function.body.with_changes(body=[line, *function.body.body[1:]])
            return function.with_changes(body=body)
    return function


def _spaced(
    node: cst.FunctionDef,
    kernel: cst.FunctionDef | None,
    functional: cst.FunctionDef,
    out: cst.FunctionDef,
    lines_between: int,
) -> Halves:
    """Put the old blank lines before each function, and the old comments before the functional."""
    blank = [cst.EmptyLine(indent=False)] * lines_between
    out = out.with_changes(leading_lines=blank)
    if kernel is not None:
        lines = list(node.leading_lines)
        head: list[cst.EmptyLine] = []
        while lines and lines[0].comment is None:
            head.append(lines.pop(0))
        kernel = kernel.with_changes(leading_lines=head)
        functional = functional.with_changes(leading_lines=())
        functional = cst.ensure_type(
            with_lines_before(functional, [*blank, *lines]), cst.FunctionDef
        )
    return Halves(kernel, functional, out)


@dataclass(frozen=True, slots=True)
class _Registration:
    """Rewrites the registering decorator for each half."""

    key: Key
    syntax: Syntax
    buffer: str
    names: SplitNames

    def functional(self, node: cst.FunctionDef, half: cst.FunctionDef) -> cst.FunctionDef:
        return self._rewrite(node, half, self._functional_call)

    def out(self, node: cst.FunctionDef, half: cst.FunctionDef) -> cst.FunctionDef:
        return self._rewrite(node, half, self._out_call)

    def _rewrite(
        self, node: cst.FunctionDef, half: cst.FunctionDef, edit: Callable[[cst.Call], cst.Call]
    ) -> cst.FunctionDef:
        decorators = [
            d.with_changes(decorator=edit(d.decorator))
            if isinstance(d.decorator, cst.Call) and self.syntax.spans[d.decorator] == self.key
            else d
            for d in node.decorators
        ]
        return half.with_changes(decorators=decorators)

    def _functional_call(self, call: cst.Call) -> cst.Call:
        return call.with_changes(
            args=[
                arg.with_changes(value=self._no_names(arg.value))
                if _keyword(arg) == "mutates_args"
                else arg.with_changes(value=self._schema(arg.value, out=False))
                if _keyword(arg) == "schema"
                else arg
                for arg in call.args
            ]
        )

    def _out_call(self, call: cst.Call) -> cst.Call:
        args: list[cst.Arg] = []
        tagged = False
        for index, arg in enumerate(call.args):
            keyword = _keyword(arg)
            value = arg.value
            if keyword == "name" or (keyword == "" and index == 0):
                value = self._renamed(value)
            elif keyword == "mutates_args":
                value = self._buffer_names(value)
            elif keyword == "schema":
                value = self._schema(value, out=True)
            elif keyword == "tags":
                value, tagged = self._with_tag(value), True
            args.append(arg.with_changes(value=value))
        if not tagged:
            tag = cst.Arg(
                keyword=cst.Name("tags"),
                value=cst.parse_expression(self.names.tag),
                equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
            )
            args = append(args, tag)
        return call.with_changes(args=args)

    def _renamed(self, value: cst.BaseExpression) -> cst.BaseExpression:
        if not isinstance(value, cst.SimpleString):
            raise RefusalError(None, "the op's name is not a plain string", "write it as one")
        text = value.value.replace(self.names.old_qualname, self.names.out_qualname)
        return value.with_changes(value=text)

    def _no_names(self, value: cst.BaseExpression) -> cst.BaseExpression:
        if isinstance(value, cst.List):
            return cst.List([], lbracket=value.lbracket, rbracket=value.rbracket)
        return cst.Tuple([])

    def _buffer_names(self, value: cst.BaseExpression) -> cst.BaseExpression:
        if isinstance(value, cst.Tuple | cst.List | cst.Set) and value.elements:
            return value
        element = cst.SimpleString(f'"{self.buffer}"')
        if isinstance(value, cst.List):
            return value.with_changes(elements=[cst.Element(element)])
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(""))
        return cst.Tuple([cst.Element(element, comma=comma)])

    def _with_tag(self, value: cst.BaseExpression) -> cst.BaseExpression:
        tag = cst.Element(cst.parse_expression(self.names.tag))
        if isinstance(value, cst.Tuple | cst.List):
            elements = [e for e in value.elements if isinstance(e, cst.Element)]
            return value.with_changes(elements=append(elements, tag))
        if isinstance(value, cst.Name) and value.value == "None":
            return tag.value
        if not isinstance(value, cst.Attribute):
            raise RefusalError(
                None, "its `tags` are not written as tags", "write the tags out in the registration"
            )
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        return cst.Tuple([cst.Element(value, comma=comma), tag])

    def _schema(self, value: cst.BaseExpression, *, out: bool) -> cst.BaseExpression:
        if isinstance(value, cst.Name) and value.value == "None":
            return value
        text = getattr(value, "evaluated_value", None)
        if not isinstance(text, str):
            raise RefusalError(None, "its schema is not a plain string", "write it as one string")
        functional, with_out = split_schema(text, self.buffer)
        quote = "'" if '"' in functional + with_out else '"'
        return cst.SimpleString(f"{quote}{with_out if out else functional}{quote}")


def split_schema(text: str, buffer: str) -> tuple[str, str]:
    """The functional and the out= schema of a bare maybe-out schema ``(...) -> Tensor``."""
    try:
        old = parse_schema(text)
        functional = replace(
            old,
            name="op",
            parameters=tuple(p for p in old.parameters if p.name != buffer),
            returns=tuple(replace(r, type=strip_alias(r.type)) for r in old.returns),
        )
        out = out_of(functional, [buffer])
    except (SchemaError, DerivationError) as error:
        raise RefusalError(
            None, f"its schema cannot be split: {error}", "split it by hand"
        ) from None
    texts = [format_schema(c).partition("(") for c in (functional, out)]
    return f"({texts[0][2]}", f"({texts[1][2]}"


def _keyword(arg: cst.Arg) -> str:
    return "" if arg.keyword is None else arg.keyword.value
