"""Generated packages pass their own lint, types and tests, whatever the contract."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from from_reading import made
from generated import BROADCAST, op, package, require, run, run_tests, write

from opscaffold.scaffold.languages import LANGUAGES
from opscaffold.scaffold.matrix_ops import UNUSUAL, grid
from opscaffold.scaffold.matrix_random import random_ops
from opscaffold.scaffold.spec import KernelLanguage, OpSpec, Setting

pytestmark = [pytest.mark.torch, pytest.mark.slow]

GRID = list(grid())


def carried_by_cpp(ops: Iterable[OpSpec]) -> list[OpSpec]:
    """Those that can have a kernel in C++, with one."""
    moved = [replace(each, kernel=KernelLanguage.CPP) for each in ops]
    return [o for o in moved if LANGUAGES[o.kernel].refusal(o, Setting()) is None]


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.parametrize(
    ("name", "ops", "torch_min"),
    [
        ("grid-ops", GRID, (2, 13)),
        ("old-grid-ops", GRID, (2, 4)),
        ("unusual-ops", UNUSUAL, (2, 13)),
        ("old-unusual-ops", UNUSUAL, (2, 12)),
        ("cpp-ops", carried_by_cpp(UNUSUAL), (2, 13)),
        ("random-ops", random_ops(seed=1, count=120), (2, 13)),
        ("old-random-ops", random_ops(seed=2, count=120), (2, 12)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_all_of_them_pass_lint_format_and_types(
    name: str, ops: list[OpSpec], torch_min: tuple[int, int], tmp_path: Path, mypy_cache: Path
) -> None:
    made = write(package(name, ops, torch_min), tmp_path)
    require(run(made, "-m", "ruff", "check", "--no-cache", "."))
    require(run(made, "-m", "ruff", "format", "--no-cache", "--check", "."))
    require(run(made, "-m", "mypy", "--cache-dir", str(mypy_cache), "src"))


def test_functions_that_become_ops_leave_a_package_clean(tmp_path: Path, mypy_cache: Path) -> None:
    root = write(made(tmp_path), tmp_path)
    require(run(root, "-m", "ruff", "check", "--no-cache", "."))
    require(run(root, "-m", "ruff", "format", "--no-cache", "--check", "."))
    require(run(root, "-m", "mypy", "--cache-dir", str(mypy_cache), "src"))


def test_untagged_ops_for_an_older_torch_pass_their_tests(tmp_path: Path) -> None:
    ops = [
        op("ns::i_(Tensor(a!) x, Tensor y, Tensor z, float alpha=1.5) -> Tensor(a!)"),
        op(
            "ns::both_out(Tensor x, Tensor y, *, Tensor(a!) lo, Tensor(b!) hi) "
            "-> (Tensor(a!), Tensor(b!))",
            BROADCAST,
        ),
        op("ns::fam(Tensor x, Tensor y, float alpha=1.5) -> Tensor", BROADCAST, family=True),
    ]
    made = write(package("old-ops", ops, (2, 4)), tmp_path)
    source = "".join(p.read_text() for p in (made / "src").rglob("*.py"))
    assert "torch.Tag" not in source
    assert 'requires-python = ">=3.10"' in (made / "pyproject.toml").read_text()
    assert "torch>=2.4" in (made / "pyproject.toml").read_text()
    run_tests(made)


def test_a_package_installs_and_passes_its_tests_from_there(tmp_path: Path) -> None:
    ops = [op("ns::scale(Tensor x, float alpha=2.0) -> Tensor")]
    made = write(package("installed-ops", ops), tmp_path)
    venv = tmp_path / "venv"
    require(run(tmp_path, "-m", "venv", str(venv)))
    python = venv / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    # What is installed here is seen there: torch and pytest need not be downloaded again.
    found = importlib.util.find_spec("torch")
    assert found is not None
    assert found.origin is not None
    (site,) = venv.glob("lib/python*/site-packages") or venv.glob("Lib/site-packages")
    (site / "outer.pth").write_text(str(Path(found.origin).parent.parent))
    constraint = tmp_path / "constraint.txt"
    constraint.write_text(f"torch=={importlib.metadata.version('torch').partition('+')[0]}\n")
    command = ["-m", "pip", "install", "--editable", ".[test]"]
    require(run(made, *command, python=python, PIP_CONSTRAINT=str(constraint)))
    shown = require(run(tmp_path, "-m", "pip", "show", "installed-ops", python=python))
    assert "Version: 0.1.0" in shown
    program = "import torch, installed_ops as o; print(o.scale(torch.ones(2)).tolist())"
    assert "[4.0, 4.0]" in require(run(tmp_path, "-c", program, python=python))
    run_tests(made, python=python)
