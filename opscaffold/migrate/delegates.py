"""Two halves around a kernel that other code calls as well, and that stays what it is."""

from __future__ import annotations

import ast
from collections.abc import Callable

import libcst as cst

from opscaffold.migrate.signature import parameter_code, without_parameter
from opscaffold.migrate.split import Cut, Half, mutable_half
from opscaffold.migrate.syntax import Syntax, code_of

_WIDTH = 88

Decorate = Callable[[cst.FunctionDef, cst.FunctionDef, Half | None], cst.FunctionDef]


def delegates(
    syntax: Syntax, function: ast.FunctionDef, cut: Cut, fresh_name: str, decorate: Decorate
) -> list[cst.BaseStatement]:
    """The kernel without its registrations, and a function for each half that calls it."""
    node = syntax.find(function, cst.FunctionDef)
    buffer = cut.use.argument.name
    half = Half.OUT if cut.index is None else Half.INTO
    blank = [cst.EmptyLine(indent=False)] * (1 if function.col_offset else 2)
    given = mutable_half(syntax, node, cut)
    made: list[cst.BaseStatement] = [undecorated(node, decorate)]
    for name, params, which in (
        (fresh_name, without_parameter(node.params, buffer), None),
        (cut.out_name, given.params, half),
    ):
        call = _call(node, buffer if which is not None else "", buffer)
        body = f"    {'' if which is Half.INTO else 'return '}{call}\n"
        returns = given.returns if which is Half.INTO else node.returns
        made.append(calling(node, name, params, returns, body, which, decorate, blank))
    return made


def undecorated(node: cst.FunctionDef, decorate: Decorate) -> cst.FunctionDef:
    """The kernel without the decorators that a half has in another form, which register."""
    given = decorate(node, node, Half.OUT)
    kept = [d for d, g in zip(node.decorators, given.decorators, strict=True) if d is g]
    return node.with_changes(decorators=kept)


def calling(
    node: cst.FunctionDef,
    name: str,
    params: cst.Parameters,
    returns: cst.Annotation | None,
    body: str,
    which: Half | None,
    decorate: Decorate,
    blank: list[cst.EmptyLine],
) -> cst.FunctionDef:
    """A function of that body, with the registering decorators of ``node`` for one half."""
    arrow = "" if returns is None else f" -> {code_of(returns.annotation)}"
    texts = [parameter_code(p) for p in params.params]
    if params.kwonly_params:
        texts += ["*", *(parameter_code(p) for p in params.kwonly_params)]
    head = f"def {name}({', '.join(texts)}){arrow}:"
    if len(head) > _WIDTH:
        head = f"def {name}(\n" + "".join(f"    {t},\n" for t in texts) + f"){arrow}:"
    made = cst.ensure_type(cst.parse_statement(f"{head}\n{body}"), cst.FunctionDef)
    half = made.with_changes(decorators=node.decorators, leading_lines=blank)
    decorated = decorate(node, half, which)
    kept = [d for d, o in zip(decorated.decorators, node.decorators, strict=True) if d is not o]
    return decorated.with_changes(decorators=kept)


def _call(node: cst.FunctionDef, given: str, buffer: str) -> str:
    """The call of the kernel with its own parameters; behind the buffer's place, by keyword."""
    texts: list[str] = []
    behind = False
    for param in node.params.params:
        name = param.name.value
        if name == buffer:
            behind = True
            texts += [f"{name}={name}"] if given else []
        else:
            texts.append(f"{name}={name}" if behind else name)
    texts += [
        f"{p.name.value}={p.name.value}"
        for p in node.params.kwonly_params
        if p.name.value != buffer or given
    ]
    return f"{node.name.value}({', '.join(texts)})"
