from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from opscaffold.errors import UserError
from opscaffold.fs import atomic
from opscaffold.fs.atomic import WriteError, write_atomically


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
