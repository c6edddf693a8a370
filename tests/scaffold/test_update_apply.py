"""An update is written whole, whatever comes in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from updating import LINES, Package

import opscaffold
from opscaffold.errors import UserError
from opscaffold.fs.atomic import StaleFileError
from opscaffold.scaffold import update_apply
from opscaffold.scaffold.managed import read_record
from opscaffold.scaffold.update_apply import apply

HERE = Path(__file__).parent
NEW = LINES.replace("line 10", "line ten")


@pytest.mark.skipif(os.name == "nt", reason="kills by signals")
def test_an_update_that_was_killed_at_any_step_is_finished_by_the_next() -> None:
    paths = [str(HERE), str(HERE.parent / "fs"), str(Path(opscaffold.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(HERE / "update_killing.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)
    assert steps["git"] > 60
    assert steps["plain"] > 6


def test_a_file_that_changes_after_planning_stops_everything(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.txt": LINES, "b.txt": LINES, "c.txt": LINES})
    planned = package.plan({"a.txt": NEW, "b.txt": NEW, "d/e.txt": NEW})
    package.write("b.txt", "changed meanwhile\n")
    before = package.tree()
    with pytest.raises(UserError, match=r"b\.txt: it changed since it was read"):
        apply(planned)
    assert package.tree() == before
    assert not (tmp_path / "d").exists()


def test_a_file_that_changes_before_it_is_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Package(tmp_path, {"a.txt": LINES, "b.txt": LINES})
    planned = package.plan({"a.txt": NEW})
    write = update_apply.write_units

    def written(*arguments: object, **options: object) -> None:
        write(*arguments, **options)  # type: ignore[arg-type]
        package.write("b.txt", "changed meanwhile\n")

    monkeypatch.setattr(update_apply, "write_units", written)
    with pytest.raises(StaleFileError):
        apply(planned)
    monkeypatch.undo()
    assert package.text("a.txt") == NEW
    assert package.text("b.txt") == "changed meanwhile\n"
    # The next update knows what became of it.
    assert [e.action.value for e in package.update({"a.txt": NEW}).values()] == [
        "unchanged",
        "kept",
    ]


def test_a_write_that_fails_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Package(tmp_path, {"a.txt": LINES, "b.txt": LINES})
    before = package.tree()
    planned = package.plan({"a.txt": NEW, "new/deep/c.txt": NEW})
    replace = Path.replace

    def fail(self: Path, to: Path) -> Path:
        if Path(to).name == "generated.zip":
            raise OSError(28, os.strerror(28))
        return replace(self, to)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(UserError, match="no space left"):
        apply(planned)
    monkeypatch.undo()
    assert package.tree() == before
    assert not (tmp_path / "new").exists()


def test_a_record_with_other_answers_is_written_although_no_file_changes(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.txt": LINES})
    record = read_record(package.root)
    planned = update_apply.between(package.root, record, record, lambda _: None, asked=True)
    assert planned.writes
    assert not planned.changes
    apply(planned)
    assert read_record(package.root) == record
