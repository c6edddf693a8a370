"""A package with kernels in several languages passes its own tests, lint and types."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from generated import BROADCAST, op, package, pytest_in, require, run, write

from opscaffold.scaffold.spec import KernelLanguage

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_numpy_and_triton_kernels_in_one_package(tmp_path: Path) -> None:
    family = op("ns::fam(Tensor x, Tensor y, float alpha=1.5) -> Tensor", BROADCAST, family=True)
    mutable = op("ns::track(Tensor(a!) mean, Tensor x) -> Tensor", like="x")
    told = [
        replace(one, contract=replace(one.contract, name=f"{name}_{word.value}"), kernel=word)
        for word in (KernelLanguage.NUMPY, KernelLanguage.TRITON)
        for name, one in (("fam", family), ("track", mutable))
    ]
    made = write(package("mixed-ops", told), tmp_path)
    require(run(made, "-m", "ruff", "check", "--no-cache", "."))
    require(run(made, "-m", "ruff", "format", "--no-cache", "--check", "."))
    require(run(made, "-m", "mypy", "--cache-dir", str(tmp_path / "mypy"), "src"))
    # What is compiled takes longest, and is the same whatever kernels are written in.
    quick = " and ".join(f"not {word}" for word in ("inductor", "export", "compiled", "opcheck"))
    output = require(pytest_in(made, "-rs", "-k", quick))
    skipped = [line for line in output.splitlines() if line.startswith("SKIPPED")]
    assert not any("numpy" in line for line in skipped)
    if importlib.util.find_spec("triton") is not None:
        assert "Triton is not installed" not in output
        program = (
            "import torch, mixed_ops as o\n"
            "f = torch.compile(o.track_triton, backend='aot_eager')\n"
            "f(torch.ones(2), torch.ones(2))"
        )
        done = run(made / "src", "-c", program, TRITON_INTERPRET="1")
        assert "no compiler can see into a kernel that Triton interprets" in done.stderr
        return
    assert "Triton is not installed" in output
    program = "import torch, mixed_ops as o; o.track_triton(torch.ones(2), torch.ones(2))"
    done = run(made / "src", "-c", program)
    assert "RuntimeError: track_triton: Triton is not installed" in done.stderr
