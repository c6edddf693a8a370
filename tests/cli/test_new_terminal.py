from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")

SCALE = "mylib::scale(Tensor x, float alpha=1.0) -> Tensor"


class Terminal:
    """The command behind a real pseudo-terminal."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "opscaffold", "new", "--output-dir", str(directory), *arguments],
            encoding="utf-8",
            codec_errors="replace",
            timeout=30,
            dimensions=(50, 200),
            env={**os.environ, "TERM": "dumb"},
        )

    def answer(self, question: str, text: str) -> None:
        """Wait for the question's prompt, then type."""
        self.child.expect_exact(question)
        self.child.expect_exact("] > ")
        self.child.sendline(text)

    def end(self) -> tuple[int, str]:
        """What was said to the end, and the exit code."""
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus, self.child.before

    @property
    def made(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[object]:
    started: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        started.append(Terminal(tmp_path, *arguments))
        return started[-1]

    yield start
    for terminal in started:
        terminal.child.close(force=True)


def test_a_whole_walk_makes_a_package(spawn: type[Terminal]) -> None:
    terminal = spawn()
    terminal.answer("package called", "torch")
    terminal.answer("is taken", "walked")
    terminal.answer("one line", "Walked through.")
    terminal.answer("namespace", "wk")
    terminal.answer("oldest", "back")
    terminal.answer("namespace", "ns")
    terminal.answer("oldest", "")
    terminal.answer("existing PyTorch operators", "")
    terminal.answer("write to any Tensor", "perhaps")
    terminal.answer("no answer here", "yes")
    terminal.answer("first argument only", "yes")
    terminal.answer("op called", "bump_")
    terminal.answer("Argument 1", "Tensor x")
    terminal.answer("Argument 2", "by: float = 1.0")
    terminal.answer("Argument 3", "done")
    terminal.answer("written in", "")
    terminal.answer("Another op?", "n")
    terminal.child.expect_exact("ns::bump_(Tensor(a0!) x, float by=1.0) -> Tensor(a0!)")
    terminal.child.expect_exact("pyproject.toml")
    assert terminal.made == []
    terminal.answer("Write these files?", "y")
    code, text = terminal.end()
    assert code == 0
    assert "Made " in text
    assert terminal.made == ["walked"]


def test_back_from_the_end_changes_an_answer(spawn: type[Terminal]) -> None:
    terminal = spawn("walked", "--schema", SCALE, "--description", "d", "--torch-min", "2.13")
    terminal.answer("outputs' sizes", "same")
    terminal.answer("Does it train?", "y")
    terminal.answer("family", "n")
    terminal.answer("written in", "numpy")
    terminal.answer("Another op?", "n")
    for question in ("Write these files?", "Another op?", "written in", "family"):
        terminal.answer(question, "back")
    terminal.answer("Does it train?", "n")
    terminal.answer("family", "y")
    terminal.answer("written in", "")
    terminal.answer("Another op?", "")
    terminal.answer("Write these files?", "")
    code, text = terminal.end()
    assert code == 0
    assert "3 ops (scale, scale_, scale_out)" in text


@pytest.mark.parametrize("answers", [0, 1, 8])
@pytest.mark.parametrize(("key", "code"), [("c", 130), ("d", 2)])
def test_leaving_early_leaves_nothing_behind(
    spawn: type[Terminal], answers: int, key: str, code: int
) -> None:
    terminal = spawn()
    for _ in range(answers):
        terminal.answer("?", "")
    terminal.child.expect_exact("] > ")
    terminal.child.sendcontrol(key)
    exit_code, text = terminal.end()
    assert exit_code == code
    assert "Traceback" not in text
    assert len([line for line in text.splitlines() if "opscaffold:" in line]) == 1
    assert terminal.made == []


def test_declining_makes_nothing(spawn: type[Terminal]) -> None:
    terminal = spawn("walked", "--schema", SCALE, "--description", "d", "--torch-min", "2.13")
    for question in ("outputs' sizes", "train", "family", "written in", "Another"):
        terminal.answer(question, "")
    terminal.answer("Write these files?", "no")
    code, text = terminal.end()
    assert code == 1
    assert "Nothing was written." in text
    assert terminal.made == []


def test_a_complete_file_asks_nothing(spawn: type[Terminal], tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f'package = "filed"\n[[op]]\nschema = "{SCALE}"\n')
    terminal = spawn("--answers", str(tmp_path / "a.toml"))
    code, _ = terminal.end()
    assert code == 0
    assert terminal.made == ["a.toml", "filed"]


def test_defaults_ask_nothing(spawn: type[Terminal]) -> None:
    terminal = spawn("--defaults")
    assert terminal.end()[0] == 0
    assert terminal.made == ["my-ops"]


def test_bytes_that_are_no_text_are_asked_again(spawn: type[Terminal]) -> None:
    terminal = spawn()
    terminal.child.expect_exact("] > ")
    terminal.child.ptyproc.write(b"\xff\xfe\n")
    # Which of the two depends on the locale's way with bytes that it cannot decode.
    terminal.child.expect("no text in the terminal|is no text")
    terminal.answer("", "fine-name")
    terminal.answer("one line", "back")
    terminal.child.expect_exact("[fine-name] > ")


def test_a_taken_name_is_said_before_anything_else_is_asked(
    spawn: type[Terminal], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    terminal = spawn()
    terminal.answer("package called", "mine")
    terminal.answer("exists", "other")
    terminal.child.expect_exact("one line")
    code, text = spawn("mine").end()
    assert code == 2
    assert "--force" in text
    assert "?" not in text


def test_a_dry_run_does_not_ask_whether_to_write(spawn: type[Terminal]) -> None:
    terminal = spawn("walked", "--schema", SCALE, "--dry-run")
    questions = ("outputs' sizes", "train", "family", "written in", "Another")
    for question in ("one line", "oldest", *questions):
        terminal.answer(question, "")
    code, text = terminal.end()
    assert code == 0
    assert "Write these" not in text
    assert "pyproject.toml" in text
    assert terminal.made == []
