"""What ``check`` is given to write to and to read, and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import BREACH, CLEAN, Checker


def unchanged(project: Checker, name: str, *arguments: str) -> str:
    """Stderr of a run that exits with 2 and leaves a file as it is."""
    path = project.directory / name
    before = path.read_bytes()
    code, out, err = project.run(*arguments)
    assert (code, out) == (2, "")
    assert path.read_bytes() == before
    return err


@pytest.mark.parametrize("flag", [["-o"], ["--list-ops", "-o"], ["--write-baseline", "--baseline"]])
@pytest.mark.parametrize("name", ["ops.py", "other.py", "pyproject.toml", "a.ipynb", "a.pyi"])
def test_what_people_write_is_not_overwritten(project: Checker, name: str, flag: list[str]) -> None:
    for each in ("ops.py", "other.py"):
        project.write(each, CLEAN)
    project.write("a.ipynb", "{}")
    project.write("a.pyi", "x: int\n")
    assert name in unchanged(project, name, "ops.py", *flag, name)


def test_a_link_to_a_source_is_one_too(project: Checker) -> None:
    project.write("ops.py", CLEAN)
    (project.directory / "report.txt").symlink_to("ops.py")
    unchanged(project, "ops.py", "-o", "report.txt")


@pytest.mark.parametrize("text", ["words\n", '{"name": "package", "version": 1}', "[1]", "\xff"])
def test_a_baseline_does_not_take_the_place_of_another_file(project: Checker, text: str) -> None:
    project.write("ops.py", BREACH)
    project.write("data.json", text)
    err = unchanged(project, "data.json", "--baseline", "data.json", "--write-baseline")
    assert "data.json is there, and is no baseline" in err


@pytest.mark.parametrize("text", ["", "\n", '{"version": 0, "findings": 3}', '{"version": 1}'])
def test_a_baseline_takes_the_place_of_an_older_one(project: Checker, text: str) -> None:
    project.write("ops.py", BREACH)
    project.write("known.json", text)
    assert project.run("--baseline", "known.json", "--write-baseline")[0] == 0
    assert project.run("--baseline", "known.json")[0] == 0


def test_a_report_takes_the_place_of_an_older_one(project: Checker) -> None:
    project.write("ops.py", BREACH)
    project.write("report.txt", "old\n")
    assert project.run("-o", "report.txt")[0] == 1
    assert "OPS101" in (project.directory / "report.txt").read_text("utf-8")


def test_a_report_does_not_take_the_place_of_the_baseline(project: Checker) -> None:
    project.write("ops.py", BREACH)
    project.run("--baseline", "known.json", "--write-baseline")
    unchanged(project, "known.json", "--baseline", "known.json", "-o", "./known.json")


def test_a_dash_is_stdout_and_no_baseline(project: Checker) -> None:
    project.write("ops.py", BREACH)
    assert project.run("-o", "-") == project.run()
    assert project.run("--baseline", "-", "--write-baseline")[0] == 2
    assert not (project.directory / "-").exists()


@pytest.mark.parametrize("more", [["-o", "report.txt"], ["--list-ops"]])
def test_writing_a_baseline_reports_nothing_else(project: Checker, more: list[str]) -> None:
    project.write("ops.py", BREACH)
    assert project.run("--baseline", "known.json", "--write-baseline", *more)[0] == 2
    assert sorted(p.name for p in project.directory.iterdir()) == ["ops.py", "pyproject.toml"]


@pytest.mark.parametrize("given", ["", " , ", ",,"])
def test_selecting_nothing_is_refused(project: Checker, given: str) -> None:
    project.write("ops.py", BREACH)
    code, out, err = project.run("--select", given)
    assert (code, out) == (2, "")
    assert "--select names no rule" in err
    assert project.run("--ignore", given)[0] == 1


def test_links_that_lead_to_themselves_are_passed_over(project: Checker) -> None:
    project.write("ops.py", BREACH)
    for name, target in (("a.py", "a.py"), ("b.py", "c.py"), ("c.py", "b.py"), ("d", "d")):
        (project.directory / name).symlink_to(target)
    (project.directory / "sub").mkdir()
    (project.directory / "sub" / "up").symlink_to("..")
    assert project.found("--select", "OPS101") == [("ops.py", 6, "OPS101")]
    assert project.run("--list-ops")[0] == 0
    code, _, err = project.run("a.py")
    assert code == 2
    assert "a.py" in err
    assert project.run("-o", "a.py")[0] == 2
    assert (project.directory / "a.py").is_symlink()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('select = [\n  "OPS1",\n  "OPS9",\n]\n', 4),
        ('ignore = ["OPS1",\n"OPS9"]\n', 3),
        ('[per-file-ignores]\n"*.pyi" = ["OPS1"]\n"b.py" = [\n"OPS9"]\n', 5),
    ],
)
def test_an_unknown_rule_is_shown_where_it_stands(project: Checker, text: str, line: int) -> None:
    project.write("ops.py", BREACH)
    (project.directory / "pyproject.toml").unlink()
    project.write("opscaffold.toml", "# configured\n" + text)
    code, _, err = project.run()
    assert code == 2
    assert f"opscaffold.toml:{line}: " in err
    assert "'OPS9'" in err


def test_the_word_for_a_missing_git_is_not_that_of_a_missing_repository(
    project: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("ops.py", BREACH)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    code, _, err = project.run("--diff-base", "HEAD")
    assert code == 2
    assert "git is not on PATH" in err
