"""Packages rendered from op specs, and the tools run on those."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from opscaffold.scaffold.matrix_ops import op_of as op
from opscaffold.scaffold.render import render_package
from opscaffold.scaffold.spec import FakeMode, OpSpec, PackageSpec

__all__ = ["BROADCAST", "DYNAMIC", "EXPRESSION", "op", "package", "pytest_in", "require"]

SAME, BROADCAST, EXPRESSION, DYNAMIC = FakeMode


def package(name: str, ops: Sequence[OpSpec], torch_min: tuple[int, int] = (2, 13)) -> PackageSpec:
    """A package of the ops, each moved into its namespace."""
    module = name.replace("-", "_")
    moved = tuple(replace(o, contract=replace(o.contract, namespace=module)) for o in ops)
    return PackageSpec(name, module, module, moved, torch_min, "Ops to test with.")


CACHES = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def run(
    directory: Path, *arguments: str, python: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in a directory, with nothing of the caller's import path."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    return subprocess.run(
        [python or sys.executable, *arguments],
        cwd=directory,
        env=env | CACHES | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def require(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that succeeded."""
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-8000:]
    return output


def write(spec: PackageSpec, parent: Path) -> Path:
    """Render a package and return its directory."""
    return render_package(spec, parent).path


def pytest_in(
    directory: Path, *arguments: str, python: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a package's tests in one process."""
    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist"]
    return run(directory, "-m", "pytest", "-q", "--tb=short", *plugins, *arguments, python=python)


def run_tests(directory: Path, *, python: Path | None = None) -> None:
    """Run a package's tests. Every one must pass; a skipped one might hide a failure."""
    output = require(pytest_in(directory, python=python))
    summary = next(line for line in reversed(output.splitlines()) if " passed" in line)
    assert not {"skipped", "xfailed", "deselected"} & set(summary.replace(",", "").split())
