"""Names for what a test asks, so that two tests of one thing are known to come out alike.

A term names a value that stays what it is as long as a kernel runs: a number or flag passed in,
the dtype of a tensor, a comparison of such. A value bound anew has another term, or none.
"""

from __future__ import annotations

import ast

from opscaffold.effects.values import UNSEEN, Value
from opscaffold.patterns import pattern

_NOT = "not "
_EQUAL = " == ="
_NUMBER = pattern(r"=(-?\d+)")
_NUMBERS = pattern(r"(not )?=(-?\d+) (==|<|>) =(-?\d+)")
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotEq: ast.Eq,
    ast.IsNot: ast.Is,
    ast.GtE: ast.Lt,
    ast.LtE: ast.Gt,
    ast.NotIn: ast.In,
}
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.Is: "is",
    ast.Lt: "<",
    ast.Gt: ">",
    ast.In: "in",
}
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt}


def of_constant(constant: object) -> str | None:
    """The term of a literal; numbers that are equal share one."""
    if isinstance(constant, bool) or (isinstance(constant, float) and constant.is_integer()):
        constant = int(constant)
    known = constant is None or isinstance(constant, int | float | str)
    return f"={constant!r}" if known else None


def of_truth(value: Value) -> str | None:
    """The term of a value's truth, where no tensor and no list is asked, which may change."""
    fixed = not value.container and value.items is None and value.refs <= {UNSEEN}
    return value.term if fixed else None


def negated(term: str | None) -> str | None:
    """The term of the opposite."""
    if term is None:
        return None
    return term.removeprefix(_NOT) if term.startswith(_NOT) else _NOT + term


def of_comparison(left: Value, op: ast.cmpop, right: Value) -> str | None:
    """The term of a comparison of two values that are no tensors, in one way to write it."""
    one, other = left.term, right.term
    if one is None or other is None or of_truth(left) is None or of_truth(right) is None:
        return None
    kind = type(op)
    opposite = kind in _NEGATED
    kind = _NEGATED.get(kind, kind)
    if kind is ast.Is and other.startswith("="):
        kind = ast.Eq
    symmetric = kind in {ast.Eq, ast.Is} and not other.startswith("=")
    if (one.startswith("=") and kind is not ast.In) or (symmetric and other < one):
        one, other, kind = other, one, _FLIPPED.get(kind, kind)
    if kind not in _SIGNS:
        return None
    made = f"{one} {_SIGNS[kind]} {other}"
    return negated(made) if opposite else made


def settled(term: str | None) -> bool | None:
    """How a comparison of two numbers that are written out comes out; None for any other."""
    found = None if term is None else _NUMBERS.fullmatch(term)
    if found is None:
        return None
    one, other = int(found[2]), int(found[4])
    holds = {"==": one == other, "<": one < other, ">": one > other}[found[3]]
    return holds is (found[1] is None)


def of_nullness(value: Value, *, positive: bool) -> str | None:
    """The term of ``value is None``, or of its opposite."""
    if value.term is None:
        return None
    made = f"{value.term}{_EQUAL}None"
    return made if positive else negated(made)


def of_parts(text: str, parts: list[Value]) -> str | None:
    """The term of what is computed of these values alone."""
    terms = [of_truth(part) for part in parts]
    if any(term is None for term in terms):
        return None
    return f"{text}({', '.join(term or '' for term in terms)})"


def number_of(value: Value) -> int | None:
    """The whole number that a value is, where it is written out."""
    found = _NUMBER.fullmatch(value.term or "")
    return None if found is None else int(found[1])


def split(term: str) -> tuple[str, bool]:
    """The term without its negation, and whether it had none."""
    return term.removeprefix(_NOT), not term.startswith(_NOT)


def equality(term: str) -> tuple[str, str] | None:
    """What a term compares for being equal, and to which constant."""
    subject, found, constant = term.rpartition(_EQUAL)
    return (subject, constant) if found else None
