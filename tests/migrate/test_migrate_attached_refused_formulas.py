"""Autograd formulas that need the buffer, or may: the op is left as it is, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from attached_programs import LAST, MIDDLE, reason_against, scale

REFUSALS: dict[str, tuple[str, str, str]] = {
    "saved": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.save_for_backward(x, out)
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "is used",
    ),
    "savedidx": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    ctx.k = inputs[1]
    ctx.out = inputs[2]


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "is used",
    ),
    "len": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    ctx.n = len(inputs)
    ctx.k = inputs[1]


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "cannot be told",
    ),
    "star": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    ctx.saved = (*inputs,)
    ctx.k = inputs[1]


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "cannot be told",
    ),
    "loop": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    for i in inputs:
        pass
    ctx.k = inputs[1]


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "cannot be told",
    ),
    "varidx": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    i = 1
    ctx.k = inputs[i]


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "cannot be told",
    ),
    "whole": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    ctx.inputs = inputs
    ctx.k = inputs[1]


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "cannot be told",
    ),
    "count": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    n = 2
    return (g * ctx.k,) + (None,) * n


scale.register_autograd(_bw, setup_context=_setup)
""",
        "cannot be told",
    ),
    "listn": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    grads = [None] * 3
    grads[0] = g * ctx.k
    return tuple(grads)


scale.register_autograd(_bw, setup_context=_setup)
""",
        "cannot be told",
    ),
    "call": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _helper(ctx, g):
    return g * ctx.k, None, None


def _bw(ctx, g):
    return _helper(ctx, g)


scale.register_autograd(_bw, setup_context=_setup)
""",
        "cannot be told",
    ),
    "nonnone": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None, g.sum()


scale.register_autograd(_bw, setup_context=_setup)
""",
        "no plain None",
    ),
    "needs": (
        MIDDLE,
        """\
def _setup(ctx, inputs, output):
    ctx.k = inputs[2]


def _bw(ctx, g):
    if ctx.needs_input_grad[1]:
        pass
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "is used",
    ),
    "needsiter": (
        MIDDLE,
        """\
def _setup(ctx, inputs, output):
    ctx.k = inputs[2]


def _bw(ctx, g):
    for n in ctx.needs_input_grad:
        pass
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "cannot be told",
    ),
    "ctx": (
        MIDDLE,
        """\
def _setup(ctx, inputs, output):
    ctx.k = inputs[2]


def _look(ctx):
    return ctx.needs_input_grad[2]


def _bw(ctx, g):
    _look(ctx)
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "handed on",
    ),
    "nested": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    ctx.k = (lambda inputs: inputs[1])(inputs)


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "inner scope",
    ),
    "decor": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


import functools


def deco(f):
    return f


@deco
def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        "stands on the",
    ),
    "shared": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
TABLE = [_bw]
""",
        "used here as well",
    ),
    "kwargs": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None, None


options = {'setup_context': _setup}
scale.register_autograd(_bw, **options)
""",
        "star arguments",
    ),
    "partial": (
        LAST,
        """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


import functools


def _bw0(k, ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(functools.partial(_bw0, 1), setup_context=_setup)
""",
        "not in sight",
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_formula_that_needs_the_buffer_is_left_with_the_reason(kind: str, tmp_path: Path) -> None:
    parameters, rest, part = REFUSALS[kind]
    source = scale("demo", parameters) + rest
    reason, line = reason_against(tmp_path, source)
    assert part in reason
    assert line > scale("demo", parameters).count("\n")
