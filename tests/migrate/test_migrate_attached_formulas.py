"""Whole programs with autograd formulas, in the ways that real code writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from attached_programs import HEAD, faults

PROGRAMS: dict[str, tuple[str, str]] = {
    "two_0": (
        HEAD
        + """\
@torch.library.custom_op("two0::mix", mutates_args=("out",))
def mix(x: Tensor, out: Tensor | None = None, y: Tensor | None = None) -> Tensor:
    out = torch.empty_like(x) if out is None else out
    torch.mul(x.detach(), x.detach() if y is None else y.detach(), out=out)
    return out


@mix.register_fake
def _(x, out=None, y=None):
    return torch.empty_like(x)


def setup(ctx, inputs, output):
    x, out, y = inputs
    ctx.save_for_backward(x, y)


def backward(ctx, grad):
    x, y = ctx.saved_tensors
    gx = gy = None
    if ctx.needs_input_grad[0]:
        gx = grad * y if y is not None else 2 * grad * x
    if y is not None and ctx.needs_input_grad[2]:
        gy = grad * x
    return gx, None, gy


torch.library.register_autograd("two0::mix", backward, setup_context=setup)
""",
        """\
x = torch.arange(3.0) + 1
y = x * 3
out_twice(mix_out, (x, y), x * y)
sound(mix, x, y)
sound(mix, x.clone().requires_grad_(), y.clone().requires_grad_())
sound(mix_out, x, out=torch.empty(3))
grads(mix, x, y)
grads(mix, x)
grads(lambda t: mix(x.double(), t), y)
grads(lambda t: mix(t, y.double()), x)
""",
    ),
    "two_1": (
        HEAD
        + """\
@torch.library.custom_op("two1::mix", mutates_args=("out",))
def mix(x: Tensor, out: Tensor | None = None, y: Tensor | None = None) -> Tensor:
    out = torch.empty_like(x) if out is None else out
    torch.mul(x.detach(), x.detach() if y is None else y.detach(), out=out)
    return out


@mix.register_fake
def _(x, out=None, y=None):
    return torch.empty_like(x)


def setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], inputs[2])


def backward(ctx, grad):
    x, y = ctx.saved_tensors
    if y is None:
        return 2 * grad * x, None
    need_x, _, need_y = ctx.needs_input_grad
    return grad * y if need_x else None, None, grad * x if need_y else None


mix.register_autograd(backward, setup_context=setup)
""",
        """\
x = torch.arange(3.0) + 1
y = x * 3
out_twice(mix_out, (x, y), x * y)
sound(mix, x, y)
grads(mix, x, y)
grads(mix, x)
grads(lambda t: mix(x.double(), t), y)
grads(lambda t: mix(t, y.double()), x)
""",
    ),
    "output": (
        HEAD
        + """\
@torch.library.custom_op("agexp::expo", mutates_args=())
def expo(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.exp(x.detach(), out=out)
    return out


@expo.register_fake
def _(x, out=None):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(output)


def _bw(ctx, g):
    (y,) = ctx.saved_tensors
    return g * y, None


torch.library.register_autograd(expo, _bw, setup_context=_setup)
""",
        """\
x = torch.tensor([0.1, 0.2])
out_twice(expo_out, (x,), x.exp())
sound(expo, x.clone().requires_grad_())
grads(expo, x)
sound(expo_out, x, out=torch.empty(2))
""",
    ),
    "nosetup": (
        HEAD
        + """\
@torch.library.custom_op("agid::ident", mutates_args=())
def ident(x: Tensor, out: Tensor | None = None) -> Tensor:
    \"\"\"Copy x.

    Args:
        x: the input
        out: the buffer
    \"\"\"
    if out is None:
        out = torch.empty_like(x)
    out.copy_(x.detach())
    return out


@torch.library.register_fake("agid::ident")
def _(x, out=None):
    return torch.empty_like(x)


@ident.register_autograd
def _backward(ctx, g):
    return g.clone(), None
""",
        """\
x = torch.tensor([0.1, 0.2])
out_twice(ident_out, (x,), x)
sound(ident, x.clone().requires_grad_())
grads(ident, x)
""",
    ),
    "selfcall": (
        HEAD
        + """\
@torch.library.custom_op("agself::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


@scale.register_fake
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    x, k, _ = inputs
    ctx.k = k


def _bw(ctx, g):
    \"\"\"Scale the gradient.\"\"\"
    buf = torch.empty_like(g)
    first = scale(g, ctx.k, None)
    with torch.no_grad():
        scale(g, ctx.k, buf)
        scale(g, ctx.k, out=buf)
    return scale(g, ctx.k), None, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        """\
x = torch.arange(6.0).reshape(2, 3) + 1
out_twice(scale_out, (x,), x * 2)
out_twice(scale_out, (x, 3.0), x * 3)
sound(scale, x)
sound(scale_out, x, 3.0, out=torch.empty(2, 3))
grads(scale, x)
grads(lambda t: scale(t, 3.0), x)
assert scale(x.clone().requires_grad_(), 3.0).requires_grad
""",
    ),
    "once": (
        HEAD
        + """\
@torch.library.custom_op("agonce::scale", mutates_args=())
def scale(x: Tensor, k: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


@scale.register_fake
def _(x, k=2.0, out=None):
    return torch.empty_like(x)


from torch.autograd.function import once_differentiable


def _setup(ctx, inputs, output):
    ctx.k = inputs[1]


@once_differentiable
def _bw(ctx, g):
    return tuple([g * ctx.k, None, None])


scale.register_autograd(_bw, setup_context=_setup)
""",
        """\
x = torch.ones(3, requires_grad=True)
scale(x, 3.0).sum().backward()
assert (x.grad == 3).all()
out_twice(scale_out, (torch.ones(3), 3.0), torch.full((3,), 3.0))
""",
    ),
    "kwonly": (
        HEAD
        + """\
@torch.library.custom_op("agkw::scale", mutates_args=())
def scale(x: Tensor, out: Tensor | None = None, *, k: float = 2.0) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


@scale.register_fake
def _(x, out=None, *, k=2.0):
    return torch.empty_like(x)


def _setup(ctx, inputs, output, keyword_only_inputs):
    x, out = inputs
    ctx.k = keyword_only_inputs["k"]


def _bw(ctx, g):
    return g * ctx.k, None


scale.register_autograd(_bw, setup_context=_setup)
""",
        """\
x = torch.arange(3.0) + 1
out_twice(scale_out, (x,), x * 2)
out_twice(scale_out, (x,), x * 3, k=3.0)
sound(scale, x.clone().requires_grad_())
grads(lambda t: scale(t, k=3.0), x)
sound(scale_out, x, k=3.0, out=torch.empty(3))
""",
    ),
    "list": (
        HEAD
        + """\
@torch.library.custom_op("aglist::total", mutates_args=())
def total(xs: list[Tensor], out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(xs[0])
    torch.sum(torch.stack([x.detach() for x in xs]), 0, out=out)
    return out


@total.register_fake
def _(xs, out=None):
    return torch.empty_like(xs[0])


def _setup(ctx, inputs, output):
    xs, _ = inputs
    ctx.n = len(xs)


def _bw(ctx, g):
    return [g.clone() for _ in range(ctx.n)], None


total.register_autograd(_bw, setup_context=_setup)
""",
        """\
x = torch.arange(3.0) + 1
out_twice(total_out, ([x, x],), x * 2)
grads(lambda a, b: total([a, b]), x, x)
""",
    ),
}


@pytest.mark.torch
@pytest.mark.slow
def test_programs_with_formulas_stay_right(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert faults(tmp_path, PROGRAMS) == {}
