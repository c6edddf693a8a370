"""Real processes on one tree at the same time: each does its work, or is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

import opscaffold

Running: TypeAlias = "subprocess.Popen[str]"
OK, NO, USAGE = 0, 1, 2
FILES = 4
# Whoever comes first holds the lock until told otherwise, so that the other comes meanwhile.
SLOW_FIRST = """\
import sys, time
from pathlib import Path
from opscaffold.fs import journal
from opscaffold.cli.app import main
commit = journal.commit
def slow(item, *, sync=True):
    commit(item, sync=sync)
    Path(sys.argv[1]).touch()
    while not Path(sys.argv[2]).exists():
        time.sleep(0.01)
journal.commit = slow
sys.exit(main(sys.argv[3:]))
"""


def op(number: int) -> str:
    return f"""\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double{number}", mutates_args=("out",))
def double{number}(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "root"
    root.mkdir()
    (root / "pyproject.toml").write_text("[project]\nname = 'demo'\n", "utf-8")
    for number in range(FILES):
        (root / f"ops{number}.py").write_text(op(number), "utf-8")
    return root


def start(root: Path, *arguments: str, program: Sequence[str] = ("-m", "opscaffold")) -> Running:
    home = os.fspath(Path(opscaffold.__file__).parents[1])
    cache = os.fspath(root.parent / "cache")
    environment = {**os.environ, "PYTHONPATH": home, "OPSCAFFOLD_CACHE_DIR": cache}
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: Running) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    assert "internal error" not in err
    return process.returncode, out, err


def tree(root: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in root.iterdir() if path.is_file()}


WRITE = ("migrate", "--write", "--unsafe", "--root", ".")


def test_a_run_that_comes_while_another_writes_is_refused_by_its_number(root: Path) -> None:
    begun, go_on = root.parent / "begun", root.parent / "go_on"
    slow = ("-c", SLOW_FIRST, os.fspath(begun), os.fspath(go_on))
    with start(root, *WRITE, program=slow) as first:
        while not begun.exists():
            assert first.poll() is None
        before = tree(root)
        code, _, said = end(start(root, *WRITE))
        assert code == USAGE
        assert f"process {first.pid}" in said
        assert tree(root) == before
        go_on.touch()
        assert end(first)[0] == OK
    after = tree(root)
    assert all("_out" in text for name, text in after.items() if name.startswith("ops"))
    assert end(start(root, *WRITE))[0] == OK
    assert tree(root) == after


def test_of_runs_that_start_together_all_files_come_out_whole(root: Path) -> None:
    ended = [end(process) for process in [start(root, *WRITE) for _ in range(2)]]
    assert {code for code, _, _ in ended} <= {OK, USAGE}
    assert OK in {code for code, _, _ in ended}
    for code, _, said in ended:
        assert code == OK or "another run" in said or "changed since" in said or "again" in said
    found = tree(root)
    assert set(found) == {"pyproject.toml", *(f"ops{number}.py" for number in range(FILES))}
    assert all(text.count("double") > 1 for name, text in found.items() if name != "pyproject.toml")
    assert end(start(root, *WRITE))[0] == OK
    assert all("_out" in text for name, text in tree(root).items() if name.startswith("ops"))


def test_checks_that_start_together_share_a_cache_and_say_the_same(root: Path) -> None:
    command = ("check", "--root", ".", "--format", "json")
    first, second = ([end(p) for p in [start(root, *command) for _ in range(2)]] for _ in "12")
    assert len({*first, *second}) == 1
    assert first[0][0] == NO
    left = [path for path in (root.parent / "cache").rglob("*") if path.is_file()]
    assert [path.suffix for path in left] == [".json"]


def test_a_package_is_made_while_its_place_is_migrated(root: Path) -> None:
    made = start(root, "new", "some-ops", "--defaults", "-o", ".")
    code, _, _ = end(start(root, *WRITE))
    assert code in (OK, NO, USAGE)
    assert end(made)[0] == OK
    assert (root / "some-ops" / "pyproject.toml").is_file()
    assert not [
        p for p in root.rglob("*") if p.name.startswith((".opscaffold-", ".opscaffold.run"))
    ]
    assert end(start(root, *WRITE))[0] == OK
    assert all("_out" in text for name, text in tree(root).items() if name.startswith("ops"))


def test_of_two_packages_of_one_name_one_is_refused(root: Path) -> None:
    command = ("new", "some-ops", "--defaults", "-o", ".")
    ended = [end(process) for process in [start(root, *command) for _ in range(2)]]
    codes = sorted(code for code, _, _ in ended)
    assert codes == [OK, USAGE]
    assert "some-ops" in next(err for code, _, err in ended if code == USAGE)
    assert (root / "some-ops" / "README.md").is_file()
    assert not [p for p in root.iterdir() if p.name.startswith(".opscaffold-")]
