from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from opscaffold.errors import UserError
from opscaffold.fs import atomic
from opscaffold.fs.atomic import StaleFileError, WriteError, write_all, write_atomically


def leftovers(root: Path) -> list[Path]:
    return sorted(root.rglob(f"{atomic.PREFIX}*"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class Failing:
    """Lets the first ``good`` calls of a function through, then raises."""

    def __init__(self, function: object, good: int, error: BaseException) -> None:
        self.function, self.good, self.error = function, good, error

    def install(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        def call(*args: object, **kwargs: object) -> object:
            self.good -= 1
            if self.good < 0:
                raise self.error
            return self.function(*args, **kwargs)  # type: ignore[operator]

        monkeypatch.setattr(owner, name, call)


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("bits", [0o644, 0o600, 0o755, 0o2664])
def test_the_mode_of_an_existing_file_is_kept(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "f.py"
    path.write_bytes(b"old")
    path.chmod(bits)
    write_atomically(path, b"new\r\n")
    assert path.read_bytes() == b"new\r\n"
    assert mode(path) == bits
    assert leftovers(tmp_path) == []


def test_a_new_file_gets_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_atomically(tmp_path / "made", b"x")
    assert mode(tmp_path / "made") == mode(tmp_path / "plain")


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "f.py"
    target.write_bytes(b"old")
    link = tmp_path / "link.py"
    link.symlink_to(Path("real") / "f.py")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert leftovers(tmp_path) == []


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(WriteError, match="circle"):
        write_atomically(one, b"x")
    assert one.is_symlink()


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="not a regular file"):
        write_atomically(tmp_path, b"x")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(WriteError, match="not a regular file"):
        write_atomically(fifo, b"x")
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="directory does not exist") as caught:
        write_atomically(tmp_path / "gone" / "f", b"x")
    assert isinstance(caught.value, UserError)
    assert str(tmp_path / "gone" / "f") in str(caught.value)


def test_a_file_marked_read_only_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    # Root may write anything, so ask as someone who may not.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(WriteError, match="read-only"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("step", ["fsync", "chmod"])
def test_a_failure_while_writing_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    owner: object = os if step == "fsync" else Path
    Failing(None, 0, FULL).install(monkeypatch, owner, step)
    with pytest.raises(WriteError, match="no space left on the disk"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_an_interrupt_while_writing_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    Failing(None, 0, KeyboardInterrupt()).install(monkeypatch, os, "fsync")
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def three(root: Path) -> dict[Path, tuple[bytes | None, bytes]]:
    changes: dict[Path, tuple[bytes | None, bytes]] = {}
    for name in ("a", "b", "c"):
        (root / name).write_bytes(b"old " + name.encode())
        changes[root / name] = (b"old " + name.encode(), b"new " + name.encode())
    return changes


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(root.iterdir()) if path.is_file()}


def test_all_files_are_written_and_new_ones_made(tmp_path: Path) -> None:
    changes = three(tmp_path)
    changes[tmp_path / "d"] = (None, b"made")
    write_all(changes)
    assert contents(tmp_path) == {"a": b"new a", "b": b"new b", "c": b"new c", "d": b"made"}


def test_one_changed_file_stops_all(tmp_path: Path) -> None:
    changes = three(tmp_path)
    (tmp_path / "c").write_bytes(b"edited meanwhile")
    with pytest.raises(StaleFileError, match="changed since it was read") as caught:
        write_all(changes)
    assert caught.value.path == tmp_path / "c"
    assert contents(tmp_path) == {"a": b"old a", "b": b"old b", "c": b"edited meanwhile"}


def test_one_vanished_file_stops_all(tmp_path: Path) -> None:
    changes = three(tmp_path)
    (tmp_path / "b").unlink()
    with pytest.raises(StaleFileError, match="vanished"):
        write_all(changes)
    assert contents(tmp_path) == {"a": b"old a", "c": b"old c"}


def test_a_file_to_be_made_that_exists_stops_all(tmp_path: Path) -> None:
    changes = three(tmp_path)
    (tmp_path / "d").write_bytes(b"mine")
    changes[tmp_path / "d"] = (None, b"made")
    with pytest.raises(StaleFileError, match="exists already"):
        write_all(changes)
    assert contents(tmp_path)["a"] == b"old a"
    assert contents(tmp_path)["d"] == b"mine"


def test_two_names_of_one_file_are_refused(tmp_path: Path) -> None:
    changes = three(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    changes[link] = (b"old a", b"other")
    with pytest.raises(WriteError, match="the same file as"):
        write_all(changes)
    assert contents(tmp_path)["a"] == b"old a"


@pytest.mark.parametrize("good", [0, 1, 2])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()])
def test_a_failure_midway_puts_back_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: int, error: BaseException
) -> None:
    changes = three(tmp_path)
    del changes[tmp_path / "a"]
    changes = {tmp_path / "0": (None, b"made"), **changes}
    before = contents(tmp_path)
    real = Path.replace
    calls = 0

    def replace(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == good + 1:
            raise error
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    expected = WriteError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_all(changes)
    assert contents(tmp_path) == before
    assert leftovers(tmp_path) == []


def test_what_cannot_be_put_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = three(tmp_path)
    Failing(Path.replace, 1, FULL).install(monkeypatch, Path, "replace")
    with pytest.raises(WriteError, match=r"not put back: .*a$"):
        write_all(changes)
    assert contents(tmp_path) == {"a": b"new a", "b": b"old b", "c": b"old c"}
    assert leftovers(tmp_path) == []


def test_a_full_disk_is_met_before_the_first_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = three(tmp_path)
    Failing(os.fsync, 2, FULL).install(monkeypatch, os, "fsync")
    with pytest.raises(WriteError, match="no space left") as caught:
        write_all(changes)
    assert caught.value.path == tmp_path / "c"
    assert contents(tmp_path) == {"a": b"old a", "b": b"old b", "c": b"old c"}
    assert leftovers(tmp_path) == []
