"""Dropout: when it surely makes a new tensor.

It hands back its argument where it is not training, or where nothing is to be dropped.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from opscaffold.effects.terms import number_of, of_comparison, of_constant
from opscaffold.effects.values import Value

NAMES = frozenset({"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"})
# Of torch.nn.functional; the functions of torch itself have no defaults.
_DEFAULTS = {
    "dropout": (0.5, True),
    "alpha_dropout": (0.5, False),
    "feature_alpha_dropout": (0.5, False),
}


def makes_new(
    node: ast.Call,
    name: str,
    values: list[Value],
    assumed: Mapping[str, bool],
    *,
    functional: bool,
) -> bool:
    """Whether a call of a dropout function, with these values as arguments, surely copies."""
    if any(isinstance(a, ast.Starred) for a in node.args):
        return False
    given = dict(enumerate(values[: len(node.args)]))
    kept = [k for k in node.keywords if k.arg != "out"]
    named = {k.arg: v for k, v in zip(kept, values[len(node.args) :], strict=False)}
    share, training = given.get(1, named.get("p")), given.get(2)
    training = training or named.get("training") or named.get("train")
    default = _DEFAULTS.get(name) if functional else None
    if default is None and (share is None or training is None):
        return False
    on = training.truth if training is not None else default is not None and default[1]
    if training is not None and on is None and training.term is not None:
        on = assumed.get(training.term)
    return on is True and (share is None or _is_some(share, assumed))


def _is_some(share: Value, assumed: Mapping[str, bool]) -> bool:
    """Whether a share is surely not zero."""
    zero = Value(term=of_constant(0))
    if share.truth is True:
        return True
    if number_of(share) is not None:
        return False
    return (
        assumed.get(of_comparison(share, ast.Eq(), zero) or "") is False
        or assumed.get(of_comparison(share, ast.Gt(), zero) or "") is True
        or (share.term is not None and assumed.get(share.term) is True)
    )
