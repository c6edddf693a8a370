"""``migrate --interactive``: each repair is shown and asked about, and declined ones stay whole."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from migrate_runs import CALLER, OPS, Run, commit, contents, write

pexpect = pytest.importorskip("pexpect")

HALVE = OPS.replace("double", "halve")
TRIPLE = OPS.replace("double", "triple")
PROMPT = "Make this repair? [y,n,q,a,d,?] > "


class Terminal:
    """The command behind a real pseudo-terminal."""

    def __init__(self, root: Path, repository: Path, *arguments: str) -> None:
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "opscaffold", "migrate", *arguments],
            cwd=str(root),
            encoding="utf-8",
            codec_errors="replace",
            timeout=60,
            dimensions=(50, 200),
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(repository)},
        )

    def answer(self, op: str, text: str) -> str:
        """Wait for the question about an op, answer it, and return what was shown before."""
        self.child.expect_exact(f"{op}")
        self.child.expect_exact(" would be ")
        shown = str(self.child.before)
        self.child.expect_exact(PROMPT)
        self.child.sendline(text)
        return shown

    def again(self, text: str) -> str:
        """Wait for the same question once more, answer it, and return what was shown before."""
        self.child.expect_exact(PROMPT)
        shown = str(self.child.before)
        self.child.sendline(text)
        return shown

    def end(self) -> tuple[int, str]:
        """The exit code, and what was said to the end."""
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus, self.child.before


@pytest.fixture
def spawn(tree: Path, repository_root: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts the command in a tree of three ops, one of them with a caller."""
    write(tree, ops=OPS, caller=CALLER, halve=HALVE, triple=TRIPLE)
    started: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        started.append(Terminal(tree, repository_root, *arguments))
        return started[-1]

    yield start
    for terminal in started:
        terminal.child.close(force=True)


def changed(tree: Path) -> set[str]:
    return {name for name, data in contents(tree).items() if b"_out" in data}


def test_what_is_accepted_is_written_and_what_is_declined_stays_whole(
    tree: Path, spawn: Callable[..., Terminal]
) -> None:
    terminal = spawn("--interactive")
    terminal.answer("demo::halve", "y")
    terminal.answer("demo::double", "n")
    terminal.answer("demo::triple", "yes")
    code, text = terminal.end()
    assert code == 1
    assert "you declined the repair" in text
    assert "1 left as they are" in text
    assert changed(tree) == {"halve.py", "triple.py"}
    assert (tree / "caller.py").read_bytes() == CALLER.encode()


def test_the_diff_is_coloured_and_shown_again(tree: Path, spawn: Callable[..., Terminal]) -> None:
    terminal = spawn("-i", "--only", "demo::double")
    terminal.answer("demo::double", "d")
    shown = terminal.again("maybe")
    assert "\x1b[32m+" in shown
    assert "double_out(x, out=buf)" in shown
    helped = terminal.again("?")
    assert "leave this op as it is" in helped
    assert "leave this op as it is" in terminal.again("Y")
    code, _ = terminal.end()
    assert code == 0
    assert changed(tree) == {"ops.py", "caller.py"}


def test_the_question_tells_call_sites(spawn: Callable[..., Terminal]) -> None:
    terminal = spawn("-i", "--only", "demo::double")
    terminal.child.expect_exact(
        "split into demo::double and demo::double_out (1 call site, 2 files)"
    )
    terminal.again("n")
    assert terminal.end()[0] == 1


@pytest.mark.parametrize(
    ("answer", "files"),
    [("a", {"halve.py", "ops.py", "caller.py", "triple.py"}), ("q", {"halve.py"})],
)
def test_one_answer_for_all_that_follow(
    tree: Path, spawn: Callable[..., Terminal], answer: str, files: set[str]
) -> None:
    terminal = spawn("--interactive")
    terminal.answer("demo::halve", "y")
    terminal.answer("demo::double", answer)
    code, text = terminal.end()
    assert code == (1 if answer == "q" else 0)
    assert PROMPT not in text
    assert changed(tree) == files


@pytest.mark.parametrize(("key", "code"), [("c", 130), ("d", 2)])
def test_leaving_at_a_question_writes_nothing(
    tree: Path, spawn: Callable[..., Terminal], key: str, code: int
) -> None:
    terminal = spawn("--interactive")
    terminal.answer("demo::halve", "y")
    terminal.child.expect_exact(PROMPT)
    terminal.child.sendcontrol(key)
    exit_code, text = terminal.end()
    assert exit_code == code
    assert "Traceback" not in text
    assert changed(tree) == set()


def test_bytes_that_are_no_text_are_asked_again(tree: Path, spawn: Callable[..., Terminal]) -> None:
    terminal = spawn("-i", "--only", "demo::halve")
    terminal.child.expect_exact(PROMPT)
    terminal.child.ptyproc.write(b"\xff\xfe\n")
    terminal.again("y")
    assert terminal.end()[0] == 0
    assert changed(tree) == {"halve.py"}


def test_a_dirty_tree_is_refused_before_anything_is_asked(
    tree: Path, spawn: Callable[..., Terminal]
) -> None:
    commit(tree)
    write(tree, new="A = 1\n")
    code, text = spawn("--interactive").end()
    assert code == 2
    assert "uncommitted" in text
    assert PROMPT not in text


def test_with_a_plan_nothing_is_written_but_the_plan(
    tree: Path, spawn: Callable[..., Terminal]
) -> None:
    terminal = spawn("--interactive", "--plan", "plan.json")
    terminal.answer("demo::halve", "n")
    terminal.answer("demo::double", "y")
    terminal.answer("demo::triple", "n")
    assert terminal.end()[0] == 1
    plan = json.loads((tree / "plan.json").read_text("utf-8"))
    assert [repair["op"] for step in plan["steps"] for repair in step["repairs"]] == [
        "demo::double"
    ]
    assert {entry["op"]: entry["state"] for entry in plan["refusals"]} == {
        "demo::halve": "declined",
        "demo::triple": "declined",
    }
    assert changed(tree) == {"plan.json"}


def test_without_a_terminal_it_is_an_error(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS)
    run = Run(capsysbinary, "--interactive")
    assert run.code == 2
    assert "asks on a terminal" in run.err
    assert contents(tree) == {"ops.py": OPS.encode()}
