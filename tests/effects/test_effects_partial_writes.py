"""Where a given buffer keeps old contents that are defined when the buffer is omitted."""

from __future__ import annotations

import ast

import pytest
from kernels import kernel

from opscaffold.effects.buffers import Argument, BufferUse, use_of_buffer
from opscaffold.rules.outputs import obstacle_to_split

ARGUMENTS = [
    Argument("x", tensor=True),
    Argument("n", tensor=False),
    Argument("out", tensor=True, optional=True),
]
ZEROS = "if out is None:\n    out = torch.zeros_like(x)\n"
EMPTY = "if out is None:\n    out = torch.empty_like(x)\n"
FILLED = EMPTY + "    out.fill_(0)\n"
HELPER = "def make(x):\n    return torch.empty_like(x)\n\n\ndef put(t, x):\n    t.copy_(x)\n"
FILLING = "def make(x):\n    t = torch.empty_like(x)\n    t.zero_()\n    return t\n"


def use(body: str, more: str = "") -> tuple[ast.FunctionDef, BufferUse]:
    function, names = kernel(body, "x, n, out=None", more)
    return function, use_of_buffer(function, ARGUMENTS, "out", names)


LEFT = [
    (ZEROS + "out[1:] = x[1:]\nreturn out", "out[1:]"),
    ("if out is None:\n    out = torch.full_like(x, -1)\nm = x > 0\nout[m] = x[m]\nreturn out",
     "out[m]"),
    ("if out is None:\n    out = torch.zeros(n, 8)\nout[:, :n].copy_(x)\nreturn out",
     "out[:, :n].copy_(x)"),
    ("if out is None:\n    out = x.new_zeros(x.shape)\nout.select(0, 0).copy_(x)\nreturn out",
     "out.select(0, 0).copy_(x)"),
    (ZEROS + "torch.add(x, 1, out=out.narrow(0, 0, 1))\nreturn out",
     "torch.add(x, 1, out=out.narrow(0, 0, 1))"),
    (FILLED + "out[0] = x[0]\nreturn out", "out[0]"),
    (FILLED + "out.add_(x)\nreturn out", "out.add_(x)"),
    (ZEROS + "if n:\n    out.copy_(x)\nreturn out", "out.copy_(x)"),
    (ZEROS + "n and out.copy_(x)\nreturn out", "out.copy_(x)"),
    (ZEROS + "try:\n    out.copy_(x)\nexcept RuntimeError:\n    pass\nreturn out", "out.copy_(x)"),
    (ZEROS + "for i in range(n):\n    out.copy_(x)\nreturn out", "out.copy_(x)"),
    (ZEROS + "match n:\n    case 1:\n        out.copy_(x)\nreturn out", "out.copy_(x)"),
    (ZEROS + "if n:\n    return out\nout.copy_(x)\nreturn out", "out.copy_(x)"),
    ("if n:\n    return torch.zeros_like(x) if out is None else out\n" + EMPTY
     + "out.copy_(x)\nreturn out", "out.copy_(x)"),
    ("y = torch.ones_like(x) if out is None else out\ny[n] = 0\nreturn y", "y[n]"),
    ("if out is None:\n    return x * 2\nout[0] = x[0]\nreturn out", "out[0]"),
    ("if out is None:\n    out = torch.empty_like(x).zero_()\nout[0] = x[0]\nreturn out", "out[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "place"), LEFT)
def test_parts_of_a_given_buffer_are_left_as_they_were(body: str, place: str) -> None:
    function, found = use(body)
    assert found.leftover is not None
    assert ast.unparse(found.leftover) == place
    obstacle = obstacle_to_split(function, found, {"out": found})
    assert obstacle is not None
    assert obstacle.node is found.leftover
    assert "keep what they held" in obstacle.reason


def test_memory_that_a_helper_fills_is_defined() -> None:
    _, found = use("if out is None:\n    out = make(x)\nout[0] = 1\nreturn out", FILLING)
    assert found.leftover is not None


WHOLE = [
    ZEROS + "out.copy_(x)\nreturn out",
    ZEROS + "out[:] = x\nreturn out",
    ZEROS + "out[:, :] = x\nreturn out",
    ZEROS + "out[:].copy_(x)\nreturn out",
    ZEROS + "torch.mul(x, 2, out=out.view(-1))\nreturn out",
    ZEROS + "out.zero_()\nout[1:] = x[1:]\nreturn out",
    ZEROS + "if n:\n    out.copy_(x)\nelse:\n    out.fill_(1)\nreturn out",
    ZEROS + "match n:\n    case 1:\n        out.copy_(x)\n    case _:\n        out.fill_(1)\n"
    "return out",
    ZEROS + "put(out, x)\nreturn out",
    ZEROS + "else:\n    out.zero_()\nout[0] = x[0]\nreturn out",
    ZEROS + "out.copy_(x)\nif n:\n    out.mul_(2)\nreturn out",
    ZEROS + "if n:\n    raise ValueError\nout.copy_(x)\nreturn out",
    ZEROS + "try:\n    out.copy_(x)\nfinally:\n    n = 0\nreturn out",
    FILLED + "out.copy_(x)\nreturn out",
    "y = x * 2\nif out is not None:\n    out.copy_(y)\n    return out\nreturn y",
    # Undefined contents stay undefined where nothing is written.
    EMPTY + "out[1:] = x[1:]\nreturn out",
    EMPTY + "if n:\n    out.copy_(x)\nreturn out",
    EMPTY + "for i in range(n):\n    out[i] = x[i]\nreturn out",
    "if out is None:\n    out = make(x)\nout[0] = 1\nreturn out",
    "if n:\n    if out is None:\n        return torch.empty_like(x)\n    return out\n" + ZEROS
    + "out.copy_(x)\nreturn out",
]  # fmt: skip


@pytest.mark.parametrize("body", WHOLE)
def test_a_buffer_ends_up_as_a_new_tensor_would(body: str) -> None:
    function, found = use(body, HELPER)
    assert found.leftover is None
    assert obstacle_to_split(function, found, {"out": found}) is None
