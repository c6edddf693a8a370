"""What a kernel that is registered for some devices only makes of tensors that it moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code[:4] in {"OPS2", "OPS3"}]
HEAD = """\
import torch
from torch import Tensor

"""
CUSTOM = """\
@torch.library.custom_op("d::f", mutates_args=(), device_types={devices})
def f(x: Tensor, n: int) -> Tensor:
    {body}
"""
KERNEL = """\
@torch.library.custom_op("d::f", mutates_args=())
def f(x: Tensor, n: int) -> Tensor:
    return x + n


@f.register_kernel({devices})
def on_device(x, n):
    {body}
"""
IMPL = """\
lib = torch.library.Library("d", "FRAGMENT")
lib.define("f(Tensor x, int n) -> Tensor")


@torch.library.impl(lib, "f", {devices})
def on_device(x, n):
    {body}
"""


def reported(source: str, directory: Path) -> list[str]:
    (directory / "module.py").write_text(HEAD + source, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return sorted({f.code for f in apply_rules(project, RULES)})


@pytest.mark.parametrize("form", [CUSTOM, KERNEL, IMPL], ids=["custom_op", "kernel", "impl"])
@pytest.mark.parametrize(
    "body",
    [
        "return x.cpu()",
        'return x.to("cpu")',
        'return x.to(device="cpu:0")',
        'return x.to(torch.device("cpu"), torch.float32)',
        "return x.reshape(-1).cpu()",
        "return torch.from_numpy(x.cpu().numpy()).view(-1)",
        "return x.cpu().add_(n).clone()",
        "return x.cpu() if x.is_cuda else x",
    ],
)
def test_cuda_kernel_that_moves_to_the_cpu_copies(form: str, body: str, tmp_path: Path) -> None:
    assert reported(form.format(devices='"cuda"', body=body), tmp_path) == []


@pytest.mark.parametrize(
    ("form", "devices", "body", "codes"),
    [
        (CUSTOM, "None", "return x.cpu()", ["OPS203"]),
        (CUSTOM, '("cuda", "cpu")', "return x.cpu()", ["OPS203"]),
        (CUSTOM, '"cuda"', "return x.to(torch.float32)", ["OPS203"]),
        (CUSTOM, '"cuda"', 'return x.to("cuda")', ["OPS203"]),
        (CUSTOM, '"cpu"', "return x.cpu()", ["OPS203"]),
        (CUSTOM, '"cuda"', "return x if x.is_cuda else x.cpu()", ["OPS201"]),
        (KERNEL, '"cpu"', "return x.cpu()", ["OPS203"]),
        (KERNEL, '["cpu", "cuda"]', 'return x.to("cpu")', ["OPS203"]),
        (IMPL, '"CompositeExplicitAutograd"', "return x.cpu()", ["OPS203"]),
        (IMPL, '"CPU"', "return x.cpu()", ["OPS203"]),
        (IMPL, '"CUDA"', "return x.cuda()", ["OPS203"]),
    ],
)
def test_move_that_may_go_nowhere_may_alias(
    form: str, devices: str, body: str, codes: list[str], tmp_path: Path
) -> None:
    assert reported(form.format(devices=devices, body=body), tmp_path) == codes


def test_function_of_two_registrations_runs_on_either_device(tmp_path: Path) -> None:
    both = """
lib = torch.library.Library("d", "FRAGMENT")
lib.define("f(Tensor x, int n) -> Tensor")


def kernel(x, n):
    return x.cpu()


lib.impl("f", kernel, "CUDA")
"""
    assert reported(both, tmp_path) == []
    assert reported(both + 'lib.impl("f", kernel, "CPU")\n', tmp_path) == ["OPS203"]
