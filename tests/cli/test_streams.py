"""Streams that are closed, full or interrupted, as processes meet them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from checking import BREACH

from opscaffold.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no device is always full here")
posix = pytest.mark.skipif(os.name != "posix", reason="a shell closes the streams")


def run(directory: Path, command: str) -> tuple[int, str, str]:
    """Run ``opscaffold`` from a shell."""
    (directory / "ops.py").write_text(BREACH, "utf-8")
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m opscaffold {command}'],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


@posix
@needs_full
@pytest.mark.parametrize("command", ["check", "check --format json", "explain", "--version"])
def test_a_full_disk_is_told_in_a_line(tmp_path: Path, command: str) -> None:
    code, _, err = run(tmp_path, f"{command} >/dev/full")
    assert code == 2
    assert err == "opscaffold: error: the output cannot be written: No space left on device\n"


@posix
def test_a_closed_stdout_is_told_in_a_line(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "check >&-")
    assert code == 2
    assert err == "opscaffold: error: the output cannot be written: Bad file descriptor\n"


@posix
def test_a_report_goes_to_its_file_while_stdout_is_closed(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "check --select OPS101 -o report.txt >&- <&-")
    assert (code, "written to report.txt" in err) == (1, True)
    assert "OPS101" in (tmp_path / "report.txt").read_text("utf-8")


@posix
def test_a_closed_stdin_is_told_in_a_line(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "check - <&-")
    assert (code, out) == (2, "")
    assert err == "opscaffold: error: stdin is closed, and - reads it\n"


@posix
@needs_full
@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_the_exit_code_tells_where_stderr_cannot(tmp_path: Path, stderr: str) -> None:
    assert run(tmp_path, f"check nowhere.py {stderr}")[0] == 2
    assert run(tmp_path, f"check --select OPS101 {stderr}")[0] == 1


class _Interrupted:
    """Ctrl-C while the command line is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        if name == "opscaffold.cli.app":
            raise KeyboardInterrupt
        return None


def test_ctrl_c_while_loading_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "opscaffold.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Interrupted(), *sys.meta_path])
    assert main() == 130
    assert capsys.readouterr().err == "opscaffold: interrupted\n"


@posix
@pytest.mark.parametrize("command", [["check", "--no-cache"], ["migrate"], ["explain"]])
@pytest.mark.parametrize("colour", [{}, {"NO_COLOR": "1"}])
def test_a_terminal_without_the_letters_shows_escapes(
    tmp_path: Path, command: list[str], colour: dict[str, str]
) -> None:
    pexpect = pytest.importorskip("pexpect")
    (tmp_path / "öps.py").write_text(
        'import torch\n\n@torch.library.custom_op("my::same", mutates_args=())\n'
        "def same(x: torch.Tensor) -> torch.Tensor:\n    return x  # ü → 漢\n",
        encoding="utf-8",
    )
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    environment |= {"PYTHONIOENCODING": "ascii", "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    for width in (20, 200):
        terminal = pexpect.spawn(
            sys.executable,
            ["-m", "opscaffold", *command],
            cwd=str(tmp_path),
            env={**environment, **colour},
            dimensions=(40, width),
            timeout=60,
        )
        terminal.expect(pexpect.EOF)
        terminal.close()
        said = terminal.before
        assert terminal.exitstatus in (0, 1), said
        assert said.isascii()
        assert command == ["explain"] or rb"\u6f22" in said
        # Bold is no colour.
        assert not colour or re.search(rb"\x1b\[(3[0-7]|9[0-7]|38)", said) is None
