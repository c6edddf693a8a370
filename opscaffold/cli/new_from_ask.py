"""Asking for what the code of a function leaves open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opscaffold.scaffold.ask import Screen
    from opscaffold.scaffold.from_error import UndecidedError
    from opscaffold.scaffold.from_wrap import Request
    from opscaffold.scaffold.given import Value

NONE = "none"


def answered(
    screen: Screen, error: UndecidedError, request: Request, rule: dict[str, Value | None]
) -> tuple[Request, dict[str, Value | None]]:
    """The request and the rule for metadata, with what was left open answered.

    Raises UserError where the input ends.
    """
    from opscaffold.contract.model import Kind
    from opscaffold.scaffold.questions import OP

    screen.show(f"\n{error}", "bold")
    if "mutates" in error.keys:
        names = _ask(screen, "Which arguments does it write? Names with commas, or none", NONE, str)
        if names.strip().lower() == NONE:
            return replace(request, flags=replace(request.flags, kind=Kind.FUNCTIONAL)), rule
        told = _checked(screen, "mutates", names)
        flags = replace(request.flags, mutates=told if isinstance(told, tuple) else (str(told),))
        return replace(request, flags=flags), rule
    if "params" in error.keys:
        text = _ask(screen, "Its argument, as in 'x: Tensor'", "", OP["params"].check_item)
        return replace(request, params=(*request.params, text)), rule
    if "returns" in error.keys:
        text = _ask(screen, OP["returns"].ask, "Tensor", OP["returns"].check_item)
        return replace(request, returns=text), rule
    mode = _ask(screen, OP["fake"].ask, "same", OP["fake"].check_item)
    rule = {**rule, "fake": mode}
    if mode == "expression":
        sizes = _ask(screen, OP["fake_shape"].ask, "", str)
        rule["fake_shape"] = _checked(screen, "fake_shape", sizes)
    return replace(request, fake=True), rule


def _checked(screen: Screen, key: str, text: str) -> Value:
    from opscaffold.scaffold.questions import OP

    try:
        return OP[key].check(text)
    except ValueError as error:
        screen.show(f"{error}.", "error")
    return _checked(screen, key, _read(screen, text))


def _ask(screen: Screen, question: str, default: str, check: Callable[[str], str]) -> str:
    screen.show(question, "bold")
    text = _read(screen, default)
    try:
        return check(text or default)
    except ValueError as error:
        screen.show(f"{error}.", "error")
    return _ask(screen, question, default, check)


def _read(screen: Screen, default: str) -> str:
    from opscaffold.errors import UserError

    try:
        return screen.read(default).strip() or default
    except EOFError:
        raise UserError("the input ended before every question was answered") from None
