"""The part of a kernel that both halves run, moved to one private function."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain

import libcst as cst

from opscaffold.migrate.signature import parameter_code, parameter_named
from opscaffold.migrate.syntax import code_of

_WORTH_LINES = 3  # fewer lines are clearer written twice
_WIDTH = 88
_BOUND_TO_FRAME = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
_FRAME_READERS = frozenset({"locals", "super", "vars", "__class__", "exec", "eval"})


@dataclass(frozen=True, slots=True)
class Names:
    """The names that statements read and bind."""

    loads: frozenset[str]
    stores: frozenset[str]
    imports: frozenset[str]


def names_in(statements: Iterable[cst.BaseStatement]) -> Names:
    """The names read and bound by these statements, nested scopes included."""
    found = _NameReader()
    code = "".join(code_of(s) for s in statements)
    for node in ast.parse(code).body:
        found.visit(node)
    return Names(
        frozenset(found.loads), frozenset(found.stores | found.imports), frozenset(found.imports)
    )


class _NameReader(ast.NodeVisitor):
    """Collects names of one function's scope; what nested scopes bind is their own."""

    def __init__(self) -> None:
        self.loads: set[str] = set()
        self.stores: set[str] = set()
        self.imports: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        (self.loads if isinstance(node.ctx, ast.Load) else self.stores).add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.loads.add(node.target.id)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.imports |= {(a.asname or a.name).split(".")[0] for a in node.names}

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.stores.add(node.name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.stores.add(node.name)
        self._nested(node, {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)})

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.stores.add(node.name)
        self._nested(node, set())

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._nested(node, {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)})

    def visit_ListComp(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        targets = [n for g in node.generators for n in ast.walk(g.target)]
        self._nested(node, {n.id for n in targets if isinstance(n, ast.Name)})

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def _nested(self, node: ast.AST, bound: set[str]) -> None:
        inner = _NameReader()
        inner.generic_visit(node)
        walrus = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        own = bound if walrus else bound | inner.stores
        self.loads |= inner.loads - own
        self.stores |= walrus


def hoist(
    functional: cst.FunctionDef,
    out: cst.FunctionDef,
    name: str,
    buffer: str,
    written: str = "",
) -> tuple[cst.FunctionDef, cst.FunctionDef, cst.FunctionDef] | None:
    """Move the longest run of statements that both bodies share to a function called ``name``.

    Returns the new function and the two that call it, or None where no run is worth moving or
    none can be moved without changing what it means. ``buffer`` is the parameter that ``out`` alone
    takes; where there is none, ``written`` is the one that it writes to.
    """
    bodies = [_statements(functional), _statements(out)]
    if any(body is None for body in bodies):
        return None
    first, second = (body or [] for body in bodies)
    texts = [[_text(s) for s in body] for body in (first, second)]
    matcher = SequenceMatcher(None, texts[0], texts[1], autojunk=False)
    best: tuple[int, int, int, list[cst.Param]] | None = None
    most = _WORTH_LINES - 1
    for block in matcher.get_matching_blocks():
        for start, end in _runs(first, block.a, block.a + block.size):
            lines = sum(len(_text(s).splitlines()) for s in first[start:end])
            shift = block.b - block.a
            params = _parameters(out, (first, second), (start, end), shift, (buffer, written))
            if lines > most and params is not None:
                best, most = (start, end, shift, params), lines
    if best is None:
        return None
    start, end, shift, params = best
    run = [first[start], *first[start + 1 : end]]
    kernel = _function(name, params, run, typed=out.returns is not None)
    call = _call_statement(name, params, first[start])
    return (
        kernel,
        _with_body(functional, [*first[:start], call, *first[end:]]),
        _with_body(out, [*second[: start + shift], call, *second[end + shift :]]),
    )


def _statements(function: cst.FunctionDef) -> list[cst.BaseStatement] | None:
    if not isinstance(function.body, cst.IndentedBlock):
        return None
    return list(function.body.body)


def _with_body(function: cst.FunctionDef, body: list[cst.BaseStatement]) -> cst.FunctionDef:
    return function.with_changes(body=function.body.with_changes(body=body))


def _text(statement: cst.BaseStatement) -> str:
    return code_of(statement.with_changes(leading_lines=()))


def _runs(body: Sequence[cst.BaseStatement], start: int, end: int) -> Iterable[tuple[int, int]]:
    """Sub-runs free of statements that are bound to their function, such as returns."""
    begin = start
    for index in range(start, end):
        if _is_bound(body[index]) or (index == 0 and _is_docstring(body[0])):
            if index > begin:
                yield begin, index
            begin = index + 1
    if end > begin:
        yield begin, end


def _is_bound(statement: cst.BaseStatement) -> bool:
    tree = ast.parse(code_of(statement))
    return any(
        isinstance(node, _BOUND_TO_FRAME)
        or (isinstance(node, ast.Name) and node.id in _FRAME_READERS)
        for node in ast.walk(tree)
    )


def _is_docstring(statement: cst.BaseStatement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], cst.Expr
    )


def _parameters(
    out: cst.FunctionDef,
    bodies: tuple[Sequence[cst.BaseStatement], Sequence[cst.BaseStatement]],
    run: tuple[int, int],
    shift: int,
    outs: tuple[str, str],
) -> list[cst.Param] | None:
    """What the run needs from around it, or None where it leaves something behind."""
    (first, second), (start, end), (buffer, written) = bodies, run, outs
    own = names_in(first[start:end])
    after = names_in(first[end:]).loads | names_in(second[end + shift :]).loads
    if own.stores & after:
        return None
    before = [names_in(first[:start]), names_in(second[: start + shift])]
    local = before[0].stores | before[1].stores
    if own.loads & (before[0].imports | before[1].imports):
        return None
    declared = [*out.params.params, *out.params.kwonly_params]
    needed = [p for p in declared if p.name.value in own.loads]
    known = {p.name.value for p in needed}
    extra = sorted(n for n in own.loads & local if n not in known)
    settled = _surely_bound(first[:start]) & _surely_bound(second[: start + shift])
    if not settled.issuperset(extra):
        return None  # bound on some path only: the run cannot be handed the value
    params = [_bare(p.name.value, p.annotation) for p in needed if p.name.value != buffer]
    annotation = getattr(parameter_named(out.params, buffer or written), "annotation", None)
    if buffer in known:
        params.append(_bare(buffer, annotation))
    aliases = _aliases(second[: start + shift], buffer or written)
    params += [_bare(n, annotation if n in aliases else None) for n in extra]
    return params


def _surely_bound(statements: Sequence[cst.BaseStatement]) -> frozenset[str]:
    """Names that simple statements at the top level bind."""
    return names_in(s for s in statements if isinstance(s, cst.SimpleStatementLine)).stores


def _aliases(statements: Sequence[cst.BaseStatement], buffer: str) -> set[str]:
    """Names that were assigned the buffer itself."""
    found = set()
    lines = (s.body for s in statements if isinstance(s, cst.SimpleStatementLine))
    for small in chain.from_iterable(lines):
        match small:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(name))], value=cst.Name(value)
            ) if value == buffer:
                found.add(name)
    return found


def _bare(name: str, annotation: cst.Annotation | None) -> cst.Param:
    return cst.Param(
        cst.Name(name),
        annotation=None
        if annotation is None
        else cst.Annotation(
            annotation.annotation, whitespace_before_indicator=cst.SimpleWhitespace("")
        ),
    )


def _function(
    name: str, params: list[cst.Param], run: list[cst.BaseStatement], *, typed: bool
) -> cst.FunctionDef:
    returns = " -> None" if typed else ""
    texts = [parameter_code(p) for p in params]
    head = f"def {name}({', '.join(texts)}){returns}: pass\n"
    if len(head) - len(" pass\n") > _WIDTH:
        head = f"def {name}(\n" + "".join(f"    {t},\n" for t in texts) + f"){returns}: pass\n"
    function = cst.ensure_type(cst.parse_statement(head), cst.FunctionDef)
    lines = run[0].leading_lines  # type: ignore[attr-defined]
    comments = [line for line in lines if line.comment is not None]
    run = [run[0].with_changes(leading_lines=comments), *run[1:]]
    return function.with_changes(body=cst.IndentedBlock(body=run))


def _call_statement(
    name: str, params: list[cst.Param], replaced: cst.BaseStatement
) -> cst.SimpleStatementLine:
    names = [p.name.value for p in params]
    text = f"{name}({', '.join(names)})"
    if len(text) + 4 > _WIDTH:
        text = f"{name}(\n" + "".join(f"        {n},\n" for n in names) + "    )"
    statement = cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine)
    lines = replaced.leading_lines  # type: ignore[attr-defined]
    return statement.with_changes(leading_lines=[x for x in lines if x.comment is None])
