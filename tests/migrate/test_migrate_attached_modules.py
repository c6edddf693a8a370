"""What is attached to an op in other modules than its own: imports follow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attached_programs import RUNNER, scale
from migrating import apply, python, run, write

FORMULA = """\
def _setup(ctx, inputs, output):
    x, k, out = inputs
    ctx.k = k


def _bw(ctx, g):
    return g * ctx.k, None, None
"""
KERNEL = """\
def scale_cpu(x, k=2.0, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out
"""
REGISTER = "scale.register_autograd(_bw, setup_context=_setup)\n"
# What stands in the module of the op, behind it, and what in the module beside it.
PACKAGES: dict[str, tuple[str, str]] = {
    "formula_imported": (f"from .beside import _bw, _setup\n\n{REGISTER}", FORMULA),
    "formula_of_module": (
        (
            "from . import beside\n\n"
            "scale.register_autograd(beside._bw, setup_context=beside._setup)\n"
        ),
        FORMULA,
    ),
    "formula_elsewhere": ("", f"from .ops import scale\n\n\n{FORMULA}\n\n{REGISTER}"),
    "kernel_imported": (
        "from .beside import scale_cpu as fast\n\nscale.register_kernel('cpu', fast)\n",
        f"import torch\n\n\n{KERNEL}",
    ),
    "kernel_of_module": (
        "from . import beside\n\nscale.register_kernel('cpu', beside.scale_cpu)\n",
        f"import torch\n\n\n{KERNEL}",
    ),
    "kernel_elsewhere": (
        "",
        f"import torch\n\nfrom . import ops\n\n\n@ops.scale.register_kernel('cpu')\n{KERNEL}",
    ),
    "kernel_by_name": (
        "",
        (
            "import torch\n\nfrom . import ops\n\n\n"
            f"@torch.library.register_kernel('kernel_by_name::scale', 'cpu')\n{KERNEL}"
        ),
    ),
    "kernel_by_packet": (
        "",
        (
            "import torch\n\nfrom . import ops\n\n\n"
            "@torch.library.register_kernel(torch.ops.kernel_by_packet.scale.default, 'cpu')\n"
            f"{KERNEL}"
        ),
    ),
    "rule_elsewhere": (
        "",
        (
            "from .ops import scale\n\n\n@scale.register_vmap\n"
            "def rule(info, in_dims, x, k=2.0, out=None):\n"
            "    return scale(x, k, out), in_dims[0]\n"
        ),
    ),
}
CHECKS = {
    "formula": "sound(scale, x.clone().requires_grad_(), 3.0)\ngrads(lambda t: scale(t, 3.0), x)\n",
    "kernel": "sound(scale, x)\nout_twice(scale_out, (x, 3.0), x * 3)\n",
    "rule": "mapped(lambda t: scale(t, 3.0), x)\n",
}


@pytest.mark.torch
@pytest.mark.slow
def test_attached_functions_are_followed_across_modules(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for name, (behind, beside) in PACKAGES.items():
        kernel = name.startswith("kernel")
        files = {
            "ops.py": scale(name, more=', device_types="cuda"' if kernel else "") + behind,
            "beside.py": beside,
            "__init__.py": "from .ops import scale\nfrom . import beside\n",
        }
        write(tmp_path, {f"{name}/{file}": text for file, text in files.items()})
        check = next(check for start, check in CHECKS.items() if name.startswith(start))
        x = "x = torch.arange(6.0).reshape(2, 3)\n"
        write(tmp_path, {f"{name}.check": x + check})
    migration = run(tmp_path)
    assert len(migration.plans) == len(PACKAGES), migration.findings
    apply(migration)
    assert run(tmp_path).changes == {}
    results = json.loads(python(RUNNER, tmp_path).splitlines()[-1])
    assert {name: fault for name, fault in results.items() if fault} == {}
