"""Generated packages pass their own lint, types and tests, whatever the contract."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest
from generated import (
    BROADCAST,
    DYNAMIC,
    EXPRESSION,
    UNUSUAL,
    matrix,
    op,
    package,
    random_ops,
    require,
    run,
    run_tests,
    write,
)

from opscaffold.contract.model import Kind
from opscaffold.scaffold.spec import OpSpec

pytestmark = [pytest.mark.torch, pytest.mark.slow]

GRID = list(matrix())
CHUNK = 10


def chunks(ops: list[OpSpec]) -> list[list[OpSpec]]:
    return [ops[n : n + CHUNK] for n in range(0, len(ops), CHUNK)]


# Each kind, metadata rule, count of tensors and of returns, numbers or none, autograd or none.
COVERING = {
    "functional": [
        op("ns::one(Tensor x) -> Tensor"),
        op(
            "ns::two(Tensor x, Tensor y, float alpha=1.5, *, int k=2) -> (Tensor, Tensor)",
            BROADCAST,
        ),
        op("ns::cut(Tensor x, Tensor y, Tensor z, int k=2) -> Tensor", DYNAMIC),
        op(
            "ns::sized(Tensor x, Tensor y, int k) -> (Tensor, Tensor)",
            EXPRESSION,
            shape=("x.shape[0] * k", "y.shape[1]"),
            autograd=False,
        ),
    ],
    "writing": [
        op("ns::i_(Tensor(a!) x, Tensor y, Tensor z, float alpha=1.5) -> Tensor(a!)"),
        op(
            "ns::both_out(Tensor x, Tensor y, *, Tensor(a!) lo, Tensor(b!) hi) "
            "-> (Tensor(a!), Tensor(b!))",
            BROADCAST,
        ),
        op("ns::m(Tensor(a!) x, Tensor(b!) y, Tensor z, *, float alpha=1.5) -> ()"),
        op("ns::m_1(Tensor(a!) x, Tensor y) -> Tensor"),
        op("ns::fam(Tensor x, Tensor y, float alpha=1.5) -> Tensor", BROADCAST, family=True),
    ],
    "types": [o for o in UNUSUAL if o.contract.name in ("lists", "nums", "make", "mutlist", "sum")],
}


def test_the_grid_holds_every_combination() -> None:
    kinds = [o.contract.kind for o in GRID]
    assert len(GRID) >= 40
    assert all(kinds.count(kind) >= 6 for kind in Kind)
    assert len({o.contract.name for o in GRID}) == len(GRID)
    families = [o for o in GRID if o.family]
    assert len(families) >= 12
    modes = {(o.contract.kind, o.fake.mode) for o in GRID}
    assert len({mode for kind, mode in modes if kind is Kind.FUNCTIONAL}) == 4


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


@pytest.mark.parametrize("name", COVERING)
def test_a_covering_subset_passes_its_tests(name: str, tmp_path: Path) -> None:
    run_tests(write(package(f"{name}-ops", COVERING[name]), tmp_path))


def test_untagged_ops_for_an_older_torch_pass_their_tests(tmp_path: Path) -> None:
    ops = [o for o in COVERING["writing"] if o.contract.name in ("i_", "both_out", "fam")]
    made = write(package("old-ops", ops, (2, 4)), tmp_path)
    source = "".join(p.read_text() for p in (made / "src").rglob("*.py"))
    assert "torch.Tag" not in source
    assert 'requires-python = ">=3.10"' in (made / "pyproject.toml").read_text()
    assert "torch>=2.4" in (made / "pyproject.toml").read_text()
    run_tests(made)


@pytest.mark.matrix
@pytest.mark.parametrize("ops", chunks([*GRID, *UNUSUAL, *random_ops(seed=3, count=60)]))
def test_every_op_passes_its_tests(ops: list[OpSpec], tmp_path: Path) -> None:
    run_tests(write(package("matrix-ops", ops), tmp_path))


@pytest.mark.matrix
@pytest.mark.parametrize(
    "ops", chunks([o for o in [*GRID, *UNUSUAL] if o.family or o.contract.tags])
)
def test_every_untagged_op_passes_its_tests(ops: list[OpSpec], tmp_path: Path) -> None:
    run_tests(write(package("matrix-ops", ops, (2, 12)), tmp_path))


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
