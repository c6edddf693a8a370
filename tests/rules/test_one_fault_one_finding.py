"""One fault has one finding: what follows from it, or is refused before it, is not reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

HEAD = "import torch\nfrom torch import Tensor\n\n\n"
OUT = '@torch.library.custom_op("d::f", mutates_args=("out",), tags=torch.Tag.out)\n'
OUT += "def f(x: Tensor, flag: bool, *, out: Tensor) -> Tensor:\n"
INPLACE = '@torch.library.custom_op("d::f_", mutates_args=("x",), tags=torch.Tag.inplace)\n'
INPLACE += "def f_(x: Tensor, flag: bool) -> Tensor:\n"
MAYBE = '@torch.library.custom_op("d::f", mutates_args=("out",))\n'
MAYBE += "def f(x: Tensor, out: Tensor | None = None) -> Tensor:\n"
FORMULA = """
@torch.library.custom_op("d::f", mutates_args=())
def f(x: Tensor) -> Tensor:
    return x * 2


@f.register_fake
def _(x):
    return torch.empty_like(x)


def backward(ctx, grad):
    result = torch.empty_like(grad)
    LAUNCH
    return result


f.register_autograd(backward)
"""


def body(head: str, lines: str) -> str:
    return head + "".join(f"    {line}\n" for line in lines.splitlines())


def reported(source: str, directory: Path) -> list[str]:
    (directory / "module.py").write_text(HEAD + source, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return sorted(f.code for f in apply_rules(project, all_rules()))


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        (body(OUT, "out = x * 2\nreturn out"), ["OPS401"]),
        (body(OUT, "out = x * 2\nreturn x + 1"), ["OPS401"]),
        (body(OUT, "out[0] = x\nreturn out"), ["OPS401"]),
        (body(OUT, "out[0].copy_(x)\nreturn out"), ["OPS401"]),
        (body(OUT, "out.narrow(0, 1, 2).fill_(3)\nreturn out"), ["OPS401"]),
        (body(OUT, "torch.mul(x, 2, out=out[1:])\nreturn out"), ["OPS401"]),
        (body(OUT, "torch.mul(x, 2, out=out.select(0, 1))\nreturn out"), ["OPS401"]),
        (body(OUT, "if flag:\n    out.copy_(x)\nreturn out"), ["OPS401"]),
        (body(OUT, "if not flag:\n    return out\nout.copy_(x)\nreturn out"), ["OPS401"]),
        (body(OUT, "torch.mul(x, 2, out=out)\nreturn out.view(-1)"), ["OPS401"]),
        (body(OUT, "torch.mul(x, 2, out=out)\nreturn out"), []),
        (body(OUT, "if x.numel() == 0:\n    return out\nout.copy_(x)\nreturn out"), []),
        (body(OUT, "for i in range(x.shape[0]):\n    out[i] = x[i]\nreturn out"), []),
        (body(OUT, "if flag:\n    out.copy_(x)\nelse:\n    out.zero_()\nreturn out"), []),
        (body(OUT, "if flag:\n    out.copy_(x)\nif not flag:\n    out.zero_()\nreturn out"), []),
        (body(OUT, "out[0] = x[0]\nout[1:] = x[1:]\nreturn out"), []),
        (
            body(OUT.replace("out: Tensor", "out: Tensor | None = None"), "return out"),
            ["OPS402"],
        ),
        (body(INPLACE, "return x.mul(2)"), ["OPS403"]),
        (body(INPLACE, "if flag:\n    x.mul_(2)\nreturn x.view(-1)"), ["OPS403"]),
        (body(INPLACE, "return x"), ["OPS403"]),
        (body(INPLACE, "return x.mul_(2)"), []),
        (
            body(MAYBE, "if out is None:\n    return x * 2\nout.copy_(x)\nreturn torch.empty(0)"),
            ["OPS101"],
        ),
        (
            body(MAYBE, "if out is None:\n    return x * 2\nout.copy_(x)\nreturn x.new_zeros(1)"),
            ["OPS101"],
        ),
        (body(MAYBE, "if out is not None:\n    out.copy_(x)\nreturn x * 2"), ["OPS102"]),
        (
            body(MAYBE, "r = torch.empty(1)\nif out is not None:\n    out.copy_(x)\nreturn r"),
            ["OPS102"],
        ),
        (body(MAYBE.replace('"out"', '"outs"'), "x.add_(1)\nreturn x * 2"), ["OPS304"]),
        (
            body(
                MAYBE.replace('"out"', '"n"').replace("out: Tensor | None", "n: int | None"),
                "x.add_(1)\nreturn x * 2",
            ),
            ["OPS304"],
        ),
        (
            "from kernels import run\n" + FORMULA.replace("LAUNCH", "run[(1,)](grad, result)"),
            ["OPS505"],
        ),
        (
            "from kernels import run\n" + FORMULA.replace("LAUNCH", "run[grid](grad, result)"),
            ["OPS505"],
        ),
        (
            "from kernels import run\n"
            + FORMULA.replace("LAUNCH", "run[(1,)](grad.contiguous(), result)"),
            [],
        ),
        (
            "from kernels import run\n"
            + FORMULA.replace("LAUNCH", "run[(1,)](grad, result, grad.stride(0))"),
            [],
        ),
        ("from kernels import TABLE\n" + FORMULA.replace("LAUNCH", "TABLE[0](grad, result)"), []),
    ],
)
def test_one_fault_has_one_finding(source: str, codes: list[str], tmp_path: Path) -> None:
    assert reported(source, tmp_path) == codes


@pytest.mark.parametrize(
    "lines",
    [
        "if not x.numel():\n    return x.clone()\nreturn backend.run(x, out)",
        "if not x.numel():\n    return x.clone()\nmade = backend.run(x, out)\nreturn made + 1",
        "made = backend.run(x, out)\nif x.numel():\n    return backend.pick(made)\nreturn x * 2",
        "rows = out.shape[0] if out is not None else 1\nreturn backend.run(x, rows) * 2",
    ],
)
def test_optional_input_is_no_buffer_for_going_out_of_sight(lines: str, tmp_path: Path) -> None:
    head = MAYBE.replace('("out",)', "()").replace("out:", "probs:")
    source = "import backend\n\n" + body(head, lines.replace("out", "probs"))
    assert reported(source, tmp_path) == []
