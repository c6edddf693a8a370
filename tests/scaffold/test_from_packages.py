"""Packages made of functions: they pass lint, format, types, and their tests on real torch."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from from_reading import package, read
from generated import pytest_in, require, run, write

from opscaffold.contract.model import Kind
from opscaffold.scaffold.from_wrap import Wrapping
from opscaffold.scaffold.render import preview
from opscaffold.scaffold.spec import PackageSpec, Registration

MODULE = """\
import numpy as np
import torch
from torch import Tensor

TABLE = {'a': 2.0, 'b': 3.0}


def rms(x: Tensor, weight: Tensor, *, mode: str = 'a', eps: float = 1e-6) -> Tensor:
    '''Root mean square norm.'''
    return x*torch.rsqrt(x.pow(2).mean(-1, keepdim = True)+eps)*weight * TABLE[mode]


def gain(x: Tensor, factor: float, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, factor, out=out)


def shift_(x: Tensor, by: float = 1.0) -> Tensor:
    x += by
    return x


def step(x: Tensor, state: Tensor | None = None) -> Tensor:
    if state is not None:
        state.add_(x)
    return x * 2


def both(x: Tensor, cache: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
    cache.index_add_(0, idx, x)
    return cache, x.sum(dim=-1)


def parts(xs: list[Tensor], n: int, dims: list[int] | None = None) -> list[Tensor]:
    return [x.narrow(-1, 0, n) * 2 for x in xs]


def turned(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.t(), x + 1


def exp(x: Tensor) -> Tensor:
    return torch.from_numpy(np.exp(x.numpy()))


def fill(n: int, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    return torch.full((n, 2), n, dtype=dtype, device=device)


def op_kernel(result: Tensor, sizes: Tensor, wrapped: float, original: int) -> Tensor:
    return result * sizes + wrapped * original
"""
PLAIN = ("rms", "gain", "shift_", "step", "both", "parts", "fill", "op_kernel")


def made(directory: Path, plain: Sequence[str] = PLAIN) -> PackageSpec:
    """A package of them: in-place, out=, mutable, cloned, by a rule, imported."""

    def one(function: str, **asked: Any) -> Wrapping:
        return read(directory, MODULE, function, head="", **asked)

    found = [one(name) for name in plain]
    found.append(one("turned", clone=True))
    found.append(one("exp", fake=True, kind=Kind.FUNCTIONAL))
    found.append(one("shift_", mode="import", name="moved_"))
    return package(*found, rule="same")


def test_every_file_is_python_and_the_kernels_are_the_functions(tmp_path: Path) -> None:
    files = preview(made(tmp_path))
    for path, text in files.items():
        if path.suffix == ".py":
            compile(text, path.as_posix(), "exec")
    kernel = files[Path("src/made/kernels/gain.py")]
    assert "def gain_fake(x, factor):\n    return torch.empty_like(x)\n" in kernel
    given = {ast.unparse(n) for n in ast.parse(MODULE).body if isinstance(n, ast.FunctionDef)}
    copied = {
        ast.unparse(node)
        for path, text in files.items()
        if path.parent.name == "kernels" and path.name != "moved_.py"
        for node in ast.parse(text).body
    }
    assert given <= copied
    assert "from module import shift_" in files[Path("src/made/kernels/moved_.py")]
    assert 'pythonpath = [".", "src", ".."]' in files[Path("pyproject.toml")]


def test_ops_call_the_function_by_its_own_names(tmp_path: Path) -> None:
    files = preview(made(tmp_path))

    def body(name: str) -> str:
        return files[Path(f"src/made/ops/{name}.py")]

    assert "op_kernel(x, weight, mode=mode, eps=eps)" in body("rms")
    assert "op_kernel(x, factor, out=None)" in body("gain")
    assert "op_kernel(x, factor, out)\n    refuse_resized(" in body("gain_out")
    assert "result1: Tensor = result[1]\n    return result1\n" in body("both")
    assert "return result0.clone(), result1\n" in body("turned")
    assert 'check_buffer("exp", "what the kernel returns", result, *_metadata(x))' in body("exp")
    assert "import op_kernel_, op_op_kernel_fake\n" in body("op_kernel")


@pytest.mark.parametrize(
    "changed",
    [{"registration": Registration.LIBRARY}, {"torch_min": (2, 12)}],
    ids=["library", "untagged"],
)
def test_other_registrations_render_as_well(changed: dict[str, object], tmp_path: Path) -> None:
    files = preview(replace(made(tmp_path), **changed))
    for path, text in files.items():
        if path.suffix == ".py":
            compile(text, path.as_posix(), "exec")
    source = "".join(text for path, text in files.items() if "ops" in path.parts)
    assert ("torch.Tag" in source) == ("registration" in changed)


@pytest.mark.slow
@pytest.mark.torch
def test_the_package_passes_lint_format_types_and_its_tests(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    root = write(made(tmp_path, ("gain", "both", "op_kernel")), tmp_path)
    require(run(root, "-m", "ruff", "check", "--no-cache", "."))
    require(run(root, "-m", "ruff", "format", "--no-cache", "--check", "."))
    require(run(root, "-m", "mypy", "--cache-dir", str(tmp_path / "mypy"), "src"))
    # What compiles is the same for every kernel, and takes most of the time.
    cheap = ("original", "numbers", "memory", "identity", "prefilled", "resized")
    require(pytest_in(root, "-k", " or ".join([*cheap, "(opcheck and first)"])))
