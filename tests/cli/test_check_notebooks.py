"""Notebooks are read where that is asked for, and reported by cell and line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from checking import BREACH, Checker

HEAD, OP, _ = BREACH.split("\n\n\n")


@pytest.fixture
def checker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Checker:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    return Checker(tmp_path, capsys)


def notebook(*cells: str) -> bytes:
    listed = [{"cell_type": "markdown", "source": ["# Ops"]}]
    listed += [{"cell_type": "code", "source": cell.splitlines(True)} for cell in cells]
    return json.dumps({"cells": listed, "metadata": {}}, indent=1).encode()


def test_they_are_left_out_unless_asked_for(checker: Checker) -> None:
    checker.write("a.ipynb", notebook("%load_ext x\n" + HEAD, OP))
    assert checker.found() == []
    assert checker.found("--notebooks") == [("a.ipynb", 2, "OPS101")]
    assert checker.found("a.ipynb") == [("a.ipynb", 2, "OPS101")]
    checker.write("opscaffold.toml", "notebooks = true\n")
    assert checker.found() == [("a.ipynb", 2, "OPS101")]


def test_places_are_cells_and_lines_in_every_format(checker: Checker) -> None:
    checker.write("a.ipynb", notebook(HEAD, OP))
    finding = checker.document("a.ipynb")["findings"][0]
    assert (finding["path"], finding["cell"], finding["line"]) == ("a.ipynb", 3, 2)
    assert finding["evidence"][0]["cell"] == 3
    assert finding["repair"] is None
    op = checker.document("a.ipynb", "--list-ops")["ops"][0]
    assert (op["cell"], op["line"], op["kernels"][0]["line"]) == (3, 1, 2)
    assert "a.ipynb:cell 3:1" in checker.run("a.ipynb", "--list-ops")[1]
    assert checker.run("a.ipynb", "--format", "concise")[1].startswith("a.ipynb:cell 3:2:23: OPS")
    text = checker.run("a.ipynb")[1]
    assert text.startswith("a.ipynb:cell 3:2:23: OPS101")
    assert "2 | def double(x: Tensor" in text
    assert "cell 3: `out`" in checker.run("a.ipynb", "--format", "github")[1]
    sarif = json.loads(checker.run("a.ipynb", "--format", "sarif")[1])
    result = sarif["runs"][0]["results"][0]
    assert result["message"]["text"].startswith("cell 3: ")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a.ipynb"
    assert place["region"]["startLine"] == 2
    assert result["partialFingerprints"]


def test_comments_and_baselines_hold_in_cells(checker: Checker) -> None:
    held = OP.replace("-> Tensor:", "-> Tensor:  # opscaffold: ignore[OPS101]", 1)
    checker.write("a.ipynb", notebook(HEAD, held))
    assert checker.found("a.ipynb") == []
    checker.write("a.ipynb", notebook(HEAD, OP))
    checker.run("a.ipynb", "--baseline", "known.json", "--write-baseline")
    checker.write("a.ipynb", notebook("x = 1\ny = 2", HEAD, OP))
    assert checker.found("a.ipynb", "--baseline", "known.json") == []


def test_what_cannot_be_read_is_a_finding(checker: Checker) -> None:
    checker.write("a.ipynb", notebook("x = 1", "y = 1\ntorch.library.define("))
    checker.write("b.ipynb", b"{}")
    found = checker.document("--notebooks")["findings"]
    assert [(f["path"], f.get("cell"), f["line"], f["code"]) for f in found] == [
        ("a.ipynb", 3, 2, "OPS001"),
        ("b.ipynb", None, 1, "OPS001"),
    ]


def test_modules_that_a_notebook_imports_are_known_to_it(checker: Checker) -> None:
    checker.write("ops.py", BREACH)
    checker.write("use.ipynb", notebook("import torch, ops\ntorch.ops.demo.duoble(x)"))
    assert [f for f in checker.found("--notebooks") if f[2] == "OPS603"] == [
        ("use.ipynb", 2, "OPS603")
    ]


def test_stdin_may_be_a_notebook(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    import opscaffold.cli.check_reading as module

    monkeypatch.setattr(module, "read_stdin", lambda: notebook(HEAD, OP))
    assert checker.found("-", "--stdin-filename", "a.ipynb") == [("a.ipynb", 2, "OPS101")]


def test_a_change_reports_what_the_notebook_did_not_have(checker: Checker) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
            cwd=checker.directory,
            check=True,
            capture_output=True,
        )

    other = OP.replace("demo::double", "demo::other").replace("double", "other")
    checker.write("a.ipynb", notebook(HEAD, OP))
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    checker.write("a.ipynb", notebook(HEAD, OP, other))
    assert len(checker.found("--notebooks")) == 2
    found = checker.document("--notebooks", "--diff-base", "HEAD")["findings"]
    assert [(f["cell"], f["op"]) for f in found] == [(4, "demo::other")]
