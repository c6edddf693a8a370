"""Statements at the top of a module: what tells them apart, what they bind, how they stand."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import libcst as cst

from opscaffold.scaffold.wiring_items import Collection, code, items_of

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
Key = tuple[str, str]

ALL: Key = ("name", "__all__")


def key_of(statement: Statement, package: str = "") -> Key:
    """What tells a statement at the top of a module apart from the others."""
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return ("name", statement.name.value)
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        small = statement.body[0]
        if isinstance(small, cst.ImportFrom):
            return ("from", module_of(small, package))
        name = bound_name(small)
        if name:
            return ("name", name)
        if isinstance(small, cst.Expr) and isinstance(
            small.value, (cst.SimpleString, cst.ConcatenatedString)
        ):
            return ("text", "")
    return ("code", code(statement.with_changes(leading_lines=())).strip())


def bound_name(small: cst.CSTNode) -> str:
    """The one name that an assignment binds."""
    target: cst.CSTNode | None = None
    if isinstance(small, cst.AnnAssign):
        target = small.target
    elif isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
    return target.value if isinstance(target, cst.Name) else ""


def module_of(node: cst.ImportFrom, package: str) -> str:
    """The module that is imported from, a relative one as an absolute one where that is known."""
    name = "" if node.module is None else code(node.module)
    level = len(node.relative)
    parts = package.split(".") if package else []
    if not level:
        return name
    if level > len(parts):
        return "." * level + name
    return ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])


def names_of(body: Sequence[Any]) -> dict[str, Any]:
    """The names that statements bind at the top of a module, with the statement."""
    found: dict[str, Any] = {}
    for statement in body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            found.setdefault(statement.name.value, statement)
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        for small in statement.body:
            if isinstance(small, (cst.ImportFrom, cst.Import)):
                names = small.names if not isinstance(small.names, cst.ImportStar) else ()
                for alias in names:
                    bound = alias.evaluated_alias or alias.evaluated_name.partition(".")[0]
                    found.setdefault(bound, statement)
            elif bound_name(small):
                found.setdefault(bound_name(small), statement)
    return found


def collection_of(statement: Any) -> Collection | None:
    """The collection that a statement binds: written out, or as the first of a sum."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    small = statement.body[0]
    value = small.value if isinstance(small, (cst.Assign, cst.AnnAssign)) else None
    while isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        value = value.left
    if value is None or items_of(value) is None:
        return None
    return value if isinstance(value, Collection) else None


def says_the_same(one: Any, other: Any) -> bool:
    """Whether two statements say the same, however they are laid out."""
    first, second = (text_of(each) for each in (one, other))
    if first == second:
        return True
    try:
        return ast.dump(ast.parse(first)) == ast.dump(ast.parse(second))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def text_of(statement: Any) -> str:
    """The text of a statement, without what stands above it."""
    return code(statement.with_changes(leading_lines=())).strip()


def item_text(item: Any) -> str:
    """The text of an item, without its comma."""
    return code(item.with_changes(comma=cst.MaybeSentinel.DEFAULT))


def is_import(statement: Any) -> bool:
    """Whether a statement imports, and does nothing else."""
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body
    )


def lines_above(statement: Any) -> list[str]:
    """The lines above a statement that belong to it: empty ones and comments."""
    return [code(line).strip() for line in statement.leading_lines]


def is_own(module: str, package: str) -> bool:
    """Whether a module is one of a package, or the package itself."""
    return module == package or module.startswith(f"{package}.")


def apart(statement: Any, needed: int) -> Any:
    """The statement with at least that many blank lines above it."""
    lead = list(statement.leading_lines)
    there = next((n for n, line in enumerate(lead) if line.comment is not None), len(lead))
    missing = [cst.EmptyLine(indent=False)] * max(needed - there, 0)
    return statement.with_changes(leading_lines=[*missing, *lead])
