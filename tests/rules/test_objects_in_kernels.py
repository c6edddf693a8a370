"""Methods, modules and classes that a kernel calls are followed where they are in sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code[:4] in {"OPS2", "OPS3"} or r.code == "OPS401"]
HEAD = """\
import torch
from torch import Tensor, nn


class Work:
    buffer = None

    def __init__(self):
        self.held = torch.zeros(4)

    @classmethod
    def get(cls, n):
        if cls.buffer is None or cls.buffer.numel() < n:
            cls.buffer = torch.empty(n)
        return cls.buffer[:n]

    @classmethod
    def new(cls, n):
        return torch.empty(n)

    @staticmethod
    def same(t):
        return t

    def step(self, t):
        self.held.copy_(t)
        return self.held

    def apart(self, t):
        return self.step(t).clone()

    def clear(self, t):
        t.zero_()

    def second(self, t, u):
        return u * 2


work = Work()


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.n = 1
        return t


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * 2


class Split(torch.autograd.Function):
    @staticmethod
    def forward(t, u):
        return u * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


"""
PLAIN = '@torch.library.custom_op("d::f", mutates_args=())\ndef f(x: Tensor, n: int) -> Tensor:\n'
OUT = (
    '@torch.library.custom_op("d::f", mutates_args=("out",), tags=torch.Tag.out)\n'
    "def f(x: Tensor, n: int, *, out: Tensor) -> Tensor:\n"
)


def reported(body: str, directory: Path, op: str = PLAIN) -> list[str]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (directory / "module.py").write_text(HEAD + op + lines, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return sorted({f.code for f in apply_rules(project, RULES)})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("w = Work.get(n)\nw.copy_(x)\nreturn w", "OPS205"),
        ("return work.step(x)", "OPS205"),
        ("return work.held", "OPS205"),
        ("work.clear(x)\nreturn x + 1", "OPS301"),
        ("Work.clear(work, x)\nreturn x + 1", "OPS301"),
        ("return Work.same(x)", "OPS201"),
        ("return Same.apply(x)", "OPS201"),
        ("return nn.Identity()(x)", "OPS201"),
        ("keep = nn.Identity()\nreturn keep(x)", "OPS201"),
        ("return nn.ReLU(inplace=True)(x) + 1", "OPS301"),
        ("return nn.ReLU(True)(x) + 1", "OPS301"),
        ("act = torch.nn.LeakyReLU(0.1, inplace=True)\nreturn act(x[:1]) + 1", "OPS301"),
        ("return getattr(x, 'T')", "OPS202"),
        ("x.storage()[0] = 5\nreturn x + 1", "OPS301"),
        ("return getattr(x, 'data')", "OPS202"),
    ],
)
def test_what_they_do_counts(body: str, code: str, tmp_path: Path) -> None:
    assert code in reported(body, tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "return Work.get(n).clone()",
        "return Work.new(n)",
        "return work.apart(x)",
        "return work.second(x, x)",
        "return Work.second(work, x, x)",
        "y = x.clone()\nwork.clear(y)\nreturn y",
        "return Work.same(x * 2)",
        "return Twice.apply(x)",
        "return Split.apply(x, x)",
        "return nn.Identity()(x * 2)",
        "return nn.ReLU()(x)",
        "return nn.ReLU(inplace=False)(x)",
        "return nn.ReLU(inplace=True)(x * 2)",
        "return x * getattr(x, 'ndim')",
        "return x * x.untyped_storage().nbytes()",
        "y = x.clone()\ny.storage()[0] = 5\nreturn y",
        "return getattr(x, 'T').clone()",
    ],
)
def test_what_they_leave_alone_does_not(body: str, tmp_path: Path) -> None:
    assert reported(body, tmp_path) == []


@pytest.mark.parametrize(
    "body",
    [
        "out[: x.shape[0] // 2] = x[: x.shape[0] // 2]\nreturn out",
        "out[: out.shape[0] // 2] = x.sum()\nreturn out",
        "out[: len(out) - 1] = x[1:]\nreturn out",
        "out[:, : x.shape[1] // 2] = x[:, : x.shape[1] // 2] * 2\nreturn out",
    ],
)
def test_a_part_that_leaves_out_some_of_a_buffer_is_reported(body: str, tmp_path: Path) -> None:
    assert reported(body, tmp_path, OUT) == ["OPS401"]


@pytest.mark.parametrize(
    "body",
    [
        "out[: x.shape[0]] = x\nreturn out",
        "h = x.shape[1] // 2\nout[:, :h] = x[:, :h] * x[:, h:]\nreturn out",
        "out[: x.shape[0] // 2] = x.sum()\nreturn out",
        "out[: len(out) // 2] = x[0]\nout[len(out) // 2 :] = x[1]\nreturn out",
        "out[n // 2 :] = x\nreturn out",
    ],
)
def test_a_part_that_may_be_all_of_a_buffer_is_not(body: str, tmp_path: Path) -> None:
    assert reported(body, tmp_path, OUT) == []
