from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import opscaffold
from opscaffold.errors import UserError
from opscaffold.fs.atomic import PREFIX, WriteError
from opscaffold.fs.journal import Unit, write_units
from opscaffold.fs.record import Change, DamagedJournalError, Journal
from opscaffold.fs.recovery import Recovery, recover
from opscaffold.fs.state import find_state

KILLING = Path(__file__).with_name("killing.py")

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


def program(*arguments: str) -> dict[str, int]:
    command = [sys.executable, str(KILLING), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(opscaffold.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_fork
@pytest.mark.parametrize("manner", ["kill", "fail-from"])
@pytest.mark.parametrize("options", [(), ("--no-git", "--backups")])
def test_a_write_stopped_for_good_at_any_step_is_mended(
    manner: str, options: tuple[str, ...]
) -> None:
    figures = program("boundaries", manner, *options)
    assert figures["steps"] > 40
    assert figures["mended"] > 30
    # Every number of units that can be whole was met: none, one, two and all three.
    assert figures["states"] == 4


@needs_fork
@pytest.mark.parametrize("manner", ["fail-once", "interrupt"])
def test_a_write_that_fails_or_is_interrupted_at_any_step_leaves_whole_units(manner: str) -> None:
    figures = program("boundaries", manner)
    assert figures["steps"] > 40
    # Only where the journal itself cannot be removed is there something left to do.
    assert figures["mended"] <= 1
    assert figures["states"] == 4


@needs_fork
@pytest.mark.slow
def test_mending_may_be_killed_at_any_step() -> None:
    figures = program("boundaries", "kill", "--twice", "7")
    assert figures["again"] > 40


@needs_fork
@pytest.mark.slow
def test_kills_at_random_moments_leave_whole_units() -> None:
    figures = program("stress", "--kills", "10", "--files", "100", "--units", "5")
    assert figures["kills"] == 10


# -- what is done, and said ------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    return root


def begun(root: Path, *units: dict[str, tuple[str | None, str]], begun: int) -> Journal:
    """Leave the journal of a killed run that had begun so many units, and the old files."""
    planned = []
    for number, changes in enumerate(units):
        made = []
        for name, (old, new) in changes.items():
            path = root / name
            if old is not None and not path.exists():
                path.write_text(old)
            made.append(Change(path, path, None if old is None else old.encode(), new.encode()))
        planned.append((f"op{number}", made))
    state = find_state(root)
    state.create()
    journal = Journal(state, planned)
    for number in range(begun):
        journal.begin(number)
    return journal


PAIR = {"a": ("old a", "new a"), "b": ("old b", "new b")}


def texts(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(root.iterdir())}


def test_without_a_killed_run_nothing_is_done(root: Path) -> None:
    assert recover(root) is None
    assert list(root.iterdir()) == []


def test_a_half_written_unit_is_finished_and_later_ones_are_dropped(root: Path) -> None:
    later = {"c": ("old c", "new c")}
    begun(root, {"z": ("old z", "new z")}, PAIR, later, begun=2)
    (root / "z").write_text("new z")
    (root / "a").write_text("new a")
    (root / "b").chmod(0o755)
    recovery = recover(root)
    assert recovery == Recovery(written=("op0",), finished="op1", dropped=("op2",))
    assert texts(root) == {"a": "new a", "b": "new b", "c": "old c", "z": "new z"}
    assert stat.S_IMODE((root / "b").stat().st_mode) == 0o755
    assert recovery.lines() == [
        "an earlier run was killed while it wrote",
        "  already written: op0",
        "  finished now: op1",
        "  not begun, and dropped: op2",
    ]
    assert recover(root) is None


def test_a_unit_that_was_begun_and_not_written_is_dropped(root: Path) -> None:
    begun(root, PAIR, begun=1)
    assert recover(root) == Recovery((), None, ("op0",))
    assert texts(root) == {"a": "old a", "b": "old b"}


def test_a_unit_written_to_its_end_counts_as_written(root: Path) -> None:
    begun(root, PAIR, PAIR, begun=1)
    (root / "a").write_text("new a")
    (root / "b").write_text("new b")
    assert recover(root) == Recovery(("op0",), None, ("op1",))


def test_taking_everything_back_by_hand_is_respected(root: Path) -> None:
    begun(root, {"z": ("old z", "new z")}, PAIR, begun=2)
    assert recover(root) == Recovery(("op0",), None, ("op1",))
    assert texts(root) == {"a": "old a", "b": "old b", "z": "old z"}


@pytest.mark.parametrize("text", ["mine", None])
def test_a_file_that_somebody_changed_since_is_left_and_named(root: Path, text: str | None) -> None:
    begun(root, {**PAIR, "c": ("old c", "new c")}, begun=1)
    (root / "a").write_text("new a")
    if text is None:
        (root / "b").unlink()
    else:
        (root / "b").write_text(text)
    recovery = recover(root)
    assert recovery is not None
    assert recovery.left == (root / "b",)
    assert recovery.finished == "op0"
    assert texts(root).get("b") == text
    assert texts(root)["c"] == "new c"
    assert f"{root / 'b'} was changed since" in recovery.lines()[-1]
    assert recover(root) is None


def test_a_file_of_a_begun_unit_that_is_now_a_link_is_left(root: Path) -> None:
    begun(root, PAIR, begun=1)
    outside = root.parent / "outside"
    outside.write_text("old b")
    (root / "a").write_text("new a")
    (root / "b").unlink()
    (root / "b").symlink_to(outside)
    recovery = recover(root)
    assert recovery is not None
    assert recovery.left == (root / "b",)
    assert outside.read_text() == "old b"


def test_new_files_are_made_when_a_unit_is_finished(root: Path) -> None:
    begun(root, {**PAIR, "made": (None, "made")}, begun=1)
    (root / "a").write_text("new a")
    recover(root)
    assert texts(root) == {"a": "new a", "b": "new b", "made": "made"}


def test_temporary_files_are_removed_and_others_are_not(root: Path) -> None:
    journal = begun(root, PAIR, begun=0)
    (root / f"{PREFIX}{journal.run}-0-1.tmp").touch()
    (root / f"{PREFIX}somebody.tmp").touch()
    assert recover(root) == Recovery((), None, ("op0",))
    assert texts(root).keys() == {"a", "b", f"{PREFIX}somebody.tmp"}


def test_what_a_run_killed_before_its_journal_left_is_tidied_up(root: Path) -> None:
    state = find_state(root)
    state.create()
    state.unfinished.write_bytes(b"half")
    state.lock.touch()
    state.hide()
    assert recover(root) is None
    assert list(root.iterdir()) == []


def test_a_project_that_was_moved_is_mended(root: Path) -> None:
    begun(root, PAIR, begun=1)
    (root / "a").write_text("new a")
    moved = root.rename(root.with_name("moved"))
    assert recover(moved) == Recovery((), "op0", ())
    assert texts(moved) == {"a": "new a", "b": "new b"}


def test_a_repository_is_mended_from_any_root_in_it(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").touch()
    (root / "sub").mkdir()
    begun(root, PAIR, begun=1)
    (root / "a").write_text("new a")
    recover(root / "sub")
    assert (root / "b").read_text() == "new b"


def test_what_cannot_be_finished_is_tried_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(root, PAIR, begun=1)
    (root / "a").write_text("new a")
    with monkeypatch.context() as patch:
        # Root may write anything, so ask as someone who may not.
        patch.setattr(os, "access", lambda *_: False)
        with pytest.raises(WriteError, match="b: it is read-only"):
            recover(root)
    assert recover(root) == Recovery((), "op0", ())
    assert (root / "b").read_text() == "new b"


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_torn_last_line_counts_as_not_written(root: Path, cut: int) -> None:
    begun(root, PAIR, begun=1)
    journal = find_state(root).journal
    journal.write_bytes(journal.read_bytes()[:-cut])
    assert recover(root) == Recovery((), None, ("op0",))


def spoiled(root: Path, **values: object) -> None:
    path = find_state(root).journal
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["files"][1].update(values)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    "values",
    [
        {"path": "../outside"},
        {"path": "/etc/outside"},
        {"path": "x/../../outside"},
        {"path": ""},
        {"path": "a\0"},
        {"path": 3},
        {"like": "../outside"},
        {"new": "short"},
        {"old": 1},
    ],
)
def test_a_journal_that_would_lead_outside_is_refused(
    root: Path, values: dict[str, object]
) -> None:
    begun(root, PAIR, begun=1)
    (root / "a").write_text("new a")
    spoiled(root, **values)
    with pytest.raises(DamagedJournalError, match="delete it"):
        recover(root)
    assert texts_of_files(root) == {"a": "new a", "b": "old b"}


def texts_of_files(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in root.iterdir() if path.is_file()}


@pytest.mark.parametrize("packed", ["", "!", "eJwDAAAAAAE="])
def test_bytes_that_are_not_those_meant_are_not_written(root: Path, packed: str) -> None:
    begun(root, PAIR, begun=1)
    (root / "a").write_text("new a")
    spoiled(root, bytes=packed)
    with pytest.raises(DamagedJournalError, match="damaged"):
        recover(root)
    assert texts_of_files(root) == {"a": "new a", "b": "old b"}


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n", "x\n", "{}\n", "[]\n", "[" * 100_000 + "\n", "\xff\n"),
        '{"journal": 2, "run": "0123456789abcdef"}\n{"units": 0}\n',
        '{"journal": 1, "run": "../../x"}\n{"units": 0}\n',
        '{"journal": 1, "run": "0123456789abcdef"}\n',
        '{"journal": 1, "run": "0123456789abcdef"}\n{"units": 1}\n',
        '{"journal": 1, "run": "0123456789abcdef"}\n{"units": 0}\n{"begun": 0}\n',
        '{"journal": 1, "run": "0123456789abcdef"}\n{"units": 0}\n{"begun": 7}\n',
    ],
)
def test_a_journal_that_is_none_is_refused_and_kept(root: Path, text: str) -> None:
    state = find_state(root)
    state.create()
    state.journal.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match="cannot read it"):
        recover(root)
    assert state.journal.exists()


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are text there")
def test_names_that_are_no_text_come_back(root: Path) -> None:
    name = os.fsdecode(b"\xff\xfe")
    begun(root, {name: ("old", "new"), "a": ("old a", "new a")}, begun=1)
    (root / "a").write_text("new a")
    assert recover(root) == Recovery((), "op0", ())
    assert (root / name).read_text() == "new"


def test_after_mending_units_can_be_written(root: Path) -> None:
    begun(root, PAIR, begun=1)
    (root / "a").write_text("new a")
    recover(root)
    write_units(root, [Unit("next", {root / "a": (b"new a", b"newer")})])
    assert texts(root) == {"a": "newer", "b": "new b"}
