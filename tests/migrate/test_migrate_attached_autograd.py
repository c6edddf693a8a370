"""Autograd formulas of a split op: they stay with the functional half, and stay right."""

from __future__ import annotations

from pathlib import Path

import pytest
from attached_programs import LAST, MIDDLE, faults, scale
from migrating import migrate_files, migrated

SETUPS = {
    "unpacked": """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k
""",
    "rest": """\
def _setup(ctx, inputs, output):
    x, *rest = inputs
    ctx.k = rest[0]
""",
    "starred": """\
def _setup(ctx, inputs, output):
    x, k, *_ = inputs
    ctx.k = k
""",
    "underscores": """\
def _setup(ctx, inputs, output):
    _, k, _ = inputs
    ctx.k = k
""",
    "indexed": """\
def _setup(ctx, inputs, output):
    ctx.k = inputs[1]
""",
    "from_the_end": """\
def _setup(ctx, inputs, output):
    ctx.k = inputs[-2]
""",
    "sliced": """\
def _setup(ctx, inputs, output):
    x, k = inputs[:2]
    ctx.k = k
""",
    "sliced_from_the_end": """\
def _setup(ctx, inputs, output):
    x, k = inputs[:-1]
    ctx.k = k
""",
    "read_and_left": """\
def _setup(ctx, inputs, output):
    x = inputs[0]
    out = inputs[2]  # unused
    ctx.k = inputs[1]
""",
    "on_lines": """\
def _setup(ctx, inputs, output):
    (
        x,  # the input
        k,  # the factor
        out,  # the buffer
    ) = inputs
    ctx.k = k
""",
}
SETUPS_MIDDLE = {
    "unpacked": """\
def _setup(ctx, inputs, output):
    x, out, k = inputs
    ctx.k = k
""",
    "underscore": """\
def _setup(ctx, inputs, output):
    x, _, k = inputs
    ctx.k = k
""",
    "star_first": """\
def _setup(ctx, inputs, output):
    *_, k = inputs
    ctx.k = k
""",
    "indexed": """\
def _setup(ctx, inputs, output):
    ctx.k = inputs[2]
""",
    "from_the_end": """\
def _setup(ctx, inputs, output):
    ctx.k = inputs[-1]
""",
    "sliced_and_indexed": """\
def _setup(ctx, inputs, output):
    ctx.k = inputs[1:][1]
""",
    "another_name": """\
def _setup(ctx, inputs, output):
    args = inputs
    ctx.k = args[2]
""",
    "sliced": """\
def _setup(ctx, inputs, output):
    (k,) = inputs[2:]
    ctx.k = k
""",
    "rest_unpacked": """\
def _setup(ctx, inputs, output):
    x, *others = inputs
    out, k = others
    ctx.k = k
""",
}
BACKWARDS = {
    "full": """\
def _bw(ctx, g):
    return g * ctx.k, None, None
""",
    "early": """\
def _bw(ctx, g):
    if not ctx.needs_input_grad[0]:
        return None, None, None
    gx = g * ctx.k
    return gx, None, None
""",
    "added": """\
def _bw(ctx, g):
    return (g * ctx.k,) + (None,) * 2
""",
    "starred": """\
def _bw(ctx, g):
    return (g * ctx.k, *[None] * 2)
""",
    "name": """\
def _bw(ctx, g):
    grads = (g * ctx.k, None, None)
    return grads
""",
    "conditional": """\
def _bw(ctx, g):
    return (g * ctx.k, None, None) if ctx.needs_input_grad[0] else (None, None, None)
""",
    "needs": """\
def _bw(ctx, g):
    (need_x, *_) = ctx.needs_input_grad
    gx = gk = gout = None
    if need_x:
        gx = g * ctx.k
    return gx, gk, gout
""",
    "on_lines": """\
def _bw(ctx, g):
    return (
        g * ctx.k,  # x
        None,  # k
        None,  # out
    )
""",
}
# One gradient does for calls that leave the rest out.
SHORT = {
    "one": """\
def _bw(ctx, g):
    return g * ctx.k
""",
}
REGISTER = "scale.register_autograd(_bw, setup_context=_setup)\n"

CHECK = """\
x = torch.arange(6.0).reshape(2, 3) + 1
out_twice(scale_out, (x,), x * 2)
out_twice(scale_out, (x, 3.0), x * 3)
sound(scale, x)
sound(scale, x.clone().requires_grad_())
sound(scale_out, x, 3.0, out=torch.empty(2, 3))
grads(scale, x)
"""
WITH_FACTOR = CHECK + "grads(lambda t: scale(t, 3.0), x)\n"


def with_formula(name: str, parameters: str, setup: str, backward: str) -> str:
    parts = (scale(name, parameters), setup, "\n\n", backward, "\n\n", REGISTER)
    return "".join(parts)


def formulas() -> dict[str, tuple[str, str]]:
    """Each way to read the inputs with each way to return gradients, in turn."""
    found = {}
    backwards = list(BACKWARDS.items())
    for parameters, setups in ((LAST, SETUPS), (MIDDLE, SETUPS_MIDDLE)):
        where = "last" if parameters == LAST else "middle"
        for index, (kind, setup) in enumerate(setups.items()):
            shape, backward = backwards[index % len(backwards)]
            name = f"{where}_{kind}_{shape}"
            found[name] = (with_formula(name, parameters, setup, backward), WITH_FACTOR)
        for shape, backward in SHORT.items():
            name = f"{where}_{shape}"
            setup = setups["indexed"]
            found[name] = (with_formula(name, parameters, setup, backward), CHECK)
    return found


@pytest.mark.torch
@pytest.mark.slow
def test_formulas_stay_right(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert faults(tmp_path, formulas()) == {}


def test_comments_and_layout_of_a_formula_stay() -> None:
    source = with_formula("demo", LAST, SETUPS["on_lines"], BACKWARDS["on_lines"])
    after = migrated(source)
    assert after.endswith(
        """
def _setup(ctx, inputs, output):
    (
        x,  # the input
        k,  # the factor
    ) = inputs
    ctx.k = k


def _bw(ctx, g):
    return (
        g * ctx.k,  # x
        None,  # k
    )


scale.register_autograd(_bw, setup_context=_setup)
"""
    )


def test_call_with_a_buffer_is_noted_where_an_argument_requires_grad() -> None:
    formula = with_formula("demo", LAST, SETUPS["indexed"], BACKWARDS["full"])
    lines = [
        "",
        "",
        "def fill(weight, buffer):",
        "    x = torch.ones(3, requires_grad=True)",
        "    scale(x, out=buffer)",
        "    with torch.no_grad():",
        "        scale(x, out=buffer)",
        "    scale(weight, out=buffer)",
        "    return scale(x)",
        "",
    ]
    source = formula + "\n".join(lines)
    migration = migrate_files({"ops.py": source})[1]
    noted = [n for n in migration.notes if "requires grad" in n.message]
    assert [n.position.line for n in noted] == [formula.count("\n") + 5]
