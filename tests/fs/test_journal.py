from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import opscaffold
from opscaffold.errors import UserError
from opscaffold.fs import journal
from opscaffold.fs.atomic import StaleFileError, WriteError
from opscaffold.fs.journal import InterruptedWriteError, Unit, UnitsError, write_units
from opscaffold.fs.lock import LockedError, locked
from opscaffold.fs.recovery import recover
from opscaffold.fs.state import find_state


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    for name in "abc":
        (root / name).write_bytes(b"old " + name.encode())
    return root


def contents(root: Path) -> dict[str, bytes]:
    ours = {".git", ".opscaffold.run"}
    found = (p for p in root.rglob("*") if p.is_file() and ours.isdisjoint(p.parts))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


OLD = {"a": b"old a", "b": b"old b", "c": b"old c"}


def unit(root: Path, name: str, **changes: tuple[bytes | None, bytes]) -> Unit:
    return Unit(name, {root / file: change for file, change in changes.items()})


def two(root: Path) -> list[Unit]:
    """Two units that share a file."""
    return [
        unit(root, "one", a=(b"old a", b"a1"), b=(b"old b", b"b1")),
        unit(root, "two", b=(b"b1", b"b2"), c=(b"old c", b"c2")),
    ]


def test_units_are_written_in_their_order_and_nothing_else_is_left(root: Path) -> None:
    said: list[str] = []
    write_units(root, two(root), progress=said.append)
    assert contents(root) == {"a": b"a1", "b": b"b2", "c": b"c2"}
    assert said == ["one", "two"]


def test_files_are_made_too(root: Path) -> None:
    write_units(root, [unit(root, "one", a=(b"old a", b"a1"), new=(None, b"made"))])
    assert contents(root) == {**OLD, "a": b"a1", "new": b"made"}


def test_a_unit_that_changes_nothing_is_written_at_once(root: Path) -> None:
    before = (root / "a").stat()
    write_units(root, [unit(root, "one", a=(b"old a", b"old a"))])
    assert os.path.samestat((root / "a").stat(), before)
    assert contents(root) == OLD


def test_modes_and_links_are_kept(root: Path) -> None:
    (root / "a").chmod(0o755)
    (root / "link").symlink_to("b")
    write_units(root, [unit(root, "one", a=(b"old a", b"a1"), link=(b"old b", b"b1"))])
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o755
    assert (root / "link").is_symlink()
    assert (root / "b").read_bytes() == b"b1"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are text there")
def test_names_that_are_no_text_are_written_and_named(root: Path) -> None:
    path = root / os.fsdecode(b"\xff\xfe.py")
    path.write_bytes(b"old")
    with pytest.raises(UnitsError) as caught:
        write_units(root, [Unit("one", {path: (b"other", b"new")})])
    assert r"\xff\xfe.py" in str(caught.value)
    str(caught.value).encode()
    write_units(root, [Unit("one", {path: (b"old", b"new"), root / "a": (b"old a", b"a1")})])
    assert path.read_bytes() == b"new"


# -- refused before anything is touched ------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.write_bytes(b"edited"), "changed since it was read"),
        (lambda path: path.unlink(), "vanished"),
        (lambda path: (path.unlink(), path.mkdir()), "not a regular file"),
        (lambda path: (path.unlink(), path.symlink_to(path)), "circle"),
    ],
)
def test_a_file_of_a_late_unit_that_is_not_as_read_stops_all(
    root: Path, spoil: object, reason: str
) -> None:
    units = two(root)
    spoil(root / "c")  # type: ignore[operator]
    with pytest.raises(UnitsError, match=reason) as caught:
        write_units(root, units)
    assert caught.value.path == root / "c"
    assert caught.value.written == ()
    assert "nothing was written" in str(caught.value)
    assert contents(root)["a"] == b"old a"
    assert not find_state(root).directory.exists()


def test_a_file_to_be_made_that_is_there_stops_all(root: Path) -> None:
    units = [*two(root), unit(root, "three", new=(None, b"x"))]
    (root / "new").write_bytes(b"mine")
    with pytest.raises(UnitsError, match="exists already; nothing"):
        write_units(root, units)
    assert contents(root) == {**OLD, "new": b"mine"}


@pytest.mark.parametrize("what", ["c", ""])
def test_what_is_read_only_stops_all(
    root: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "c").write_bytes(b"old c")
    locked_away = root / "sub" / what
    # Root may write anything, so ask as someone who may not.
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != locked_away)
    units = [*two(root), Unit("three", {root / "sub" / "c": (b"old c", b"c3")})]
    with pytest.raises(UnitsError, match="read-only; nothing"):
        write_units(root, units)
    assert contents(root) == {**OLD, "sub/c": b"old c"}


def test_a_file_in_a_directory_that_is_not_there_stops_all(root: Path) -> None:
    units = [*two(root), Unit("three", {root / "gone" / "new": (None, b"x")})]
    with pytest.raises(UnitsError, match="directory does not exist; nothing"):
        write_units(root, units)
    assert contents(root) == OLD


@pytest.mark.parametrize("way", ["link", "up", "absolute"])
def test_nothing_outside_the_root_is_written(root: Path, way: str) -> None:
    outside = root.parent / "outside"
    outside.write_bytes(b"old")
    (root / "link").symlink_to(outside)
    path = {"link": root / "link", "up": root / ".." / "outside", "absolute": outside}[way]
    with pytest.raises(UnitsError, match="outside"):
        write_units(root, [Unit("one", {path: (b"old", b"new")})])
    assert outside.read_bytes() == b"old"


def test_two_names_of_one_file_in_a_unit_are_refused(root: Path) -> None:
    (root / "link").symlink_to("a")
    with pytest.raises(UnitsError, match="the same file as"):
        write_units(root, [unit(root, "one", a=(b"old a", b"x"), link=(b"old a", b"y"))])
    assert contents(root)["a"] == b"old a"


def test_units_that_do_not_follow_from_one_another_are_a_fault_of_the_caller(root: Path) -> None:
    units = [unit(root, "one", a=(b"old a", b"a1")), unit(root, "two", a=(b"old a", b"a2"))]
    with pytest.raises(ValueError, match="two"):
        write_units(root, units)
    assert contents(root) == OLD


# -- stopped in the middle -------------------------------------------------------------------------


def test_a_file_edited_while_units_are_written_stops_its_unit_only(root: Path) -> None:
    def edit(name: str) -> None:
        (root / "c").write_bytes(b"edited")

    with pytest.raises(UnitsError, match="1 of 2 were written before") as caught:
        write_units(root, two(root), progress=edit)
    assert isinstance(caught.value.__cause__, StaleFileError)
    assert caught.value.written == ("one",)
    assert contents(root) == {"a": b"a1", "b": b"b1", "c": b"edited"}
    assert not find_state(root).directory.exists()


def test_ctrl_c_waits_for_the_unit_at_hand(root: Path) -> None:
    with pytest.raises(InterruptedWriteError, match="1 of 2") as caught:
        write_units(root, two(root), progress=lambda _: signal.raise_signal(signal.SIGINT))
    assert isinstance(caught.value, KeyboardInterrupt)
    assert caught.value.written == ("one",)
    assert contents(root) == {"a": b"a1", "b": b"b1", "c": b"old c"}
    assert not find_state(root).directory.exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_between_two_files_waits_for_the_rest_of_the_unit(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = journal.commit

    def commit(item: object, *, sync: bool = True) -> None:
        real(item, sync=sync)  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(journal, "commit", commit)
    with pytest.raises(InterruptedWriteError) as caught:
        write_units(root, two(root))
    assert caught.value.written == ("one",)
    assert contents(root) == {"a": b"a1", "b": b"b1", "c": b"old c"}


def test_an_error_of_the_listener_leaves_whole_units(root: Path) -> None:
    def fail(_: str) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_units(root, two(root), progress=fail)
    assert contents(root) == {"a": b"a1", "b": b"b1", "c": b"old c"}
    assert not find_state(root).directory.exists()


def stop_second_commit(monkeypatch: pytest.MonkeyPatch, before: object = None) -> None:
    real, calls = journal.commit, []

    def commit(item: object, *, sync: bool = True) -> None:
        calls.append(item)
        if len(calls) == 2:
            if before is not None:
                before()  # type: ignore[operator]
            raise WriteError(Path("x"), "no")
        real(item, sync=sync)  # type: ignore[arg-type]

    monkeypatch.setattr(journal, "commit", commit)


def test_a_unit_that_fails_midway_is_undone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_second_commit(monkeypatch)
    units = [unit(root, "one", new=(None, b"made"), a=(b"old a", b"a1"))]
    with pytest.raises(UnitsError, match="nothing was written"):
        write_units(root, units)
    assert contents(root) == OLD
    assert not find_state(root).directory.exists()


def test_undoing_spares_what_somebody_wrote_meanwhile(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_second_commit(monkeypatch, lambda: (root / "a").write_bytes(b"mine"))
    with pytest.raises(UnitsError, match=r"not put back: .*a; the next run"):
        write_units(root, two(root))
    assert contents(root) == {**OLD, "a": b"mine"}
    assert find_state(root).journal.exists()


# -- backups ---------------------------------------------------------------------------------------


def test_backups_hold_the_bytes_and_mode_of_before_the_run(root: Path) -> None:
    (root / "b").chmod(0o600)
    units = [*two(root), unit(root, "three", new=(None, b"made"))]
    write_units(root, units, backup_suffix=".orig")
    assert contents(root) == {
        "a": b"a1",
        "b": b"b2",
        "c": b"c2",
        "new": b"made",
        **{f"{name}.orig": data for name, data in OLD.items()},
    }
    assert stat.S_IMODE((root / "b.orig").stat().st_mode) == 0o600


def test_a_backup_of_something_else_is_never_overwritten(root: Path) -> None:
    (root / "c.orig").write_bytes(b"precious")
    with pytest.raises(UnitsError, match=r"c\.orig: a backup that holds something else"):
        write_units(root, two(root), backup_suffix=".orig")
    assert contents(root) == {**OLD, "c.orig": b"precious"}


def test_a_backup_that_is_there_already_serves(root: Path) -> None:
    (root / "a.orig").write_bytes(b"old a")
    write_units(root, two(root), backup_suffix=".orig")
    assert contents(root)["a.orig"] == b"old a"
    assert contents(root)["a"] == b"a1"


@pytest.mark.parametrize("suffix", ["", "/x", "/../x", "/"])
def test_a_suffix_that_leads_elsewhere_is_refused(root: Path, suffix: str) -> None:
    with pytest.raises(UserError, match="suffix"):
        write_units(root, two(root), backup_suffix=suffix)
    assert contents(root) == OLD


def test_a_backup_may_not_be_a_file_that_is_changed_itself(root: Path) -> None:
    (root / "a.orig").write_bytes(b"old a")
    units = [*two(root), Unit("three", {root / "a.orig": (b"old a", b"x")})]
    with pytest.raises(UnitsError, match="another suffix"):
        write_units(root, units, backup_suffix=".orig")
    assert contents(root) == {**OLD, "a.orig": b"old a"}


# -- the journal and the lock ----------------------------------------------------------------------


def test_the_journal_is_whole_before_any_file_is_touched(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[dict[str, object]], dict[str, bytes]]] = []
    real = journal.commit

    def commit(item: object, *, sync: bool = True) -> None:
        lines = find_state(root).journal.read_text().splitlines()
        files = {name: data for name, data in contents(root).items() if name in OLD}
        seen.append(([json.loads(line) for line in lines], files))
        real(item, sync=sync)  # type: ignore[arg-type]

    monkeypatch.setattr(journal, "commit", commit)
    write_units(root, two(root))
    lines, files = seen[0]
    assert files == OLD
    assert [line["unit"] for line in lines if "unit" in line] == ["one", "two"]
    assert lines[-1] == {"begun": 0}
    assert seen[-1][0][-1] == {"begun": 1}


def test_the_journal_takes_its_place_only_when_it_is_on_the_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, real, synced, placed = find_state(root), os.fsync, set(), []
    commit = journal.commit

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.add(os.fstat(descriptor).st_ino)
        placed.append(state.journal.exists())

    def look(item: object, *, sync: bool = True) -> None:
        assert state.journal.stat().st_ino in synced
        commit(item, sync=sync)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(journal, "commit", look)
    # A unit's own note syncs the journal as well.
    monkeypatch.setattr(journal.Journal, "begin", lambda *_: None)
    write_units(root, two(root))
    assert placed[0] is False


def test_a_journal_that_cannot_be_written_stops_all(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UnitsError, match="no space left on the disk; nothing was written"):
        write_units(root, two(root))
    assert contents(root) == OLD
    assert not find_state(root).directory.exists()


def test_a_journal_of_a_killed_run_is_not_written_over(root: Path) -> None:
    state = find_state(root)
    state.create()
    state.journal.write_bytes(b"left")
    with pytest.raises(UserError, match="run this again"):
        write_units(root, two(root))
    assert state.journal.read_bytes() == b"left"
    assert contents(root) == OLD


def test_git_sees_nothing_while_units_are_written(root: Path) -> None:
    def status() -> str:
        command = ["git", "status", "--porcelain", "--untracked-files=all"]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout

    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    before = status()
    (root / ".git" / "x").touch()
    with locked(find_state(root)):
        assert find_state(root).lock.is_file()
        assert status() == before


def test_git_sees_nothing_even_where_it_comes_later(root: Path) -> None:
    with locked(find_state(root)):
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        command = ["git", "status", "--porcelain"]
        said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
        assert (root / ".opscaffold.run").is_dir()
        assert ".opscaffold.run" not in said


def test_the_journal_lies_in_the_git_directory_of_worktrees_and_submodules(root: Path) -> None:
    def git(*arguments: str) -> None:
        options = [
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@b.c",
            "-c",
            "protocol.file.allow=always",
        ]
        subprocess.run(["git", *options, *arguments], cwd=root, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    git("worktree", "add", "-q", "../other")
    git("submodule", "add", "-q", str(root), "sub")
    (root / "deep" / "er").mkdir(parents=True)
    assert find_state(root / "deep" / "er").directory == root / ".git" / "opscaffold"
    other = root.parent / "other"
    assert find_state(other).directory == root / ".git" / "worktrees" / "other" / "opscaffold"
    assert find_state(other).base == other
    assert find_state(root / "sub").directory == root / ".git" / "modules" / "sub" / "opscaffold"
    for place in (other, root / "sub"):
        write_units(place, two(place))
        assert contents(place)["a"] == b"a1"


def test_a_git_directory_that_is_none_is_passed_by(root: Path) -> None:
    (root / ".git").write_text("gitdir: /nowhere\n")
    assert find_state(root).directory == root / ".opscaffold.run"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are a matter of POSIX")
def test_state_of_another_user_is_not_followed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = find_state(root)
    state.create()
    real = Path.lstat

    def lstat(self: Path) -> os.stat_result:
        values = list(real(self))
        values[4] = 12345
        return os.stat_result(values)

    monkeypatch.setattr(Path, "lstat", lstat)
    for act in (lambda: recover(root), lambda: write_units(root, two(root))):
        with pytest.raises(UserError, match="not a directory that opscaffold made"):
            act()
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").touch()
    assert find_state(root).directory == root / ".opscaffold.run"


def test_a_link_in_place_of_the_state_is_not_followed(root: Path) -> None:
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    (root / ".opscaffold.run").symlink_to(elsewhere)
    for act in (lambda: recover(root), lambda: write_units(root, two(root))):
        with pytest.raises(UserError, match="not a directory that opscaffold made"):
            act()
    assert list(elsewhere.iterdir()) == []


HOLDER = """
import sys
from pathlib import Path
from opscaffold.fs.lock import locked
from opscaffold.fs.state import find_state
with locked(find_state(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_refused_and_a_dead_one_is_taken_over(root: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(root)]
    environment = {**os.environ, "PYTHONPATH": str(Path(opscaffold.__file__).parents[1])}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for act in (lambda: recover(root), lambda: write_units(root, two(root))):
            with pytest.raises(LockedError, match=f"process {holder.pid}") as caught:
                act()
        assert isinstance(caught.value, UserError)
        assert contents(root) == OLD
        holder.kill()
    assert find_state(root).lock.exists()
    assert recover(root) is None
    assert not find_state(root).directory.exists()
    write_units(root, two(root))
    assert contents(root)["a"] == b"a1"
