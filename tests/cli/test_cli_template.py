"""``template check``: every kind of op, rendered and held to every tool."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opscaffold.cli import template_tools
from opscaffold.cli.app import main
from opscaffold.cli.template_run import Result, run_cells
from opscaffold.cli.template_tools import TOOLS, Place, Tool
from opscaffold.scaffold.matrix import Group, groups, leaves
from opscaffold.scaffold.templates import ROOT, template_directory

LEAVES = ("my_op", "my_op_", "my_op_out", "my_op2")
LIGHT = ("--tool", "ruff", "--tool", "format", "--tool", "check")
MODULE = f"op/{ROOT}/src/{{{{cookiecutter.package.module}}}}/ops/{{{{cookiecutter.op.file}}}}.py"
TESTS = f"op/{ROOT}/tests/test_{{{{cookiecutter.op.file}}}}.py"

# An op with a write that is not declared.
HIDDEN = """

@torch.library.custom_op("{{cookiecutter.package.namespace}}::hidden", mutates_args=())
def hidden(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


@hidden.register_fake
def _hidden_fake(x: Tensor) -> Tensor:
    return torch.empty_like(x)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of the templates."""
    with template_directory("package") as path:
        shutil.copytree(path.parent, tmp_path / "own")
    return tmp_path / "own"


def spoil(own: Path, file: str, cell: str, text: str) -> None:
    """Let a template add a text for one op."""
    path = own / file
    condition = f'{{% if cookiecutter.op.name == "{cell}" %}}\n{text}{{% endif %}}\n'
    path.write_text(path.read_text() + condition)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, stdout and stderr of the command on the leaves."""

    def call(*arguments: str, cells: tuple[str, ...] = LEAVES) -> tuple[int, str, str]:
        named = [word for cell in cells for word in ("--cell", cell)]
        code = main(["template", "check", "--jobs", "1", *named, *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def red(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (cell["name"], tool)
        for cell in document["cells"]
        for tool, verdict in cell["results"].items()
        if verdict == "red"
    }


@pytest.mark.torch
@pytest.mark.slow
def test_each_tool_convicts_its_cell_and_no_other(own: Path, run: Run) -> None:
    pytest.importorskip("torch")
    spoil(own, MODULE, "my_op_", "\n\ndef _unused() -> None:\n    spare = 1\n" + HIDDEN)
    spoil(own, MODULE, "my_op2", "\n\n_NUMBER: int = 'text'\n")
    spoil(own, TESTS, "my_op2", "\n\ndef test_never() -> None:\n    assert [1] == [2]\n")
    code, out, _ = run("--template", str(own), "--format", "json", cells=("my_op_", "my_op2"))
    document = json.loads(out)
    assert red(document) == {
        ("my_op_", "ruff"),
        ("my_op_", "check"),
        ("my_op_", "verify"),
        ("my_op2", "format"),
        ("my_op2", "mypy"),
        ("my_op2", "pytest"),
    }, json.dumps(document["red"], indent=1)
    assert code == 1
    said = {one["tool"]: "\n".join(one["output"]) for one in document["red"]}
    assert "F841" in said["ruff"]
    assert "my_op2.py" in said["format"]
    assert 'expression has type "str"' in said["mypy"]
    assert "test_never" in said["pytest"]
    assert "my_op_.py" in said["check"]
    assert "OPS704" in said["verify"]
    assert all(document["seconds"][tool] > 0 for tool in TOOLS)


@pytest.mark.torch
@pytest.mark.slow
def test_what_is_brought_along_passes_its_tests_and_verify(run: Run) -> None:
    pytest.importorskip("torch")
    code, out, _ = run("--tool", "pytest", "--tool", "verify", cells=("my_op",))
    assert code == 0, out


def test_what_is_brought_along_is_green_and_nothing_is_left(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*LIGHT, cells=("my_op", "i_t1_@2.12"))
    assert code == 0, out
    assert "2 cells in 2 packages: 2 green, 0 red" in out
    assert re.search(r"^  my_op +ok +ok +ok +ok$", out, re.MULTILINE)
    assert re.search(r"^time: \d+\.\d s \(render .*ruff .*format .*check ", out, re.MULTILINE)
    assert "chosen-1: ruff ok, " in err
    assert list(tmp_path.iterdir()) == []


def test_a_red_cell_is_told_with_answers_tool_and_reason(own: Path, run: Run) -> None:
    spoil(own, MODULE, "my_op_out", "\n\ndef _unused() -> None:\n    spare = 1\n")
    code, out, err = run("--template", str(own), "--tool", "ruff", "--quiet")
    assert code == 1
    assert err == ""
    assert "RED ruff: my_op_out in chosen: my_op_out(Tensor x, float alpha=1.0, *, Te" in out
    assert "kind out, tensors 1, numbers yes" in out
    assert "F841 Local variable `spare` is assigned to but never used" in out
    assert "4 cells in 1 package: 3 green, 1 red" in out


def test_a_cell_that_cannot_be_rendered_is_red_and_the_others_are_held_to_the_tools(
    own: Path, run: Run
) -> None:
    spoil(own, MODULE, "my_op_", "{{ cookiecutter.op.nothing.at_all }}")
    code, out, _ = run("--template", str(own), "--tool", "ruff", "--format", "json")
    assert code == 1
    document = json.loads(out)
    assert red(document) == {("my_op_", "render")}
    results = {cell["name"]: cell["results"]["ruff"] for cell in document["cells"]}
    assert results == {"my_op": "green", "my_op_": "none", "my_op_out": "green", "my_op2": "green"}
    (told,) = document["red"]
    assert "has no attribute 'nothing'" in "\n".join(told["output"])


def test_a_package_that_cannot_be_rendered_is_red_in_every_cell(own: Path, run: Run) -> None:
    (own / "package" / ROOT / "setup.py").write_text("def (\n")
    code, out, _ = run("--template", str(own), *LIGHT, "--format", "json")
    assert code == 1
    assert red(json.loads(out)) == {(cell, "render") for cell in LEAVES}


def test_what_is_wrong_with_a_shared_file_is_red_in_every_cell(own: Path, run: Run) -> None:
    (own / "package" / ROOT / "extra.py").write_text("import os\n")
    code, out, _ = run("--template", str(own), "--tool", "ruff")
    assert code == 1
    assert "RED ruff: all of chosen: my_op, my_op_, my_op_out, my_op2" in out
    assert "extra.py:1:8: F401" in out


def test_an_op_that_check_does_not_see_is_red(own: Path, run: Run) -> None:
    path = own / "package" / ROOT / "pyproject.toml"
    path.write_text(path.read_text() + '\n[tool.opscaffold]\nexclude = ["/src/"]\n')
    code, out, _ = run("--template", str(own), "--tool", "check", "--format", "json")
    assert code == 1
    assert red(json.loads(out)) == {(cell, "check") for cell in LEAVES}


def test_packages_and_what_the_tools_said_are_kept_on_request(run: Run, tmp_path: Path) -> None:
    keep = tmp_path / "new" / "keep"
    assert run("--tool", "ruff", "--keep", str(keep), cells=("my_op",))[0] == 0
    assert (keep / "chosen" / "src" / "chosen" / "ops" / "my_op.py").is_file()
    assert "All checks passed" in (keep / "logs" / "chosen-ruff.log").read_text()
    code, _, err = run("--tool", "ruff", "--keep", str(keep), cells=("my_op",))
    assert (code, "is not empty" in err) == (2, True)


def test_tools_that_are_missing_are_named_with_what_installs_them(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        template_tools, "find_spec", lambda name: None if name in ("mypy", "torch") else name
    )
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "mypy, torch are not installed" in err
    assert "mypy, pytest, verify cannot run without: python -m pip install mypy torch" in err
    assert run("--tool", "ruff", cells=("my_op",))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--tool", "pylint"), "there is no 'pylint'"),
        (("--cell", "nothing"), "there is no 'nothing'"),
        (("--template", "nowhere"), "there is no directory nowhere"),
        (("--jobs", "0"), "--jobs"),
    ],
)
def test_wrong_usage_is_told(run: Run, arguments: tuple[str, ...], reason: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert reason in err


def slow_tool(name: str, seconds: float) -> Tool:
    statement = f"import time; time.sleep({seconds})"
    arguments = ("timeit", "-n", "1", "-r", "1", statement)
    return Tool(name, (), lambda _: arguments, lambda _, __: {}, heavy=True)


def test_an_interrupt_ends_what_runs(tmp_path: Path) -> None:
    def tell(group: str, tool: str, green: bool, seconds: float) -> None:
        if tool == "short":
            raise KeyboardInterrupt

    tools = [slow_tool("long", 100), slow_tool("short", 0)]
    made = groups("cells", leaves()[:1])
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_cells(made, tools, tmp_path, tmp_path, jobs=2, tell=tell)
    assert time.monotonic() - started < 50


def test_a_tool_that_dies_in_silence_is_red_in_every_cell(tmp_path: Path) -> None:
    tool = Tool("absent", (), lambda _: ("no_such_module_anywhere",), lambda _, __: {})
    made = groups("cells", leaves())
    result: Result = run_cells(made, [tool], tmp_path, tmp_path)
    (told,) = result.reds
    assert told.cells == LEAVES
    assert "No module named no_such_module_anywhere" in told.output[-1]


GROUP = Group("cells", leaves())


@pytest.mark.parametrize(
    ("tool", "output", "blamed"),
    [
        ("ruff", "src/cells/ops/my_op.py:1:8: F401 unused\nFound 1 error.\n", {"my_op"}),
        ("format", "Would reformat: tests/test_my_op_out.py\n1 file would be\n", {"my_op_out"}),
        (
            "format",
            (
                "unformatted: File would be reformatted\n  --> src/cells/ops/my_op.py:3:1\n - x\n"
                "unformatted: File would be reformatted\n  --> tests/test_my_op2.py:1:1\n - x\n\n"
                "2 files would be reformatted, 9 files already formatted\n"
            ),
            {"my_op", "my_op2"},
        ),
        (
            "mypy",
            "src/cells/ops/my_op_.py:3:1: error: No [x]\nsrc/cells/ops/my_op.py:1: note: y\n",
            {"my_op_"},
        ),
        (
            "pytest",
            "src/cells/ops/my_op.py:4: in f\nFAILED tests/test_my_op2.py::test_a[0-d] - my_op.py\n",
            {"my_op2"},
        ),
        (
            "pytest",
            "ERROR tests/test_my_op.py - ImportError: no\nERROR tests/conftest.py\n",
            {"my_op", ""},
        ),
        ("pytest", "Segmentation fault\n", set()),
    ],
)
def test_the_output_of_a_tool_blames_the_cell_whose_file_it_names(
    tool: str, output: str, blamed: set[str]
) -> None:
    assert set(TOOLS[tool].blame(output, GROUP)) == blamed


def test_a_finding_blames_the_cell_of_its_op_and_information_blames_none() -> None:
    def finding(op: str | None, path: str, severity: str = "error") -> dict[str, object]:
        told = {"code": "OPS701", "message": "It does.", "line": 3}
        return {**told, "op": op, "path": path, "severity": severity}

    findings = [
        finding("cells::my_op_out", "src/cells/shared.py"),
        finding(None, "src/cells/ops/my_op_.py"),
        finding("cells::my_op", "src/cells/ops/my_op.py", "info"),
        finding(None, "src/cells/__init__.py", "warning"),
    ]
    output = json.dumps({"findings": findings, "ops": []})
    for tool in ("check", "verify"):
        assert set(TOOLS[tool].blame(output, GROUP)) == {"my_op_out", "my_op_", ""}


def test_mypy_reads_the_sources_wherever_the_templates_put_them(tmp_path: Path) -> None:
    place = Place(GROUP, tmp_path, tmp_path)
    assert place.sources == "cells"
    (tmp_path / "src").mkdir()
    assert place.sources == "src"
    assert "--strict" in TOOLS["mypy"].arguments(place)


def test_the_page_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    main(["template", "check", "--help"])
    shown = capsys.readouterr().out
    page = Path(__file__).resolve().parents[2] / "docs" / "template-check.md"
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown)) - {"--help"}
    assert len(flags) > 6
    missing = [flag for flag in flags if flag not in page.read_text(encoding="utf-8")]
    assert missing == []
