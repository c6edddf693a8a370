"""What the rules on effects say of kernels that reach memory by roundabout ways.

What each kernel really does was measured by running it on tensors of several layouts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code[:4] in {"OPS2", "OPS3"}]
HEAD = """\
import functools
from functools import partial
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


class State:
    kept = None


class Tools:
    @staticmethod
    def double(t: Tensor) -> None:
        t.mul_(2)


def write(t: Tensor, value: float) -> None:
    t.fill_(value)


def same(t: Tensor, scale: float = 1.0) -> Tensor:
    return t


"""
SIGNATURE = """\
@torch.library.custom_op("d::f", mutates_args=())
def f(x: Tensor, y: Tensor, n: int, flag: bool, xs: list[Tensor]) -> {}:
"""


def reported(body: str, returns: str, directory: Path) -> list[str]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (directory / "module.py").write_text(HEAD + SIGNATURE.format(returns) + lines, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return sorted({f.code for f in apply_rules(project, RULES)})


@pytest.mark.parametrize(
    "body",
    [
        "F.relu(x, True)",
        "F.leaky_relu(x, 0.1, True)",
        "F.dropout(x, 0.5, True, True)",
        "a = x.numpy()\nnp.negative(a, a)",
        "a = x.numpy()\nnp.multiply(a, 2, a)",
        "a = x.numpy()\nnp.clip(a, 0, 1, a)",
        "a = x.numpy()\na.flat[0] = 4",
        "a = x.numpy()\na @= a",
        "x[torch.tensor(0)].add_(1)",
        "x[y.argmax()].add_(1)",
        "at = slice(0, 1)\nx[at].add_(1)",
        "z = torch.empty(0)\nz.set_(x)\nz.add_(1)",
        "z = torch.empty(0)\nz.data = x\nz.add_(1)",
        "v = [x, y.clone()]\nv[0] += 1",
        "v = {'a': x, 'b': y}\nv['a'].add_(1)",
        "v = {'a': y + 1}\nv['b'] = x\nv['b'].add_(1)",
        "v = {'a': x}\nv.get('a').add_(1)",
        "max(x, y, key=id).add_(1)",
        "match (y, x):\n    case (a, b):\n        b.add_(1)",
        "match x:\n    case z:\n        z.add_(1)",
        "match x:\n    case Tensor() as z:\n        z.add_(1)",
        "g = lambda t: t.add_(1)\ng(x)",
        "(lambda t: t.mul_(2))(x)",
        "g = lambda: x.mul_(2)\ng()",
        "g = partial(write, value=3.0)\ng(x)",
        "g = partial(write, x)\ng(3.0)",
        "g = partial(lambda a, b: a.copy_(b), x)\ng(y)",
        "g = functools.partial(same, x)\ng(scale=2.0).add_(1)",
        "def inner(t=x):\n    t.add_(1)\ninner()",
        "def inner(t):\n    t.add_(1)\nrun = inner\nrun(x)",
        "Tools.double(x)",
        "cast(Tensor, x).add_(1)",
        "first = next(iter([]), x)\nfirst.add_(1)",
        "def swap():\n    nonlocal y\n    y = x\nswap()\ny.add_(1)",
        "held = [y + 1]\ndef swap():\n    held[0] = x\nswap()\nheld[0].add_(1)",
    ],
)
def test_argument_that_is_written_to(body: str, tmp_path: Path) -> None:
    assert "OPS301" in reported(f"{body}\nreturn y * 2", "Tensor", tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "x @= y",
        "F.relu(x, False)",
        "F.dropout(x, 0.5, True, False)",
        "a = x.numpy()\nnp.multiply(a, 2, np.empty_like(a))",
        "a = np.asarray(x, copy=True)\na[0] = 1",
        "z = torch.asarray(x, copy=True)\nz.add_(1)",
        "v = [x]\nv[0] = v[0] + 1\nv[0].add_(1)",
        "v = {'a': x, 'b': y + 1}\nv['b'].add_(1)",
        "v = {'a': x}\nv['a'] = x * 2\nv['a'].add_(1)",
        "v = [x]\nv.clear()\nv.append(y * 2)\nv[0].add_(1)",
        "v = [x, y][::-1]\nv[0].sum()",
        "match (x, y * 2):\n    case (a, b):\n        b.add_(1)",
        "z = x.to(torch.half).to(torch.float32)\nz.add_(1)",
        "g = lambda t: t + 1\ng(x).add_(1)",
        "g = partial(write, value=3.0)\ng(x.clone())",
        "x, y = y.clone(), x\nx.add_(1)",
        "held = {'a': x}\ndef renew():\n    held['a'] = x + 1\nrenew()\nheld['a'].add_(1)",
        "def renew():\n    nonlocal x\n    x = x * 2\nrenew()\nx.add_(1)",
        "def own():\n    y = x + 1\n    return y\nown().add_(1)",
    ],
)
def test_argument_that_is_left_alone(body: str, tmp_path: Path) -> None:
    assert reported(f"{body}\nreturn torch.ones(1)", "Tensor", tmp_path) == []


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("return torch.broadcast_tensors(x, y * 2)[0]", ["OPS203"]),
        ("return torch.broadcast_tensors(x, y * 2)[1]", []),
        ("return torch.asarray(x, copy=True)", []),
        ("return x.half().float()", []),
        ("return x.to(torch.float16).contiguous().to(torch.float32)", []),
        ("return x.float().to(torch.float32)", ["OPS203"]),
        ("return x.to(torch.float32).to(x.dtype)", ["OPS203"]),
        ("return x.float().view(torch.int32).to(torch.int32)", ["OPS203"]),
        ("return x.clone() if x.is_contiguous() else x.contiguous()", []),
        ("return x + 1 if x.is_contiguous() else x.contiguous().view(-1)", []),
        ("return x.clone() if x.dtype == torch.half else x.to(torch.float16)", []),
        ("if x.dtype != torch.float32:\n    return x.float()\nreturn x * 2", []),
        ("if x.dtype == torch.float32:\n    return x.float()\nreturn x * 2", ["OPS203"]),
        ("return max(x, y + 1, key=id)", ["OPS201"]),
        ("v = {'q': x}\nv['r'] = x + 1\nreturn v['r']", []),
        ("v = {'q': x}\nv['r'] = x + 1\nreturn v['q']", ["OPS201"]),
        ("return (lambda t: t)(x)", ["OPS201"]),
        ("return (lambda t: t.view(-1))(x)", ["OPS202"]),
        ("g = lambda t: t + 1\nreturn g(x)", []),
        ("return partial(same, x)()", ["OPS201"]),
        ("g = partial(same, scale=2.0)\nreturn g(x)", ["OPS201"]),
        ("z = torch.empty(0)\nreturn z.set_(x)", ["OPS202"]),
        ("r = x + 1\nsetattr(State, 'kept', r)\nreturn r", ["OPS205"]),
        ("r = x + 1\nsetattr(State, 'kept', r.clone())\nreturn r", []),
    ],
)
def test_what_is_returned(body: str, codes: list[str], tmp_path: Path) -> None:
    assert reported(body, "Tensor", tmp_path) == codes


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("z = torch.zeros(3)\nreturn [z] * 2", ["OPS204"]),
        ("return [torch.zeros(3)] * 2", ["OPS204"]),
        ("z = x + 1\nr = [z]\nr += [z]\nreturn r", ["OPS204"]),
        ("z = x + 1\nr = [z]\nr += [z * 2]\nreturn r", []),
        ("z = x + 1\nreturn [z.float(), z.half()]", []),
        ("z = x + 1\nreturn [z, z.half()]", ["OPS204"]),
        ("return [torch.zeros(3) for _ in xs]", []),
        ("a, b = torch.zeros(2, 4)\nreturn [a, b]", ["OPS204"]),
        ("a, b = torch.zeros(4).max(0)\nreturn [a, b]", []),
        ("z = x + 1\nr = []\nfor _ in range(2):\n    r.append(z)\nreturn r", ["OPS204"]),
        ("r = []\nfor _ in range(2):\n    z = x + 1\n    r.append(z)\nreturn r", []),
        ("z = x + 1\nr = []\nfor _ in range(2):\n    z = z + 1\n    r.append(z)\nreturn r", []),
        ("r = []\nfor t in xs:\n    r.append(t)\nreturn r", ["OPS201"]),
        ("r = [None] * 2\nfor i, t in enumerate(xs):\n    r[i] = t + 1\nreturn r", []),
    ],
)
def test_lists_that_are_returned(body: str, codes: list[str], tmp_path: Path) -> None:
    assert reported(body, "list[Tensor]", tmp_path) == codes
