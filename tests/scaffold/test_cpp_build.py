"""A package with kernels in C++, built for real: its wheel, and its tests on what is installed."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from generated import BROADCAST, op, package, require, run, write

from opscaffold.scaffold.spec import KernelLanguage

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]

CPP = (
    # What could go wrong in C++ alone: names, lists that hold None, strings, a number returned.
    op(
        "ns::mixed(Tensor x, Tensor?[] default, str mode, float? int=None, *, bool[] ops, "
        'int total=2, str? EOF="é") -> (Tensor, Tensor[])'
    ),
    op("ns::grow(Tensor(a!)[] xs, ScalarType dt, Device dev) -> ()", like=""),
    op("ns::fam(Tensor x, Tensor y, float alpha=1.5) -> Tensor", BROADCAST, family=True),
)
TORCH = (op("ns::shift(Tensor x, float by=1.0) -> Tensor"),)
# What only a build can show; the rest is as with kernels in Python.
TESTS = (
    "schema or packaged or versions or wrong_buffers or op_gradients or "
    "(float32 and (opcheck or numbers)) or (defaults and numbers)"
)


def test_the_wheel_runs_the_packages_own_tests_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("setuptools")
    ops = [*(replace(o, kernel=KernelLanguage.CPP) for o in CPP), *TORCH]
    made = write(package("built-ops", ops), tmp_path)
    unbuilt = run(made, "-c", "import built_ops", PYTHONPATH="src")
    assert "ImportError: the C++ half of built_ops is not built; in its sources, run: python" in (
        unbuilt.stderr
    )

    wheels = tmp_path / "wheels"
    flags = ["--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(wheels)]
    require(run(made, "-m", "pip", "wheel", "-q", *flags, ".", CXXFLAGS="-O0"))
    (wheel,) = wheels.iterdir()
    assert wheel.name.startswith("built_ops-0.1.0-cp310-abi3-")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    library = site / "built_ops" / "_C.so"
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True)
    undefined = [line.split()[-1] for line in symbols.stdout.splitlines() if " U " in line]
    assert "torch_library_impl" in undefined
    assert not [name for name in undefined if name.startswith(("Py", "_Py", "_ZN2at", "_ZN3c10"))]

    tests = ["-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
    output = require(run(made, *tests, "-k", TESTS, PYTHONPATH=str(site)))
    summary = next(line for line in reversed(output.splitlines()) if " passed" in line)
    assert not {"skipped", "failed", "xfailed"} & set(summary.replace(",", "").split())
    assert not list((made / "src").rglob("_C.*"))
