"""Putting an expression into a larger one, or another argument into a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import libcst as cst

from opscaffold.migrate.sequences import append

_PRIMARY = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.ListComp)
_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def filled(
    code: str, parts: Sequence[cst.BaseExpression], replaced: cst.BaseExpression
) -> cst.BaseExpression:
    """The expression ``code`` with these parts in it; it keeps the parentheses of ``replaced``."""
    made = cst.parse_expression(code)
    around = {"lpar": replaced.lpar, "rpar": replaced.rpar}
    inner = [_as_operand(p, bare=p is replaced and bool(p.lpar)) for p in parts]
    new = made.visit(_Filling(inner))
    if not isinstance(new, cst.BaseExpression):
        raise TypeError(f"`{code}` is no expression")
    if any(p is replaced for p in parts) and not isinstance(replaced, _PRIMARY):
        return new  # its parentheses are around the part still
    return new.with_changes(**around) if replaced.lpar else new


def with_keywords(call: cst.Call, keywords: Mapping[str, str]) -> cst.Call:
    """A call with more keyword arguments at its end, laid out as those before."""
    args: list[cst.Arg] = list(call.args)
    for name, code in keywords.items():
        arg = cst.Arg(cst.parse_expression(code), keyword=cst.Name(name), equal=_TIGHT)
        args = append(args, arg)
    return call.with_changes(args=args)


def without(leading: Sequence[cst.EmptyLine]) -> Any:
    """What is left of a statement that goes: comments that a blank line sets apart from it."""
    last = max((i for i, line in enumerate(leading) if line.comment is None), default=0)
    kept = leading[:last]
    if all(line.comment is None for line in kept):
        return cst.RemoveFromParent()
    # Blank lines print as they stand; no statement is there to hold them.
    return cst.FlattenSentinel(kept)


class _Filling(cst.CSTTransformer):
    def __init__(self, parts: Sequence[cst.BaseExpression]) -> None:
        super().__init__()
        self.parts = {f"_{index}": part for index, part in enumerate(parts)}

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        """Put a part in its place."""
        return self.parts.get(original_node.value, updated_node)


def _as_operand(node: cst.BaseExpression, *, bare: bool) -> cst.BaseExpression:
    """An expression that may stand before a dot."""
    if isinstance(node, _PRIMARY):
        return node.with_changes(lpar=[], rpar=[]) if bare else node
    if node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
