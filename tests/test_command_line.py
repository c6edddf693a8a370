from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from opscaffold import __version__
from opscaffold.cli import app as module
from opscaffold.errors import UserError
from opscaffold.fs.atomic import WriteError


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opscaffold", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], int]:
    """Runs the command line with a command that raises what it is given."""

    def main(error: BaseException) -> int:
        app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

        @app.command()
        def command() -> None:
            raise error

        monkeypatch.setattr(module, "app", app)
        return module.main([])

    return main


def test_the_version_is_shown() -> None:
    done = run("--version")
    first, *others = done.stdout.splitlines()
    assert (done.returncode, first) == (0, f"opscaffold {__version__}")
    assert [line.split()[0].rstrip(":") for line in others] == ["Python", "libcst", "torch"]
    assert version("libcst") in done.stdout


def test_help_lists_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    listed = done.stdout.split("Commands:")[1].split()
    assert {"new", "migrate"} <= set(listed)


@pytest.mark.parametrize("command", ["new", "migrate"])
def test_each_command_has_help(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: opscaffold {command} ")


def test_no_arguments_show_the_help() -> None:
    assert "Commands:" in "".join((run().stdout, run().stderr))


@pytest.mark.parametrize("arguments", [["--no-such-flag"], ["no-such-command"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("error", [UserError("no such thing: x"), WriteError(os.curdir, "full")])  # type: ignore[arg-type]
def test_a_user_error_is_one_line_and_exits_with_2(
    raising: Callable[[BaseException], int], capsys: pytest.CaptureFixture[str], error: UserError
) -> None:
    assert raising(error) == 2
    assert capsys.readouterr() == ("", f"opscaffold: error: {error}\n")


def test_a_fault_exits_with_3_and_asks_for_a_report(
    raising: Callable[[BaseException], int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(module.DEBUG_VARIABLE, raising=False)
    assert raising(ZeroDivisionError("by\nnothing")) == 3
    shown = capsys.readouterr().err
    assert shown.startswith("opscaffold: internal error: ZeroDivisionError: by nothing\n")
    assert "report" in shown
    assert "Traceback" not in shown


def test_a_fault_shows_its_traceback_on_request(
    raising: Callable[[BaseException], int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(module.DEBUG_VARIABLE, "1")
    assert raising(ZeroDivisionError()) == 3
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "in command" in shown


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()])
def test_an_interrupt_exits_with_130(
    raising: Callable[[BaseException], int],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
) -> None:
    assert raising(error) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_the_end_of_input_exits_with_2(
    raising: Callable[[BaseException], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(EOFError()) == 2
    assert "input ended" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_command_chooses_its_exit_code(
    raising: Callable[[BaseException], int], code: int
) -> None:
    assert raising(typer.Exit(code)) == code


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_leaves_early_is_told_by_141_alone(lines: int) -> None:
    program = (
        "import sys\n"
        "from opscaffold.cli import app as module\n"
        "@module.app.command()\n"
        "def talk(lines: int):\n"
        "    sys.stdin.read()\n"
        "    for _ in range(lines):\n"
        "        print('line')\n"
        "sys.exit(module.main(['talk', sys.argv[1]]))\n"
    )
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(lines)],
        stdin=subprocess.PIPE,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    os.close(read)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (141, "")


def test_ctrl_c_ends_a_running_command_with_130() -> None:
    program = (
        "import sys, time, typer\n"
        "from opscaffold.cli import app as module\n"
        "app = typer.Typer(rich_markup_mode=None)\n"
        "@app.command()\n"
        "def command():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "module.app = app\n"
        "sys.exit(module.main([]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_the_shell_completes_command_names() -> None:
    done = run(_OPSCAFFOLD_COMPLETE="complete_bash", COMP_WORDS="opscaffold mi", COMP_CWORD="1")
    assert done.stdout.split() == ["migrate"]


def test_the_table_of_exit_codes_has_each_of_them() -> None:
    page = (Path(__file__).parent.parent / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    listed = [int(code) for code in re.findall(r"^\| (\d+) \| ", page, re.MULTILINE)]
    assert listed == sorted(
        {module.OK, 1, module.USAGE, module.FAULT, module.INTERRUPTED, module.READER_LEFT}
    )
