from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opscaffold.report.diff import unified_diff, write_diff

# Few different lines make for repeats, which is where diffs go wrong; the others are what a
# text-minded splitter takes for line ends or for diff syntax.
LINES = st.sampled_from(
    [
        b"",
        b"a",
        b"b",
        b"\r",
        b"x\r",
        b"\x0c",
        b"\x1c\x85",
        b"\xff\xfe",
        b"+",
        b"-- a",
        b"\\ No",
        "\u2028é".encode(),
        b"\x00",
        b" ",
        b"@@ -1 +1 @@",
    ]
)
CONTENT = st.builds(
    lambda lines, last: b"".join(line + b"\n" for line in lines) + last,
    st.lists(LINES, max_size=30),
    st.sampled_from([b"", b"", b"a", b"\r"]),
)
NAMES = st.sampled_from(
    [
        "plain.py",
        "with space.py",
        "é.py",
        'quote".py',
        "back\\slash.py",
        "tab\t.py",
        "new\nline.py",
        "sub/dir/x.py",
        "b a/b x.py",
        " lead.py",
        "trail ",
        "-dash",
        os.fsdecode(b"\xff.py"),
    ]
)


def apply(diff: bytes, root: Path) -> None:
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, cwd=root, input=diff, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("apply")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=st.dictionaries(NAMES, st.tuples(CONTENT, CONTENT), min_size=1, max_size=3))
def test_git_apply_of_the_diff_yields_the_new_bytes(
    scratch: Path, changes: dict[str, tuple[bytes, bytes]]
) -> None:
    files = {scratch / name: change for name, change in changes.items()}
    for path, (old, _) in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(old)
    diff = unified_diff(files, scratch)
    if diff:
        apply(diff, scratch)
    for path, (_, new) in files.items():
        assert path.read_bytes() == new


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(old=CONTENT, keep=st.lists(LINES, max_size=12), edit=CONTENT)
def test_git_apply_places_several_hunks_in_a_long_file(
    scratch: Path, old: bytes, keep: list[bytes], edit: bytes
) -> None:
    shared = b"".join(b"%d %s\n" % (number, line) for number, line in enumerate(keep))
    before = b"head\n" + old + b"\n" + shared + b"end\n"
    after = b"head\n" + edit + b"\n" + shared + edit + b"end\n"
    path = scratch / "long.py"
    path.write_bytes(before)
    diff = unified_diff({path: (before, after)}, scratch)
    if diff:
        apply(diff, scratch)
    assert path.read_bytes() == after


def test_the_diff_equals_what_git_writes(tmp_path: Path) -> None:
    old = b"".join(b"line %d\n" % number for number in range(40))
    new = old.replace(b"line 3\n", b"three\n").replace(b"line 30\n", b"") + b"no newline"
    for name, data in (("a", old), ("b", new)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f.py").write_bytes(data)
    git = subprocess.run(
        ["git", "diff", "--no-index", "--diff-algorithm=myers", "a/f.py", "b/f.py"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    ).stdout

    def hunks(diff: bytes) -> list[bytes]:
        body = diff.split(b"\n@@", 1)[1].split(b"\n")
        return [b"@@" if b" @@" in line else line for line in body]

    ours = unified_diff({tmp_path / "f.py": (old, new)}, tmp_path)
    assert hunks(ours) == hunks(git)
    assert ours.startswith(b"diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n@@ -1,7 +1,7 @@\n")


def test_a_missing_final_newline_is_marked() -> None:
    root = Path("root")
    diff = unified_diff({root / "f": (b"a", b"a\n")}, root)
    assert diff.endswith(b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n")


def test_a_new_file_is_created_by_the_diff(scratch: Path) -> None:
    path = scratch / "made" / "new file.py"
    apply(unified_diff({path: (None, b"x = 1\n")}, scratch), scratch)
    assert path.read_bytes() == b"x = 1\n"


@pytest.mark.parametrize("data", [b"x = 1\n", b"", b"no newline"])
def test_a_removed_file_is_removed_by_the_diff(data: bytes, scratch: Path) -> None:
    path = scratch / "old file.py"
    path.write_bytes(data)
    apply(unified_diff({path: (data, None)}, scratch), scratch)
    assert not path.exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bit")
@pytest.mark.parametrize("new", [b"a\n", b"b\n"])
def test_the_bit_of_a_program_is_set_and_taken_by_the_diff(new: bytes, scratch: Path) -> None:
    old, made = scratch / "old.sh", scratch / "made.sh"
    made.unlink(missing_ok=True)
    old.write_bytes(b"a\n")
    old.chmod(0o644)
    apply(
        unified_diff({old: (b"a\n", new), made: (None, new)}, scratch, {old: True, made: True}),
        scratch,
    )
    assert old.read_bytes() == made.read_bytes() == new
    assert old.stat().st_mode & made.stat().st_mode & 0o100
    apply(unified_diff({old: (new, new)}, scratch, {old: False}), scratch)
    assert not old.stat().st_mode & 0o100


def test_equal_bytes_give_no_diff() -> None:
    assert unified_diff({Path("r/f"): (b"a\r\n", b"a\r\n")}, Path("r")) == b""


def test_files_are_sorted_by_name() -> None:
    changes = {Path("r") / name: (b"1\n", b"2\n") for name in ("b", "a", "c/a")}
    diff = unified_diff(dict(changes), Path("r"))
    names = [line for line in diff.split(b"\n") if line.startswith(b"+++")]
    assert names == [b"+++ b/a", b"+++ b/b", b"+++ b/c/a"]


def test_a_file_outside_the_root_is_an_error() -> None:
    with pytest.raises(ValueError, match="elsewhere"):
        unified_diff({Path("elsewhere/f"): (b"1", b"2")}, Path("root"))


class _Stream(io.TextIOWrapper):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def written(self) -> bytes:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


def test_a_pipe_gets_the_exact_bytes_behind_earlier_text() -> None:
    stream = _Stream(terminal=False)
    stream.write("before\n")
    write_diff(b"+\xff\r\n", stream)
    assert stream.written() == b"before\n+\xff\r\n"


def test_a_terminal_gets_colour_and_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = _Stream(terminal=True)
    write_diff(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new \x1b[2J\r\n", stream)
    shown = stream.written()
    assert b"\x1b[32m+new " in shown
    assert b"\x1b[31m-old" in shown
    assert b"\x1b[2J" not in shown
    assert rb"\x1b[2J\r" in shown


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = _Stream(terminal=True)
    write_diff(b"+new\n", stream)
    assert b"[32m" not in stream.written()


def test_the_diff_goes_to_stdout_unless_told_otherwise(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert not sys.stdout.isatty()
    write_diff(b"+\xe9\n")
    assert capfdbinary.readouterr().out == b"+\xe9\n"
