"""The words that shells are offered, as their scripts ask for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opscaffold.cli import completion
from opscaffold.cli.app import main

ROOT = Path(__file__).resolve().parents[2]

Ask = Callable[[dict[str, str]], str]

OPS = """
import torch

@torch.library.custom_op("demo::gain", mutates_args=())
def gain(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@torch.library.custom_op("demo::fade", mutates_args=())
def fade(x: torch.Tensor) -> torch.Tensor:
    return x / 2
"""


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    (tmp_path / "ops.py").write_text(OPS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(request: dict[str, str]) -> str:
        for name, value in request.items():
            monkeypatch.setenv(name, value)
        assert main([]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return said.out

    return run


def in_bash(*words: str) -> dict[str, str]:
    """As the script for bash asks, where the last word is being typed."""
    return {
        "_OPSCAFFOLD_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["mig"], "migrate"),
        (["migrate", "--only", "de"], "demo::fade demo::gain"),
        (["migrate", "--only", "demo", "::"], "fade gain"),
        (["migrate", "--only", "demo", "::", "g"], "gain"),
        (["migrate", "--only", "=", "demo", "::", "g"], "gain"),
        (["migrate", "--only", "other", "::", "g"], ""),
        (["verify", "--op", "demo", "::", "f"], "fade"),
        (["check", "--select", "OPS10"], "OPS101 OPS102 OPS103"),
        (["check", "--select", "OPS2,OPS10"], "OPS2,OPS101 OPS2,OPS102 OPS2,OPS103"),
        (["check", "--ignore", "=", "maybe"], "maybe-out"),
        (["migrate", "--ignore", "inplace-f"], "inplace-flag"),
        (["verify", "--select", "OPS702"], "OPS702"),
        (["explain", "OPS702"], "OPS702"),
        (["explain", "func"], "functional"),
        (["check", "--format", "git"], "github gitlab"),
        (["new", "--kind", "in"], "in-place"),
        (["add", "--kernel", "t"], "torch triton"),
        (["update", "--registration", ""], "custom_op library"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_bash_is_offered_what_it_replaces(ask: Ask, words: list[str], offered: str) -> None:
    assert " ".join(ask(in_bash("opscaffold", *words)).split()) == offered


def test_zsh_and_fish_are_offered_codes_with_their_names(ask: Ask) -> None:
    zsh = ask(
        {"_OPSCAFFOLD_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "opscaffold explain OPS10"}
    )
    assert '"OPS101":"maybe-out"' in zsh
    fish = ask(
        {
            "_OPSCAFFOLD_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_TYPER_COMPLETE_ARGS": "opscaffold migrate --only demo::f",
        }
    )
    assert fish.split() == ["demo::fade"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_back(ask: Ask, shell: str) -> None:
    script = ask({"_OPSCAFFOLD_COMPLETE": f"source_{shell}"})
    assert f"complete_{shell}" in script


def test_a_search_that_takes_too_long_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> Iterator[str]:
        import time

        time.sleep(0.5)
        yield "demo::gain"

    monkeypatch.setattr(completion, "PATIENCE", 0.01)
    monkeypatch.setattr(completion, "_op_names", slow)
    assert completion.ops("demo") == []


def test_a_project_that_cannot_be_read_offers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.opscaffold]\nselect = 3\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert completion.ops("") == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no bash with a terminal")
def test_a_tab_in_bash_completes_an_op(tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    (tmp_path / "ops.py").write_text(OPS, encoding="utf-8")
    command = tmp_path / "bin" / "opscaffold"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m opscaffold "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
        "PS1": "> ",
    }
    shell = pexpect.spawn(
        "bash",
        ["--norc", "--noprofile"],
        cwd=str(tmp_path),
        env=environment,
        encoding="utf-8",
        timeout=30,
        dimensions=(40, 200),
    )
    shell.sendline('eval "$(_OPSCAFFOLD_COMPLETE=source_bash opscaffold)"; echo rea"dy"')
    shell.expect_exact("ready\r\n")
    shell.send("opscaffold migrate --only demo::ga\t")
    shell.expect_exact("demo::gain ")
    shell.close(force=True)
