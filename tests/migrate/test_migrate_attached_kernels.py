"""Kernels for single devices: each half keeps the part that is its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from attached_programs import faults, reason_against, scale
from migrating import migrate_files

from opscaffold.migrate.plan import Options

KERNELS = {
    "decorator": """\
@scale.register_kernel("cpu")
def _(x, k=2.0, out=None):
    # on the CPU
    if out is None:
        out = torch.empty_like(x)
    out.copy_(x)
    out.mul_(k)
    return out
""",
    "several_devices": """\
@scale.register_kernel(("cpu", "xpu"))
def scale_cpu(x, k=2.0, out=None):
    if out is None:
        return x * k
    return torch.mul(x, k, out=out)
""",
    "call_and_other_names": """\
def scale_cpu(t, factor=2.0, dest=None):
    result = torch.empty_like(t) if dest is None else dest
    torch.mul(t, factor, out=result)
    return result


scale.register_kernel("cpu", scale_cpu)
""",
    "curried_and_conditional": """\
def scale_cpu(t, factor=2.0, dest=None):
    result = torch.empty_like(t) if dest is None else dest
    torch.mul(t, factor, out=result)
    return result


scale.register_kernel("cpu")(scale_cpu)
if torch.cuda.is_available():
    scale.register_kernel("cuda", scale_cpu)
""",
    "lambda": """\
scale.register_kernel("cpu", lambda x, k=2.0, out=None: torch.mul(x, k, out=out))
""",
    "by_name": """\
@torch.library.register_kernel("{ns}::scale", "cpu")
def _(x, k=2.0, out=None):
    out = out if out is not None else torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out
""",
    "by_object": """\
@torch.library.register_kernel(scale, "cpu")
def _(x, k=2.0, out=None):
    out = out if out is not None else torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out
""",
    "stacked": """\
@scale.register_kernel("mps")
@scale.register_kernel("cpu")
def _(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out
""",
    "impl": """\
@torch.library.impl("{ns}::scale", "CPU")
def scale_cpu(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out
""",
    "library_method": """\
lib = torch.library.Library("{ns}", "FRAGMENT")


def scale_cpu(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


lib.impl("scale", scale_cpu, "CPU")
""",
    "impl_on_library": """\
lib = torch.library.Library("{ns}", "FRAGMENT")


@torch.library.impl(lib, "scale", "CPU")
def scale_cpu(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out
""",
    "impl_of_lambda": """\
torch.library.impl("{ns}::scale", "cpu", lambda x, k=2.0, out=None: torch.mul(x, k, out=out))
""",
    "in_a_function": """\
def install():
    @scale.register_kernel("cpu")
    def inner(x, k=2.0, out=None):
        if out is None:
            out = torch.empty_like(x)
        torch.mul(x, k, out=out)
        return out


install()
""",
    "both_branches": """\
with torch.no_grad():
    with scale.set_kernel_enabled("cuda", False):
        pass


@scale.register_kernel("cpu")
@torch.no_grad()
def _(x: Tensor, k: float = 2.0, out: Optional[Tensor] = None) -> Tensor:
    if out is not None:
        torch.mul(x, k, out=out)
        return out
    else:
        return x.mul(k)
""",
    "every_device": """\
@scale.register_kernel(None)
def _(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out
""",
}

REFUSALS = {
    "reads": (
        """\
@scale.register_kernel("cpu")
def _(x, k=2.0, out=None):
    if out is None:
        out = torch.zeros_like(x)
    out.add_(x, alpha=k)
    return out
""",
        "",
    ),
    "view": (
        """\
@scale.register_kernel("cpu")
def _(x, k=2.0, out=None):
    if out is None:
        return x * k
    torch.mul(x, k, out=out)
    return out.view(-1)
""",
        "",
    ),
    "params": (
        """\
@scale.register_kernel("cpu")
def _(x, k=2.0):
    return x * k
""",
        "does not take",
    ),
    "star": (
        """\
@scale.register_kernel("cpu")
def _(*args):
    return args[0] * 2
""",
        "not plain",
    ),
    "used": (
        """\
@scale.register_kernel("cpu")
def scale_cpu(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


def test():
    scale_cpu(torch.ones(2), 2.0, torch.ones(2))
""",
        "used here",
    ),
    "self": (
        """\
@scale.register_kernel("cpu")
def _(x, k=2.0, out=None):
    return scale(x.to("cuda"), k, out)
""",
        "",
    ),
    "autograd": (
        """\
@torch.library.impl("{ns}::scale", "Autograd")
def scale_ag(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out
""",
        "no kernel for a device",
    ),
    "oneline": (
        """\
def scale_cpu(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


if torch.cuda.is_available(): scale.register_kernel("cpu", scale_cpu)
""",
        "line of its own",
    ),
    "main": (
        """\
scale.register_kernel("cpu", scale._init_fn)
""",
        "used here as a value",
    ),
    "cond": (
        """\
if torch.cuda.is_available():
    def impl(x, k=2.0, out=None):
        return torch.mul(x, k, out=out)
else:
    def impl(x, k=2.0, out=None):
        return torch.mul(x, k, out=out)
scale.register_kernel("cpu", impl)
""",
        "",
    ),
}

CHECK = """\
x = torch.arange(6.0).reshape(2, 3) + 1
torch.testing.assert_close(scale(x, 3.0), x * 3)
sound(scale, x)
"""
OUT = (
    CHECK
    + """\
out_twice(scale_out, (x,), x * 2)
out_twice(scale_out, (x, 3.0), x * 3)
sound(scale_out, x, 3.0, out=torch.empty(2, 3))
"""
)
INTO = (
    CHECK
    + """\
into_twice(scale_out, lambda op, buffer: op(x, buffer, 3.0), x * 3)
sound(scale_out, x, torch.empty(2, 3), 3.0)
"""
)
# The main kernel of these is never called: the tests run on the CPU.
OTHER_DEVICE = ', device_types="cuda"'


def with_kernel(name: str, kernel: str) -> str:
    return scale(name, more=OTHER_DEVICE) + kernel.replace("{ns}", name)


@pytest.mark.torch
@pytest.mark.slow
def test_kernels_are_split_for_an_out_op(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    programs = {f"out_{k}": (with_kernel(f"out_{k}", v), OUT) for k, v in KERNELS.items()}
    assert faults(tmp_path, programs) == {}


@pytest.mark.torch
@pytest.mark.slow
def test_kernels_are_split_for_a_mutable_op(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    kinds = {k: v for k, v in KERNELS.items() if "lambda" not in k}
    programs = {f"into_{k}": (with_kernel(f"into_{k}", v), INTO) for k, v in kinds.items()}
    assert faults(tmp_path, programs, Options(target=(2, 4))) == {}


@pytest.mark.parametrize("kind", REFUSALS)
def test_kernel_that_differs_is_left_with_the_reason(kind: str, tmp_path: Path) -> None:
    kernel, part = REFUSALS[kind]
    reason, line = reason_against(tmp_path, with_kernel("demo", kernel))
    assert part in reason
    assert line > with_kernel("demo", "").count("\n")


def test_kernel_in_another_module_gets_the_new_op_by_import() -> None:
    files = {
        "ops.py": with_kernel("demo", ""),
        "kernels.py": """\
        import torch

        from ops import scale as op


        @op.register_kernel("cpu")
        def _(x, k=2.0, out=None):
            if out is None:
                out = torch.empty_like(x)
            torch.mul(x, k, out=out)
            return out
        """,
    }
    after, _ = migrate_files(files)
    assert after["kernels.py"].decode() == (
        """\
import torch

from ops import scale as op, scale_out as op_out


@op.register_kernel("cpu")
def _(x, k=2.0):
    out = torch.empty_like(x)
    torch.mul(x, k, out=out)
    return out


@op_out.register_kernel("cpu")
def _(x, k=2.0, *, out):
    torch.mul(x, k, out=out)
    return out
"""
    )
