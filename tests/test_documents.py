"""What the documents show is what the commands do."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from opscaffold.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNABLE = [path for path in DOCUMENTS if "```console" in path.read_text(encoding="utf-8")]

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@dataclass(frozen=True)
class Step:
    command: str
    output: list[str]


def steps(document: Path) -> list[Step]:
    found: list[Step] = []
    for block in _BLOCK.findall(document.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], []))
            else:
                found[-1].output.append(line)
    return found


def matches(shown: list[str], real: list[str]) -> bool:
    """Compare line by line; a shown ``...`` stands for any number of lines."""
    if not shown:
        return not real
    if shown[0].strip() == "...":
        return any(matches(shown[1:], real[skip:]) for skip in range(len(real) + 1))
    return bool(real) and shown[0].rstrip() == real[0].rstrip() and matches(shown[1:], real[1:])


def test_an_ellipsis_stands_for_any_lines_and_nothing_else() -> None:
    assert matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert matches(["..."], [])
    assert not matches(["a", "...", "d"], ["a", "b"])
    assert not matches(["a"], ["a", "b"])
    assert not matches([], ["a"])


@pytest.mark.slow
@pytest.mark.parametrize("document", RUNNABLE, ids=lambda path: path.name)
def test_shown_output_is_real(document: Path, tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=ignored)
    directory = tmp_path
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    for step in steps(document):
        program, *arguments = shlex.split(step.command)
        if program == "cd":
            directory = (directory / arguments[0]).resolve()
            continue
        assert program == "opscaffold", f"{document.name} shows a command that is not tested"
        done = subprocess.run(
            [sys.executable, "-m", "opscaffold", *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        real = done.stdout.splitlines()
        assert matches(step.output, real), f"$ {step.command}\nreally says:\n{done.stdout}"


def test_the_readme_shows_both_commands() -> None:
    commands = [step.command for step in steps(ROOT / "README.md")]
    assert any(command.startswith("opscaffold new") for command in commands)
    assert any(command.startswith("opscaffold migrate") for command in commands)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = _FENCED.sub("", document.read_text(encoding="utf-8"))
    local = [target for target in _LINK.findall(text) if "://" not in target]
    missing = [target for target in local if not (document.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize(
    "name", [info.callback.__name__ for info in app.registered_commands if info.callback]
)
def test_each_command_has_a_page_that_names_every_flag(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "opscaffold", name, "--help"],
        env=os.environ | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    )
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    flags = set(_FLAG.findall(done.stdout)) - {"--help"}
    assert flags
    assert flags - set(_FLAG.findall(page)) == set()


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_readme_names_the_two_make_targets(target: str) -> None:
    assert f"make {target}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_named_in_documents_exist(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)`", document.read_text(encoding="utf-8")))
    assert named <= targets
