"""An import put among those of an author's file, where ``ruff``'s sorter has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from opscaffold.scaffold.layout import natural_key
from opscaffold.scaffold.wiring_items import INDENT, code
from opscaffold.scaffold.wiring_nodes import Key, apart, is_import, is_own, key_of, module_of


def insert_import(
    body: list[Any],
    new: Any,
    keys: Sequence[Key],
    generated: Sequence[Key],
    package: str,
    exports: bool,
    width: int,
) -> None:
    """Put ``from m import names`` into ``body``, written as the ones beside it.

    ``keys`` are those of ``body``, ``generated`` those that may stand there because they were
    generated. Without ``exports``, nothing else in the file says that the names are exported: the
    import itself then does, as in ``from m import f as f``.
    """
    node = new.body[0]
    name = module_of(node, package)
    section = _section(body, keys, generated, package)
    if not exports:
        node = node.with_changes(names=_as_themselves(node.names), lpar=None, rpar=None)
    if section and body[section[0]].body[0].relative:
        node = node.with_changes(
            module=_dotted(name.removeprefix(f"{package}.")),
            relative=body[section[0]].body[0].relative,
        )
    if node is not new.body[0]:
        new = _fitted(new.with_changes(body=[node]), width)
    if not section:
        _insert_below(body, new)
        return
    at = next((n for n in section if natural_key(keys[n][1]) > natural_key(name)), None)
    if at is None:
        body.insert(section[-1] + 1, new.with_changes(leading_lines=()))
        return
    # A comment right above an import is about that import.
    lead = list(body[at].leading_lines)
    first = next((n for n, line in enumerate(lead) if line.comment is not None), len(lead))
    # Ruff keeps a blank line between an import and a comment.
    blank = [cst.EmptyLine(indent=False)] if first < len(lead) else []
    body[at] = body[at].with_changes(leading_lines=[*blank, *lead[first:]])
    body.insert(at, new.with_changes(leading_lines=lead[:first]))


def _insert_below(body: list[Any], new: Any) -> None:
    """Put an import behind the last one at the top of the file, else behind its docstring."""
    at = 0
    for number, each in enumerate(body):
        if is_import(each) or (number == 0 and key_of(each)[0] == "text"):
            at = number + 1
    blank = [cst.EmptyLine(indent=False)]
    body.insert(at, new.with_changes(leading_lines=blank if at else ()))
    if at + 1 < len(body):
        body[at + 1] = apart(body[at + 1], 1)


def _section(
    body: Sequence[Any], keys: Sequence[Key], generated: Sequence[Key], package: str
) -> list[int]:
    """The imports of a file that one of the package's own is sorted among, by their places."""
    known = [
        number
        for number, (kind, module) in enumerate(keys)
        if kind == "from" and is_own(module, package)
    ]
    known = [n for n in known if len(body[n].body) == 1 and len(body[n].body[0].relative) < 2]
    if not known:
        return []
    # Written as those that were generated, else as the last one.
    models = [n for n in known if keys[n] in generated] or known[-1:]
    levels = [len(body[n].body[0].relative) for n in models]
    start = models[levels.index(min(levels))]
    found = [start]
    for step in (-1, 1):
        at = start + step
        while at in known and len(body[at].body[0].relative) == min(levels):
            if _starts_section(body[at if step == 1 else at + 1]):
                break
            found.append(at)
            at += step
    return sorted(found)


def _starts_section(statement: Any) -> bool:
    return any(line.comment is None for line in statement.leading_lines)


def _as_themselves(names: Any) -> list[cst.ImportAlias]:
    made = [cst.ImportAlias(name.name, cst.AsName(cst.Name(name.evaluated_name))) for name in names]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [*(each.with_changes(comma=comma) for each in made[:-1]), made[-1]]


def _dotted(name: str) -> cst.Name | cst.Attribute:
    first, *rest = name.split(".")
    node: cst.Name | cst.Attribute = cst.Name(first)
    for part in rest:
        node = cst.Attribute(node, cst.Name(part))
    return node


def _fitted(statement: Any, width: int) -> Any:
    """An import with its names in brackets, one a line, where it is too long for a line."""
    node = statement.body[0]
    flat = [
        name.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        for name in node.names[:-1]
    ]
    last = node.names[-1]
    node = node.with_changes(names=[*flat, last.with_changes(comma=cst.MaybeSentinel.DEFAULT)])
    node = node.with_changes(lpar=None, rpar=None)
    statement = statement.with_changes(body=[node])
    if len(code(statement.with_changes(leading_lines=())).rstrip("\r\n")) <= width:
        return statement
    split = [
        name.with_changes(comma=cst.Comma(whitespace_after=_line(INDENT))) for name in node.names
    ]
    split[-1] = split[-1].with_changes(comma=cst.Comma(whitespace_after=_line("")))
    opened = cst.LeftParen(whitespace_after=_line(INDENT))
    node = node.with_changes(names=split, lpar=opened, rpar=cst.RightParen())
    return statement.with_changes(body=[node])


def _line(indent: str) -> cst.ParenthesizedWhitespace:
    return cst.ParenthesizedWhitespace(
        first_line=cst.TrailingWhitespace(), indent=True, last_line=cst.SimpleWhitespace(indent)
    )
