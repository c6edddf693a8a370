"""``migrate --tests``: modules that pass as written, fail for ops that break, and keep edits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from migrating import cli, write

from opscaffold.contract.grammar import parse_schema
from opscaffold.migrate.op_samples import sample_calls
from opscaffold.migrate.op_tests import importable, is_unedited

HEAD = "import torch\nfrom torch import Tensor\n"
SPLIT = """

@torch.library.custom_op("tried::scale", mutates_args=("out",))
def scale(x: Tensor, rows: Tensor, by: float = 2.0, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x * by, rows[:, None], out=out)
    return out


@scale.register_fake
def _(x, rows, by=2.0, out=None):
    return torch.empty_like(x) if out is None else out
"""
LOW_LEVEL = """

lib = torch.library.Library("tried", "FRAGMENT")
lib.define("soft(Tensor x, int dim, Tensor(a!)? out=None) -> Tensor")


@torch.library.impl(lib, "soft", "CPU")
def soft_cpu(x, dim, out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.softmax(x, dim, out=out)
    return out


@torch.library.register_fake("tried::soft")
def _(x, dim, out=None):
    return torch.empty_like(x) if out is None else out
"""
INPLACE = """

@torch.library.custom_op("tried::fade_", mutates_args=("x",))
def fade_(x: Tensor, by: float) -> Tensor:
    x.mul_(by)
    return x
"""
ALIASING = """

@torch.library.custom_op("tried::packed", mutates_args=())
def packed(x: Tensor) -> Tensor:
    return x.contiguous()


@packed.register_fake
def _(x):
    return torch.empty_like(x)
"""
UNDECLARED = """

@torch.library.custom_op("tried::store", mutates_args=())
def store(cache: Tensor, x: Tensor, slots: Tensor) -> None:
    cache[slots] = x
"""
PICKY = """

@torch.library.custom_op("tried::picky_", mutates_args=("x",))
def picky_(x: Tensor) -> Tensor:
    if x.shape != (3, 5, 7):
        raise ValueError("only this shape will do")
    x.add_(1)
    return x
"""
UNNAMED = """

@torch.library.custom_op("tried::mode_", mutates_args=("x",))
def mode_(x: Tensor, kind: str) -> Tensor:
    x.add_(1)
    return x
"""
MODULE = HEAD + SPLIT + LOW_LEVEL + INPLACE + ALIASING + UNDECLARED + PICKY + UNNAMED


def migrate_with_tests(root: Path, *flags: str) -> str:
    answer = cli("migrate", root, "--root", root, "--write", "--tests", root / "tests", *flags)
    assert answer.code == 0, answer.err
    return answer.err


def run_tests(root: Path) -> dict[str, str]:
    """How each generated test came out, by its name."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:randomly"),
            *("-c", os.devnull, "--rootdir", str(root), "-W", "error", str(root / "tests")),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = re.findall(r"(test_tried_\w+)\.py::(\S+) (PASSED|FAILED|ERROR|SKIPPED)", done.stdout)
    assert found, done.stdout + done.stderr
    return {f"{module}::{name}": outcome for module, name, outcome in found}


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tested")
    write(root, {"tried_ops.py": MODULE})
    migrate_with_tests(root)
    return root


def test_there_is_a_module_for_each_op_that_was_repaired(tested: Path) -> None:
    assert sorted(path.name for path in (tested / "tests").iterdir()) == [
        f"test_tried_{op}_contract.py"
        for op in ("fade_", "mode_", "packed", "picky_", "scale", "soft", "store")
    ]


@pytest.mark.torch
@pytest.mark.slow
def test_they_pass_as_written_and_skip_what_needs_a_person(tested: Path) -> None:
    pytest.importorskip("torch")
    outcomes = run_tests(tested)
    skipped = {name for name, outcome in outcomes.items() if outcome == "SKIPPED"}
    assert {name.partition("::")[0] for name in skipped} == {
        "test_tried_picky__contract",
        "test_tried_mode__contract",
    }
    assert {outcomes[name] for name in outcomes.keys() - skipped} == {"PASSED"}
    for op, test in (
        ("scale", "test_returns_memory_of_its_own"),
        ("scale", "test_passes_opcheck"),
        ("scale", "test_out_fills_any_buffer_and_returns_it[7]"),
        ("scale", "test_out_fills_any_buffer_and_returns_it[nan]"),
        ("scale", "test_out_passes_opcheck"),
        ("soft", "test_out_fills_any_buffer_and_returns_nothing[nan]"),
        ("fade_", "test_returns_its_argument_itself"),
        ("packed", "test_returns_memory_of_its_own"),
        ("store", "test_returns_nothing"),
        ("store", "test_changes_only_what_is_declared"),
    ):
        assert outcomes[f"test_tried_{op}_contract::{test}"] == "PASSED"


BREAKS = {
    "scale": (
        r"torch\.mul\(x \* by, rows\[:, None\], out=out\)\n    return out",
        "torch.add(out, x, out=out)\n    return out",
        {"test_out_fills_any_buffer_and_returns_it[7]", "test_out_passes_opcheck"},
    ),
    "soft": (
        r"torch\.softmax\(x, dim, out=out\)\n",
        "x.add_(1)\n    torch.softmax(x, dim, out=out)\n",
        {"test_changes_only_what_is_declared", "test_out_changes_only_what_is_declared"},
    ),
    "packed": (
        r"@packed\.register_fake\ndef _\(x\):\n    return torch\.empty_like\(.*\)",
        "@packed.register_fake\ndef _(x):\n    return x.new_empty(3)",
        {"test_passes_opcheck"},
    ),
    "store": (r"cache\[slots\] = x", "cache[slots] = x\n    x.zero_()", {"test_passes_opcheck"}),
}


@pytest.mark.torch
@pytest.mark.slow
def test_they_fail_for_ops_that_break_their_contract(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write(tmp_path, {"tried_ops.py": HEAD + SPLIT + LOW_LEVEL + ALIASING + UNDECLARED})
    migrate_with_tests(tmp_path)
    path = tmp_path / "tried_ops.py"
    text = path.read_text("utf-8")
    for pattern, new, _ in BREAKS.values():
        text, count = re.subn(pattern, new, text)
        assert count
    path.write_text(text, "utf-8")
    outcomes = run_tests(tmp_path)
    failed = {name for name, outcome in outcomes.items() if outcome == "FAILED"}
    wanted = {
        f"test_tried_{op}_contract::{test}"
        for op, (_, _, tests) in BREAKS.items()
        for test in tests
    }
    assert wanted - failed == set()


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "--isolated"], ["ruff", "format", "--isolated", "--check"]],
    ids=["check", "format"],
)
def test_they_are_clean_for_ruff(tested: Path, command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command, "--no-cache", str(tested / "tests")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.torch
@pytest.mark.slow
def test_they_are_clean_for_mypy(tested: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull),
            *("--cache-dir", str(tmp_path), str(tested / "tests" / "test_tried_scale_contract.py")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_second_run_leaves_them_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, {"tried_ops.py": HEAD + INPLACE})
    migrate_with_tests(tmp_path)
    path = tmp_path / "tests" / "test_tried_fade__contract.py"
    written = path.read_bytes()
    assert is_unedited(written)
    migrate_with_tests(tmp_path)
    assert path.read_bytes() == written
    write(tmp_path, {"tried_ops.py": HEAD + INPLACE})
    migrate_with_tests(tmp_path)
    assert path.read_bytes() == written


def test_what_somebody_edited_is_left_alone_unless_forced(tmp_path: Path) -> None:
    write(tmp_path, {"tried_ops.py": HEAD + INPLACE})
    migrate_with_tests(tmp_path)
    path = tmp_path / "tests" / "test_tried_fade__contract.py"
    edited = path.read_bytes().replace(b"call(floats(4, 4), 0.5)", b"call(floats(9), 0.25)")
    assert not is_unedited(edited)
    path.write_bytes(edited)
    write(tmp_path, {"tried_ops.py": HEAD + INPLACE})
    said = migrate_with_tests(tmp_path)
    assert "was edited, and is left as it is" in said
    assert path.read_bytes() == edited
    assert b"Tag.inplace" in (tmp_path / "tried_ops.py").read_bytes()
    write(tmp_path, {"tried_ops.py": HEAD + INPLACE})
    assert "edited" not in migrate_with_tests(tmp_path, "--force")
    assert is_unedited(path.read_bytes())


def test_one_that_is_not_edited_follows_the_op(tmp_path: Path) -> None:
    write(tmp_path, {"tried_ops.py": HEAD + INPLACE})
    migrate_with_tests(tmp_path)
    path = tmp_path / "tests" / "test_tried_fade__contract.py"
    written = path.read_bytes()
    path.write_bytes(written.replace(b"\n", b"\r\n"))
    more = HEAD + INPLACE.replace("by: float", "by: float, more: int")
    write(tmp_path, {"tried_ops.py": more})
    assert "edited" not in migrate_with_tests(tmp_path)
    assert path.read_bytes() != written
    assert b"call(floats(4, 4), 0.5, 1)" in path.read_bytes()


def test_a_file_of_that_name_that_was_never_ours_is_left_alone(tmp_path: Path) -> None:
    mine = "def test_mine():\n    pass\n"
    write(tmp_path, {"tried_ops.py": HEAD + INPLACE, "tests/test_tried_fade__contract.py": mine})
    assert "left as it is" in migrate_with_tests(tmp_path)
    assert (tmp_path / "tests" / "test_tried_fade__contract.py").read_text("utf-8") == mine


def test_they_are_part_of_the_diff_and_of_a_plan(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, {"tried_ops.py": HEAD + INPLACE})
    shown = cli("migrate", root, "--root", root, "--tests", root / "new" / "tests")
    assert b"+++ b/new/tests/test_tried_fade__contract.py" in shown.out
    assert not (root / "new").exists()
    plan = tmp_path / "plan.json"
    cli("migrate", root, "--root", root, "--tests", root / "new" / "tests", "--plan", plan)
    assert not (root / "new").exists()
    assert cli("migrate", "--apply", plan, "--root", root).code == 0
    path = root / "new" / "tests" / "test_tried_fade__contract.py"
    assert is_unedited(path.read_bytes())
    assert b"parents[2]" in path.read_bytes()


@pytest.mark.parametrize("where", ["..", "tried_ops.py"])
def test_a_place_that_will_not_do_is_an_error(tmp_path: Path, where: str) -> None:
    root = tmp_path / "root"
    write(root, {"tried_ops.py": HEAD + INPLACE})
    before = (root / "tried_ops.py").read_bytes()
    answer = cli("migrate", root, "--root", root, "--write", "--tests", root / where)
    assert answer.code == 2
    assert "--tests" in answer.err
    assert (root / "tried_ops.py").read_bytes() == before


def test_ops_of_packages_are_imported_by_their_package(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"src/pkg/__init__.py": "", "src/pkg/sub/__init__.py": "", "src/pkg/sub/ops.py": ""},
    )
    assert importable(tmp_path / "src/pkg/sub/ops.py") == (tmp_path / "src", "pkg.sub.ops")
    assert importable(tmp_path / "src/pkg/sub/__init__.py") == (tmp_path / "src", "pkg.sub")
    assert importable(tmp_path / "src/other.py") == (tmp_path / "src", "other")


@pytest.mark.parametrize(
    ("schema", "first"),
    [
        ("a::b(Tensor x) -> Tensor", "call(floats(4, 4))"),
        ("a::b(Tensor x, int n, float f=1.0) -> Tensor", "call(floats(4, 4), 1)"),
        ("a::b(Tensor x, Tensor mask) -> Tensor", "call(floats(4, 4), mask(4, 4))"),
        ("a::b(Tensor x, Tensor slot_ids) -> Tensor", "call(floats(4, 4), indices(4, 4))"),
        ("a::b(Tensor[] xs, int[2] n) -> Tensor", "call([floats(4, 4), floats(4, 4)], [4, 4])"),
        ("a::b(Tensor x, Tensor? y, *, bool z) -> Tensor", "call(floats(4, 4), None, z=False)"),
        ("a::b(ScalarType t, Device d) -> Tensor", 'call(torch.float32, torch.device("cpu"))'),
        ("a::b() -> Tensor", "call()"),
    ],
)
def test_samples_are_made_up_from_the_schema(schema: str, first: str) -> None:
    calls = sample_calls(parse_schema(schema))
    assert calls[0] == first
    assert len(set(calls)) == len(calls) <= 32


@pytest.mark.parametrize("type_", ["str", "Generator", "Dict(str, Tensor)"])
def test_what_cannot_be_made_up_is_left_to_a_person(type_: str) -> None:
    assert sample_calls(parse_schema(f"a::b(Tensor x, {type_} y) -> Tensor")) == []
