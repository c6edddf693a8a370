"""What the documents show is what the commands do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from document_blocks import Block, blocks, matches, steps

from opscaffold.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Each example of a rule is run by the tests of that rule, and the page is made from the rules.
WRITTEN = [path for path in DOCUMENTS if path.name != "rules.md"]
RUNNABLE = [path for path in WRITTEN if any(block.runs for block in blocks(path))]
NEEDS_TORCH = re.compile(r"pytest|verify|import torch")

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# They set up an environment, and the tests run in one.
_SETS_UP = re.compile(r"(make|pip|python -m pip|git clone|pre-commit) ")


def test_an_ellipsis_stands_for_any_lines_and_nothing_else() -> None:
    assert matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert matches(["..."], [])
    assert not matches(["a", "...", "d"], ["a", "b"])
    assert not matches(["a"], ["a", "b"])
    assert not matches([], ["a"])


class Page:
    """A page that is followed from top to bottom, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / "examples", directory / "examples", ignore=ignored)
        self.programs = programs = directory.parent / "programs"
        programs.mkdir()
        for name, arguments in (("opscaffold", "-m opscaffold "), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
            program.chmod(0o755)
        self.environment = os.environ | {
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TORCHINDUCTOR_CACHE_DIR": str(directory.parent / "inductor"),
        }

    def follow(self, block: Block) -> None:
        """Do what a reader would do with a block. Raises AssertionError."""
        match block.language:
            case "console":
                for step in steps(block):
                    self._command(step.command, step.output)
            case "sh":
                lines = [line for line in block.text.splitlines() if not _SETS_UP.match(line)]
                self._command("\n".join(lines), None)
            case "diff":
                self._run(["git", "apply", "-"], block.text, 0)
            case "python" if block.title:
                path = self.directory / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            case "python" if block.excerpt:
                assert block.text in (self.directory / block.excerpt).read_text(encoding="utf-8")
            case "python":
                self._run([sys.executable, "-"], block.setup + block.text, 0)
            case "toml" if block.title:
                with (self.directory / block.title).open("a", encoding="utf-8") as file:
                    file.write("\n" + block.text)
            case "run":
                self._command(block.text, None)

    def _command(self, command: str, shown: list[str] | None) -> None:
        # Exit codes tell of findings as well: where the output is shown, it is what counts.
        code = re.search(r"# exits with (\d+)", command)
        expected = int(code[1]) if code else None if shown is not None else 0
        where = self.programs / "where"
        leave = f"trap 'pwd > \"{where}\"' EXIT"
        said = self._run(["bash", "-e", "-c", f"{leave}\n{command}"], "", expected)
        self.directory = Path(where.read_text(encoding="utf-8").rstrip("\n"))
        if shown is not None:
            assert matches(shown, said.splitlines()), f"$ {command}\nreally says:\n{said}"

    def _run(self, arguments: list[str], given: str, expected: int | None) -> str:
        done = subprocess.run(
            arguments,
            cwd=self.directory,
            env=self.environment,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert expected in (None, done.returncode), f"{arguments}\n{given}\n{done.stdout}"
        return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            path,
            marks=[pytest.mark.torch]
            if any(NEEDS_TORCH.search(block.text) for block in blocks(path) if block.runs)
            else [],
            id=path.name,
        )
        for path in RUNNABLE
    ],
)
def test_a_page_can_be_followed(
    document: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if request.node.get_closest_marker("torch"):
        pytest.importorskip("torch")
    (tmp_path / "here").mkdir()
    page = Page(tmp_path / "here")
    for block in blocks(document):
        page.follow(block)


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.name)
def test_every_block_says_what_it_is(document: Path) -> None:
    """So that none is left out of the run by accident."""
    text = document.read_text(encoding="utf-8")
    assert [block.text for block in blocks(document) if not block.language] == []
    assert re.findall(r"\n\n    \S.*", _FENCED.sub("", text)) == []


def test_the_readme_shows_both_commands() -> None:
    shown = [block for block in blocks(ROOT / "README.md") if block.language == "console"]
    commands = [step.command for block in shown for step in steps(block)]
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
