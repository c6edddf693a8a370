"""Splitting a maybe-out kernel: one function becomes a functional and a mutable one."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import libcst as cst

from opscaffold.effects.buffers import BufferUse
from opscaffold.effects.trace import Trace
from opscaffold.migrate import docstrings
from opscaffold.migrate.aliased import respelled
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.returns import returning_nothing
from opscaffold.migrate.shared import hoist, names_in
from opscaffold.migrate.signature import with_buffer_at, with_keyword_out, without_parameter
from opscaffold.migrate.specialise import Specialiser, with_lines_before
from opscaffold.migrate.syntax import Syntax, code_of

_OUT_SENTENCE = "the buffer to write the result to; it is overwritten and returned."
_INTO_SENTENCE = "the buffer to write the result to; it is overwritten."


class Half(enum.Enum):
    """How the mutable half takes its buffer.

    ``OUT``: keyword-only, tagged and returned. ``INTO``: by position, and nothing is returned.
    """

    OUT = "out="
    INTO = "mutable"


@dataclass(frozen=True, slots=True)
class Halves:
    """The functions that take the place of the old one, in order; ``kernel`` may be absent."""

    kernel: cst.FunctionDef | None
    functional: cst.FunctionDef
    out: cst.FunctionDef

    def statements(self) -> list[cst.BaseStatement]:
        """The functions as they follow one another."""
        return [f for f in (self.kernel, self.functional, self.out) if f is not None]


@dataclass(frozen=True, slots=True)
class Cut:
    """How one kernel is to be split.

    ``index`` is the place of the buffer among the positional parameters of the mutable half,
    None for a keyword-only out=. ``out_name`` is what that half is called, ``kernel_name`` the
    function for what both share. ``words`` are annotations of buffers that went by an alias.
    """

    use: BufferUse
    index: int | None
    out_name: str
    kernel_name: str
    words: Mapping[str, str] = field(default_factory=dict)


def split(
    syntax: Syntax,
    function: ast.FunctionDef,
    cut: Cut,
    decorate: Callable[[cst.FunctionDef, cst.FunctionDef, Half | None], cst.FunctionDef],
) -> Halves:
    """Split a kernel. ``decorate`` gives a half its decorators.

    It is called with the old function, a half, and which mutable half that is (None: the
    functional one). Raises RefusalError where one half would not be sound by itself.
    """
    node = syntax.find(function, cst.FunctionDef)
    use = cut.use
    buffer = use.argument.name
    half = Half.OUT if cut.index is None else Half.INTO
    refuse_lost_effects(use, use.omitted, use.given)
    refuse_lost_effects(use, use.given, use.omitted)
    functional = folded_half(syntax, node, use.omitted, use.given)
    functional = functional.with_changes(params=without_parameter(functional.params, buffer))
    refuse_early_use(functional, buffer, function)
    out = mutable_half(syntax, node, cut)
    functional = documented(functional, lambda text: docstrings.without_entry(text, buffer))
    sentence = _OUT_SENTENCE if half is Half.OUT else _INTO_SENTENCE
    out = documented(out, lambda text: docstrings.with_entry(text, buffer, sentence))
    functional = decorate(node, functional, None)
    out = decorate(node, out, half)
    hoisted = hoist(functional, out, cut.kernel_name, buffer)
    kernel = None
    if hoisted is not None:
        kernel, functional, out = hoisted
    return spaced(node, kernel, functional, out, 1 if function.col_offset else 2)


def mutable_half(syntax: Syntax, node: cst.FunctionDef, cut: Cut) -> cst.FunctionDef:
    """The half that is given the buffer, with the old decorators."""
    use = cut.use
    buffer = use.argument.name
    out = folded_half(syntax, node, use.given, use.omitted)
    out = out.with_changes(name=cst.Name(cut.out_name), params=respelled(out.params, cut.words))
    if cut.index is None:
        return out.with_changes(params=with_keyword_out(out.params, buffer))
    out = returning_nothing(out)
    return out.with_changes(params=with_buffer_at(out.params, buffer, cut.index))


def specialised(syntax: Syntax, node: cst.CSTNode, trace: Trace, other: Trace) -> cst.CSTNode:
    """A node with every test replaced by its outcome that the buffer decided."""
    result = node.visit(specialiser(syntax, trace, other))
    if not isinstance(result, cst.CSTNode):
        raise TypeError("specialising removed the node itself")
    return result


def specialiser(syntax: Syntax, trace: Trace, other: Trace) -> Specialiser:
    """What replaces every test that the buffer decided by its outcome.

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
    return Specialiser(syntax.spans, decided, chosen, nones, absent)


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


def folded_half(
    syntax: Syntax, node: cst.FunctionDef, trace: Trace, other: Trace
) -> cst.FunctionDef:
    """A function with the tests folded that come out as in ``trace``, and not in ``other``."""
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


def documented(function: cst.FunctionDef, edit: Callable[[str], str]) -> cst.FunctionDef:
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


def spaced(
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
