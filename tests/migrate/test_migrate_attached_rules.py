"""Rules for vmap, autocast and torch_dispatch: they stay with the functional half."""

from __future__ import annotations

from pathlib import Path

import pytest
from attached_programs import LAST, MIDDLE, faults, reason_against, scale
from migrating import migrate_files

VMAP = {
    "dimension_read": """\
@scale.register_vmap
def _(info, in_dims, x, k=2.0, out=None):
    x_dim = in_dims[0]
    return scale(x.movedim(x_dim, 0), k), 0
""",
    "buffer_handed_on": """\
@scale.register_vmap
def _(info, in_dims, x, k=2.0, out=None):
    x_dim, *_ = in_dims
    return scale(x.movedim(x_dim, 0), k, out), 0
""",
    "raises_for_a_buffer": """\
def scale_vmap(info, in_dims, x, k=2.0, out=None):
    if out is not None:
        raise NotImplementedError("no out under vmap")
    return x * k, in_dims[0]


scale.register_vmap(scale_vmap)
""",
    "starred": """\
@torch.library.register_vmap("{ns}::scale")
def scale_vmap(info, in_dims, *args):
    x, *rest = args
    x_dim = in_dims[0]
    k = rest[0] if rest else 2.0
    return x * k, x_dim
""",
    "lambda": """\
scale.register_vmap(lambda info, in_dims, x, k=2.0, out=None: (scale(x, k, None), in_dims[0]))
""",
    "own_buffer": """\
def scale_vmap(info, in_dims, x, k=2.0, out=None):
    buf = torch.empty_like(x)
    scale(x, k, out=buf)
    assert out is None
    return buf, in_dims[0]


torch.library.register_vmap(scale, scale_vmap)
""",
    "conditional_call": """\
@scale.register_vmap
def _(info, in_dims, x, factor=2.0, dest=None):
    result = scale(x, factor, dest) if dest is not None else scale(x, factor)
    return result, in_dims[0]
""",
    "name_bound_again": """\
@scale.register_vmap
def _(info, in_dims, x, k=2.0, out=None):
    out = scale(x, k)
    return out, in_dims[0]
""",
}
VMAP_MIDDLE = {
    "unpacked": """\
@scale.register_vmap
def _(info, in_dims, x, out, k):
    x_dim, _, _ = in_dims
    return scale(x.movedim(x_dim, 0), out, k), 0
""",
    "none_handed_on": """\
@scale.register_vmap
def _(info, in_dims, x, out=None, k=2.0):
    x_dim, out_dim, k_dim = in_dims
    assert k_dim is None
    return scale(x, None, k), x_dim
""",
    "starred_unpacked": """\
@scale.register_vmap
def _(info, in_dims, *args):
    x, _, k = args
    return scale(x, k=k), in_dims[0]
""",
    "starred_indexed": """\
@scale.register_vmap
def _(info, in_dims, *args):
    assert in_dims[2] is None
    return scale(args[0], k=args[2]), in_dims[0]
""",
}

OTHERS = {
    "autocast": (
        """\
scale.register_autocast("cpu", torch.bfloat16)
""",
        """\
x = torch.arange(3.0)
with torch.autocast("cpu", dtype=torch.bfloat16):
    assert scale(x, 3.0).dtype is torch.bfloat16
    out_twice(scale_out, (x, 3.0), x * 3)
sound(scale, x)
""",
    ),
    "dispatch": (
        """\
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@scale.register_torch_dispatch(Mode)
def _(mode, func, types, args, kwargs):
    return func(*args, **(kwargs or {})) + 1


class Other(Mode):
    pass


def rule(mode, func, types, args=(), kwargs=None):
    x, *rest = args
    return x * 100


torch.library.register_torch_dispatch("{ns}::scale", Other, rule)
""",
        """\
x = torch.arange(3.0)
with Mode():
    torch.testing.assert_close(scale(x, 3.0), x * 3 + 1)
with Other():
    torch.testing.assert_close(scale(x, 3.0), x * 100)
out_twice(scale_out, (x, 3.0), x * 3)
sound(scale, x)
""",
    ),
    "function": (
        """\
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k, out=None):
        ctx.k = k
        return scale(x, k, out)

    @staticmethod
    def backward(ctx, g):
        return scale(g, ctx.k, None), None, None


class Fresh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        buf = torch.empty_like(x)
        ctx.mark_non_differentiable()
        scale(x, 5.0, buf)
        return buf

    @staticmethod
    def backward(ctx, g):
        return scale(g, 5.0)
""",
        """\
x = torch.arange(3.0) + 1
grads(lambda t: Scaled.apply(t, 3.0), x)
grads(Fresh.apply, x)
buf = torch.empty(3)
Scaled.apply(x, 3.0, buf)
torch.testing.assert_close(buf, x * 3)
""",
    ),
}

REFUSALS = {
    "v_write": (
        LAST,
        """\
@scale.register_vmap
def _(info, in_dims, x, k=2.0, out=None):
    if out is not None:
        torch.mul(x, k, out=out)
        return out, in_dims[0]
    return x * k, in_dims[0]
""",
        "writes to",
    ),
    "v_loop": (
        LAST,
        """\
@scale.register_vmap
def _(info, in_dims, *args):
    args = [a.movedim(d, 0) if d is not None else a for a, d in zip(args, in_dims)]
    return scale(*args), 0
""",
        "",
    ),
    "v_rebind": (
        LAST,
        """\
@scale.register_vmap
def _(info, in_dims, x, k=2.0, out=None):
    if k == 2.0:
        out = scale(x, k)
    return out if out is not None else x * k, in_dims[0]
""",
        "",
    ),
    "v_dim": (
        MIDDLE,
        """\
@scale.register_vmap
def _(info, in_dims, x, out, k):
    x_dim, out_dim, _ = in_dims
    return scale(x, k=k), x_dim if out_dim is None else 0
""",
        "is used",
    ),
    "d_args": (
        LAST,
        """\
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    pass


@scale.register_torch_dispatch(Mode)
def _(mode, func, types, args, kwargs):
    x, k, out = args
    return func(x, k, out)
""",
        "is used",
    ),
    "d_kw": (
        LAST,
        """\
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    pass


@scale.register_torch_dispatch(Mode)
def _(mode, func, types, args, kwargs):
    kwargs.pop("out", None)
    return func(*args, **kwargs)
""",
        "reads",
    ),
}

CHECK = """\
batch = torch.arange(6.0).reshape(2, 3) + 1
mapped(lambda t: scale(t, 3.0), batch)
mapped(lambda t: scale(t, 3.0), batch, 1)
out_twice(scale_out, (batch, 3.0), batch * 3)
sound(scale, batch, 3.0)
sound(scale_out, batch, out=torch.empty(2, 3))
"""


def rules() -> dict[str, tuple[str, str]]:
    found = {}
    for kind, rule in VMAP.items():
        name = f"vmap_{kind}"
        # Arguments that equal their defaults are not handed to a rule.
        check = CHECK + "mapped(scale, batch)\n"
        found[name] = (scale(name) + rule.replace("{ns}", name), check)
    for kind, rule in VMAP_MIDDLE.items():
        name = f"vmap_middle_{kind}"
        found[name] = (scale(name, MIDDLE) + rule, CHECK)
    for kind, (rest, check) in OTHERS.items():
        name = f"other_{kind}"
        found[name] = (scale(name) + rest.replace("{ns}", name), check)
    return found


@pytest.mark.torch
@pytest.mark.slow
def test_rules_stay_right(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert faults(tmp_path, rules()) == {}


@pytest.mark.parametrize("kind", REFUSALS)
def test_rule_that_needs_the_buffer_is_left_with_the_reason(kind: str, tmp_path: Path) -> None:
    parameters, rest, part = REFUSALS[kind]
    source = scale("demo", parameters) + rest
    reason, line = reason_against(tmp_path, source)
    assert part in reason
    assert line > scale("demo", parameters).count("\n")


@pytest.mark.parametrize(
    ("rest", "word"),
    [
        ('scale.register_autocast("cpu", torch.bfloat16)\n', "autocast rule"),
        (VMAP["lambda"], "vmap rule"),
    ],
)
def test_what_the_new_op_does_not_get_is_noted(rest: str, word: str) -> None:
    _, migration = migrate_files({"ops.py": scale("demo") + rest})
    assert [f.severity.value for f in migration.notes] == ["info"]
    assert word in migration.notes[0].message
    assert "`demo::scale_out` gets none" in migration.notes[0].message
    assert migration.notes[0].position.line > scale("demo").count("\n")
