"""Ops of every kind of definition, with what is attached to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from attached_programs import HEAD, faults

PROGRAMS: dict[str, tuple[str, str]] = {
    "cls": (
        HEAD
        + """\
@torch.library.custom_op("cls::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


@scale.register_fake
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


class Formula:
    \"\"\"Formula of scale.\"\"\"

    @staticmethod
    def setup(ctx, inputs, output):
        x, k, out = inputs
        ctx.k = k

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None, None


scale.register_autograd(Formula.backward, setup_context=Formula.setup)
""",
        """\
x = torch.arange(6.0).reshape(2, 3) + 1
out_twice(scale_out, (x,), x * 2)
out_twice(scale_out, (x, 3.0), x * 3)
sound(scale, x)
sound(scale, x.clone().requires_grad_())
sound(scale_out, x, 3.0, out=torch.empty(2, 3))
grads(scale, x)
grads(lambda t: scale(t, 3.0), x)
assert scale(x.clone().requires_grad_(), 3.0).requires_grad
""",
    ),
    "callform": (
        HEAD
        + """\
def _scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


scale = torch.library.custom_op("callform::scale", _scale, mutates_args=())


@scale.register_fake
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)


@scale.register_kernel("cpu")
def _(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out
""",
        """\
x = torch.arange(6.0).reshape(2, 3) + 1
out_twice(scale_out, (x,), x * 2)
out_twice(scale_out, (x, 3.0), x * 3)
sound(scale, x)
sound(scale, x.clone().requires_grad_())
sound(scale_out, x, 3.0, out=torch.empty(2, 3))
grads(scale, x)
grads(lambda t: scale(t, 3.0), x)
assert scale(x.clone().requires_grad_(), 3.0).requires_grad
""",
    ),
    "needs_none": (
        HEAD
        + """\
@torch.library.custom_op("needsnone::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


@scale.register_fake
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    ctx.set_materialize_grads(False)
    ctx.x_shape = inputs[0].shape
    ctx.k = inputs[1]


def _bw(ctx, *grads):
    (g,) = grads
    if g is None:
        return None, None, None
    return g.reshape(ctx.x_shape).mul(ctx.k), None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        """\
x = torch.arange(6.0).reshape(2, 3) + 1
out_twice(scale_out, (x,), x * 2)
out_twice(scale_out, (x, 3.0), x * 3)
sound(scale, x)
sound(scale, x.clone().requires_grad_())
sound(scale_out, x, 3.0, out=torch.empty(2, 3))
grads(scale, x)
grads(lambda t: scale(t, 3.0), x)
assert scale(x.clone().requires_grad_(), 3.0).requires_grad
""",
    ),
    "define": (
        HEAD
        + """\
lib = torch.library.Library("lowdef", "DEF")
lib.define("scale(Tensor x, float k=2.0, Tensor(a!)? out=None) -> Tensor")


@torch.library.impl(lib, "scale", "CompositeExplicitAutograd")
def _scale(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


@torch.library.register_fake("lowdef::scale")
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None, None


torch.library.register_autograd("lowdef::scale", _bw, setup_context=_setup)


@torch.library.register_vmap("lowdef::scale")
def _(info, in_dims, x, k=2.0, out=None):
    return torch.ops.lowdef.scale(x, k, out), in_dims[0]


def caller(x, buf):
    return torch.ops.lowdef.scale(x, 3.0)
""",
        """\
x = torch.arange(6.0).reshape(2, 3) + 1
op = torch.ops.lowdef.scale.default
sound(op, x)
sound(op, x.clone().requires_grad_())
grads(op, x)
grads(lambda t: op(t, 3.0), x)
mapped(lambda t: op(t, 3.0), x)
into_twice(torch.ops.lowdef.scale_out.default, lambda f, o: f(x, o, 3.0), x * 3)
""",
    ),
    "define_kw": (
        HEAD
        + """\
lib = torch.library.Library("lowkw", "DEF")
lib.define("scale(Tensor x, float k=2.0, *, Tensor(a!)? out=None) -> Tensor")


@torch.library.impl(lib, "scale", "CompositeExplicitAutograd")
def _scale(x, k=2.0, *, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


@torch.library.register_fake("lowkw::scale")
def _(x, k=2.0, *, out=None):
    return torch.empty_like(x)


def _setup(ctx, inputs, output, keyword_only_inputs):
    x, k = inputs
    out = keyword_only_inputs["out"]
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None


torch.library.register_autograd("lowkw::scale", _bw, setup_context=_setup)
""",
        """\
x = torch.arange(6.0).reshape(2, 3) + 1
op = torch.ops.lowkw.scale.default
sound(op, x)
sound(op, x.clone().requires_grad_())
grads(op, x)
grads(lambda t: op(t, 3.0), x)
""",
    ),
    "trit": (
        HEAD
        + """\
@torch.library.triton_op("trit::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


@scale.register_kernel("cpu")
def _(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        """\
x = torch.arange(6.0).reshape(2, 3) + 1
grads(lambda t: scale(t, 3.0), x)
into_twice(scale_out, lambda f, o: f(x, o, 3.0), x * 3)
""",
    ),
    "kwdims": (
        HEAD
        + """\
@torch.library.custom_op("kwdims::scale", mutates_args=())
def scale(x: Tensor, out: Tensor | None = None, *, k: float = 2.0) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


@scale.register_fake
def _(x, out=None, *, k=2.0):
    return torch.empty_like(x)


@scale.register_vmap
def _(info, in_dims, x, out=None, *, k=2.0):
    (dim, *_) = in_dims
    return scale(x.movedim(dim, 0), out=out, k=k), 0


@scale.register_kernel("cpu")
def _(x, out=None, *, k=2.0):
    if out is None:
        return x * k
    torch.mul(x, k, out=out)
    return out
""",
        """\
x = torch.arange(6.0).reshape(2, 3) + 1
mapped(lambda t: scale(t, k=3.0), x, 1)
out_twice(scale_out, (x,), x * 3, k=3.0)
sound(scale, x)
sound(scale_out, x, k=3.0, out=torch.empty(2, 3))
""",
    ),
    "tryexc": (
        HEAD
        + """\
@torch.library.custom_op("tryexc::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


@scale.register_fake
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


try:
    @scale.register_kernel("cuda")
    def _(x, k=2.0, out=None):
        if out is None:
            out = torch.empty_like(x)
        # fused
        torch.mul(x, k, out=out)
        return out
except RuntimeError:
    pass


def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None, None


if hasattr(torch.library, "register_autograd"):
    torch.library.register_autograd(
        "tryexc::scale",
        _bw,
        setup_context=_setup,  # saves k
    )
""",
        """\
x = torch.arange(6.0).reshape(2, 3) + 1
out_twice(scale_out, (x,), x * 2)
out_twice(scale_out, (x, 3.0), x * 3)
sound(scale, x)
sound(scale, x.clone().requires_grad_())
sound(scale_out, x, 3.0, out=torch.empty(2, 3))
grads(scale, x)
grads(lambda t: scale(t, 3.0), x)
assert scale(x.clone().requires_grad_(), 3.0).requires_grad
""",
    ),
    "vmapblock": (
        HEAD
        + """\
@torch.library.custom_op("vmblock::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


@scale.register_fake
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


@scale.register_vmap
def rule(info, in_dims, x, k=2.0, out=None):
    \"\"\"Batch x.\"\"\"
    if out is None:
        # the usual way
        batch = scale(x, k)
    else:
        raise RuntimeError(f"no {out.shape} buffers")
    if out is not None and out.dim() > 1:
        batch = batch + 1
    return batch, in_dims[0]
""",
        """\
b = torch.arange(6.0).reshape(2, 3) + 1
mapped(lambda t: scale(t, 3.0), b)
mapped(scale, b)
mapped(lambda t: scale(t, 3.0), b, 1)
out_twice(scale_out, (b, 3.0), b * 3)
sound(scale, b, 3.0)
sound(scale_out, b, out=torch.empty(2, 3))
""",
    ),
    "vmap_fullkw": (
        HEAD
        + """\
@torch.library.custom_op("vmfk::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


@scale.register_fake
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


@scale.register_vmap
def rule(info, in_dims, x, k=2.0, out=None):
    assert len(in_dims) >= 1
    dims = [d for d in in_dims if d is not None]
    return scale(x, out=out, k=k), dims[0]
""",
        """\
b = torch.arange(6.0).reshape(2, 3) + 1
mapped(lambda t: scale(t, 3.0), b)
mapped(scale, b)
mapped(lambda t: scale(t, 3.0), b, 1)
out_twice(scale_out, (b, 3.0), b * 3)
sound(scale, b, 3.0)
sound(scale_out, b, out=torch.empty(2, 3))
""",
    ),
    "vmap_declared": (
        HEAD
        + """\
@torch.library.custom_op("vmdecl::scale", mutates_args=("out",))
def scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


@scale.register_fake
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


@scale.register_vmap
def rule(info, in_dims, x, k=2.0, out=None):
    return scale(x, k, out=out), in_dims[0]
""",
        """\
b = torch.arange(6.0).reshape(2, 3) + 1
mapped(lambda t: scale(t, 3.0), b)
mapped(scale, b)
mapped(lambda t: scale(t, 3.0), b, 1)
out_twice(scale_out, (b, 3.0), b * 3)
sound(scale, b, 3.0)
sound(scale_out, b, out=torch.empty(2, 3))
""",
    ),
}


@pytest.mark.torch
@pytest.mark.slow
def test_every_kind_of_definition_keeps_what_is_attached(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert faults(tmp_path, PROGRAMS) == {}
