"""A Triton kernel in sight writes to the arguments that it stores through, and to no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = [r for r in all_rules() if r.code in {"OPS301", "OPS302", "OPS401"}]
HEAD = """\
import torch
import triton
import triton.language as tl
from elsewhere import unknown
from torch import Tensor
from torch.library import custom_op, triton_op, wrap_triton


@triton.jit
def put(p, v, mask):
    tl.store(p, v, mask=mask)


@triton.jit
def shifted(p, by):
    return p + by


@triton.jit
def looked_up(row, starts, n):
    low = 0
    while tl.load(starts + low) < row:
        low += 1
    return low


@triton.autotune(configs=[], key=["n"])
@triton.jit
def kernel(x_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    seen = tl.load(x_ptr + at, mask=at < n)
"""


def reported(
    kernel: str,
    directory: Path,
    *,
    mutates: str = "()",
    launch: str = "kernel[(1,)](x, o, x.numel(), B=128)",
    op: str = "custom_op",
) -> list[str]:
    lines = "".join(f"    {line}\n" for line in kernel.splitlines())
    body = "".join(f"    {line}\n" for line in launch.splitlines())
    (directory / "module.py").write_text(
        f'{HEAD}{lines}\n\n@{op}("d::f", mutates_args={mutates})\n'
        f"def f(x: Tensor, o: Tensor) -> None:\n{body}",
        "utf-8",
    )
    project = load_project([directory], directory)
    assert not project.problems
    found = apply_rules(project, RULES)
    return sorted(f"{f.code} {f.message.split('`')[1]}" for f in found)


@pytest.mark.parametrize(
    "kernel",
    [
        "tl.store(o_ptr + at, seen)",
        "tl.store(pointer=o_ptr + at, value=seen)",
        "o_ptr += at\ntl.store(o_ptr, seen)",
        "to = o_ptr + at\nmask = at < n\ntl.store(to, seen, mask=mask)",
        "tl.atomic_add(o_ptr, tl.sum(seen))",
        "tl.atomic_max(o_ptr + at, seen, sem='relaxed')",
        "block = tl.make_block_ptr(o_ptr, (n,), (1,), (0,), (B,), (0,))\ntl.store(block, seen)",
        (
            "block = tl.make_block_ptr(base=o_ptr, shape=(n,), strides=(1,), offsets=(0,), "
            "block_shape=(B,), order=(0,))\nblock = tl.advance(block, (B,))\ntl.store(block, seen)"
        ),
        "desc = tl.make_tensor_descriptor(o_ptr, [n], [1], [B])\ndesc.store([0], seen)",
        "put(o_ptr + at, seen, at < n)",
        "put(v=seen, p=o_ptr + at, mask=None)",
        "tl.store(shifted(o_ptr, at), seen)",
        "for i in range(0, n, B):\n    if i < n:\n        tl.store(o_ptr + i + at[None, :], seen)",
    ],
)
def test_what_is_stored_through_is_written_to(kernel: str, tmp_path: Path) -> None:
    assert reported(kernel, tmp_path) == ["OPS301 o"]


@pytest.mark.parametrize(
    "launch",
    [
        "grid = lambda meta: (triton.cdiv(x.numel(), meta['B']),)\nkernel[grid](x, o, x.numel())",
        "kernel[(1,)](o_ptr=o, x_ptr=x, n=4, B=2, num_warps=4)",
        "run = kernel[(1,)]\nrun(x, o, 4, 2)",
        "wrap_triton(kernel)[(1,)](x, o, 4, 2)",
        "wrapped = wrap_triton(kernel)\nwrapped[(1,)](x, o.view(-1), 4, 2)",
        "torch.library.wrap_triton(kernel)[(1,)](x, o.view(-1), 4, 2)",
    ],
)
@pytest.mark.parametrize("op", ["custom_op", "triton_op"])
def test_every_way_to_launch_is_followed(launch: str, op: str, tmp_path: Path) -> None:
    assert reported("tl.store(o_ptr + at, seen)", tmp_path, launch=launch, op=op) == ["OPS301 o"]


@pytest.mark.parametrize(
    "kernel",
    [
        "unknown(o_ptr + at, seen)",
        "tl.inline_asm_elementwise('', '', [o_ptr + at], tl.int32, False, 1)",
        "tl.static_print(o_ptr)",
        "return",
        "seen = tl.load(o_ptr + at)",
        "tl.store(unknown(o_ptr, at), seen)",
        "tl.static_assert(looked_up(n, o_ptr, n) >= 0)",
    ],
)
def test_what_is_not_surely_stored_through_is_not_reported(kernel: str, tmp_path: Path) -> None:
    assert reported(kernel, tmp_path) == []


@pytest.mark.parametrize("at", ["looked_up(n, x_ptr, n)", "looked_up(row=n, starts=x_ptr, n=n)"])
def test_a_helper_that_looks_something_up_hands_no_pointer_back(at: str, tmp_path: Path) -> None:
    assert reported(f"at = {at}\ntl.store(o_ptr + at, 1)", tmp_path) == ["OPS301 o"]


def test_what_the_op_says_is_right(tmp_path: Path) -> None:
    assert reported("tl.store(o_ptr + at, seen)", tmp_path, mutates='("o",)') == []


def test_an_argument_that_is_only_loaded_is_over_declared(tmp_path: Path) -> None:
    found = reported("tl.store(o_ptr + at, seen)", tmp_path, mutates='("x", "o")')
    assert found == ["OPS302 x"]


def test_an_argument_that_goes_out_of_sight_is_not_over_declared(tmp_path: Path) -> None:
    assert reported("unknown(o_ptr + at, seen)", tmp_path, mutates='("o",)') == []


def test_new_memory_that_is_stored_to_is_no_fault(tmp_path: Path) -> None:
    launch = "new = torch.empty_like(x)\nkernel[(1,)](x, new, 4, 2)"
    assert reported("tl.store(o_ptr + at, seen)", tmp_path, launch=launch) == []


@pytest.mark.parametrize(
    ("kernel", "found"),
    [("tl.store(o_ptr + at, seen)", []), ("tl.atomic_add(o_ptr, tl.sum(seen))", ["OPS401 out"])],
)
def test_an_out_buffer_may_be_stored_to_and_not_added_to(
    kernel: str, found: list[str], tmp_path: Path
) -> None:
    lines = "".join(f"    {line}\n" for line in kernel.splitlines())
    (tmp_path / "module.py").write_text(
        f'{HEAD}{lines}\n\n@custom_op("d::f", mutates_args=("out",), tags=torch.Tag.out)\n'
        "def f(x: Tensor, *, out: Tensor) -> Tensor:\n"
        "    kernel[(1,)](x, out, 4, 2)\n    return out\n",
        "utf-8",
    )
    reports = apply_rules(load_project([tmp_path], tmp_path), RULES)
    assert [f"{f.code} {f.message.split('`')[1]}" for f in reports] == found
