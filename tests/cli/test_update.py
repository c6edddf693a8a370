"""``opscaffold update`` on real packages: what is shown, written, refused and answered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import opscaffold
from opscaffold import __version__
from opscaffold.cli.app import main
from opscaffold.scaffold.adopted import Adopted
from opscaffold.scaffold.managed import read_record, write_record
from opscaffold.scaffold.templates import ROOT, template_directory

SCALE = "some_ops::scale(Tensor x, float alpha=1.0) -> Tensor"
SOURCE = Path(opscaffold.__file__).parents[1]
KERNEL = "src/some_ops/ops/scale.py"

OURS = {
    "scale.py",
    "test_scale.py",
    "opscaffold_samples.py",
    "opscaffold_checks.py",
    "_contract.py",
}


class Update:
    """A package in the current directory, made by templates that can be changed."""

    def __init__(self, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.tree, self.capsys = tree, capsys
        self.root = tree / "some-ops"
        self.own = tree / "own"

    def make(self, *arguments: str) -> None:
        with template_directory("package") as path:
            shutil.copytree(path.parent, self.own)
        given = ["new", "some-ops", "--schema", SCALE, "--defaults", *arguments]
        assert main([*given, "--template", str(self.own)]) == 0
        self.capsys.readouterr()

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of ``opscaffold update``."""
        self.capsys.readouterr()
        code = main(["update", str(self.root), *arguments])
        out, err = self.capsys.readouterr()
        return code, out, err

    def template(self, name: str, change: Callable[[str], str]) -> None:
        path = self.own / "package" / ROOT / name
        self.change(path, change)

    def op_template(self, change: Callable[[str], str]) -> None:
        (path,) = (self.own / "op").rglob("{{cookiecutter.op.file}}.py")
        self.change(path, change)

    def edit(self, name: str, old: str, new: str) -> None:
        self.change(self.root / name, lambda text: text.replace(old, new, 1))

    @staticmethod
    def change(path: Path, change: Callable[[str], str]) -> None:
        before = path.read_text("utf-8")
        after = change(before)
        assert after != before
        path.write_text(after, "utf-8")

    def text(self, name: str) -> str:
        return (self.root / name).read_text("utf-8")

    def contents(self) -> dict[str, bytes]:
        paths = (p for p in self.root.rglob("*") if p.is_file() and ".git" not in p.parts)
        return {p.relative_to(self.root).as_posix(): p.read_bytes() for p in paths}

    def as_of_opscaffold(self) -> None:
        """Take what these templates made for what an earlier opscaffold did."""
        record = read_record(self.root)
        write_record(self.root, replace(record, origin=replace(record.origin, own="")))


@pytest.fixture
def made(tree: Path, capsys: pytest.CaptureFixture[str]) -> Update:
    update = Update(tree, capsys)
    update.make()
    return update


def lines(text: str) -> dict[str, str]:
    """The action of each file that is listed."""
    listed = (line.split("  ", 1) for line in text.splitlines() if "  " in line)
    return {rest.strip().partition(":")[0]: action.strip() for action, rest in listed}


def test_a_package_that_was_just_made_is_current(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "some-ops", "--schema", SCALE, "--defaults"]) == 0
    update = Update(tree, capsys)
    before = update.contents()
    for arguments in ([], ["--check"], ["--write"]):
        code, out, err = update.run(*arguments)
        assert code == 0
        assert "current: opscaffold would change nothing" in out + err
        assert set(lines(out + err).values()) == {"unchanged"}
    assert update.contents() == before


def test_edits_in_every_kind_of_place_outlive_an_update(made: Update) -> None:
    made.edit(KERNEL, '"""scale', '"""My scale')
    made.edit("pyproject.toml", '"hatchling>=1.25"', '"hatchling>=1.25", "ninja"')
    made.edit("README.md", "Needs torch", "Written by me.\n\nNeeds torch")
    made.edit(".gitignore", "build/\n", "build/\nmine/\n")
    made.edit("opscaffold_samples.py", '"""', '"""Mine. ')
    made.edit("tests/test_scale.py", "import torch\n", "import torch  # mine\n")
    (made.root / "mine.py").write_text("MINE = 1\n")
    (made.root / ".pre-commit-config.yaml").unlink()

    made.op_template(lambda text: text + "\n\n# From newer templates.\n")
    made.template("pyproject.toml", lambda text: text + "\n[tool.newer]\nyes = true\n")
    made.template("README.md", lambda text: text + "\nNewer words.\n")
    made.template(".gitignore", lambda text: text + "newer/\n")
    made.template(".pre-commit-config.yaml", lambda text: text + "# newer\n")
    made.template("tests/conftest.py", lambda text: text + "# newer\n")

    code, out, _ = made.run("--write")
    assert code == 0
    acted = lines(out)
    merged = {KERNEL, "pyproject.toml", "README.md", ".gitignore"}
    assert {name for name, action in acted.items() if action == "merged"} == merged
    assert acted["tests/conftest.py"] == "updated"
    assert acted[".pre-commit-config.yaml"] == "deleted"
    assert acted["tests/test_scale.py"] == acted["opscaffold_samples.py"] == "unchanged"
    assert '"""My scale' in made.text(KERNEL)
    assert made.text(KERNEL).endswith("# From newer templates.\n")
    assert '"ninja"' in made.text("pyproject.toml")
    assert "[tool.newer]" in made.text("pyproject.toml")
    assert "Written by me." in made.text("README.md")
    assert made.text("README.md").endswith("Newer words.\n")
    assert "mine/\n" in made.text(".gitignore")
    assert "newer/\n" in made.text(".gitignore")
    assert made.text("mine.py") == "MINE = 1\n"
    assert not (made.root / ".pre-commit-config.yaml").exists()

    after = made.contents()
    assert made.run("--write")[0] == made.run("--check")[0] == 0
    assert made.contents() == after


def test_the_diff_is_what_is_written(made: Update) -> None:
    made.edit("README.md", "Needs torch", "Written by me.\n\nNeeds torch")
    made.template("README.md", lambda text: text + "\nNewer words.\n")
    conftest = made.own / "package" / ROOT / "tests" / "conftest.py"
    conftest.rename(conftest.with_name("conftest_newer.py"))
    (made.own / "package" / ROOT / ".gitignore").unlink()
    script = made.own / "package" / ROOT / "tools" / "run.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    before = made.contents()
    code, diff, err = made.run()
    assert code == 0
    assert made.contents() == before
    assert lines(err)["tests/conftest.py -> tests/conftest_newer.py"] == "renamed"
    assert "4 files would be brought up to date; --write does it" in err
    copy = made.tree / "copy"
    shutil.copytree(made.root, copy)
    subprocess.run(["git", "apply", "-"], cwd=copy, input=diff.encode(), check=True)
    assert made.run("--write")[0] == 0
    ours = {name for name in made.contents() if not name.startswith(".opscaffold/")}
    assert ours == {
        p.relative_to(copy).as_posix()
        for p in copy.rglob("*")
        if p.is_file() and ".opscaffold" not in p.parts
    }
    for name in ours:
        assert (copy / name).read_bytes() == (made.root / name).read_bytes()
        bits = {(base / name).stat().st_mode & 0o100 for base in (copy, made.root)}
        assert len(bits) == 1


def conflict(made: Update) -> None:
    made.edit("README.md", "## Commands", "## My commands")
    made.template("README.md", lambda text: text.replace("## Commands", "## New commands"))
    made.template("tests/conftest.py", lambda text: text + "# newer\n")


def test_a_conflict_is_left_told_and_tried_again(made: Update) -> None:
    conflict(made)
    readme = made.text("README.md")
    for arguments in (["--write"], ["--write"], ["--check"], [], ["--write", "--quiet"]):
        code, out, err = made.run(*arguments)
        assert code == 1
        assert lines(out + err)["README.md"] == "conflict"
        assert "1 file in conflict" in out + err
        assert made.text("README.md") == readme
    # All else was updated by the first.
    assert made.text("tests/conftest.py").endswith("# newer\n")
    made.edit("README.md", "## My commands", "## Commands")
    assert made.run("--write")[0] == 0
    assert "## New commands" in made.text("README.md")


@pytest.mark.parametrize(
    ("how", "expected"), [("keep", "## My commands"), ("new", "## New commands")]
)
def test_a_chosen_side_ends_a_conflict(how: str, expected: str, made: Update) -> None:
    conflict(made)
    assert made.run("--write", "--conflict", how)[0] == 0
    assert expected in made.text("README.md")
    assert made.run("--check")[0] == 0


def test_markers_stand_where_they_were_chosen_and_are_no_success(made: Update) -> None:
    conflict(made)
    code, out, _ = made.run("--write", "--conflict", "markers")
    assert code == 1
    assert "markers are set there" in out
    assert "<<<<<<< yours\n## My commands\n" in made.text("README.md")
    code, out, _ = made.run("--check")
    assert code == 1
    assert "markers of an earlier update still stand in it: settle them by hand" in out
    assert "--conflict" not in out, "no side can be chosen here"
    text = made.text("README.md")
    kept = text[: text.index("<<<<<<< yours")] + text[text.index(">>>>>>> generated now\n") + 22 :]
    (made.root / "README.md").write_text(kept, "utf-8")
    assert made.run("--check")[0] == 0


def test_conflict_leave_is_the_default_by_name(made: Update) -> None:
    conflict(made)
    assert made.run("--write", "--conflict", "leave")[0] == 1
    assert "## My commands" in made.text("README.md")


def test_check_tells_what_would_change_and_writes_nothing(made: Update) -> None:
    made.template("README.md", lambda text: text + "\nNewer words.\n")
    before = made.contents()
    code, out, err = made.run("--check")
    assert (code, err) == (1, "")
    assert lines(out)["README.md"] == "updated"
    assert "diff --git" not in out
    assert made.contents() == before
    code, out, _ = made.run("--check", "--quiet")
    assert (code, out) == (1, "1 file would be brought up to date; --write does it\n")


def test_json_tells_the_same(made: Update) -> None:
    conflict(made)
    code, out, err = made.run("--check", "--format", "json")
    told: dict[str, Any] = json.loads(out)
    assert (code, err) == (1, "")
    assert told["package"] == str(made.root)
    assert (told["changes"], told["conflicts"]) == (1, 1)
    assert (told["current"], told["written"]) == (False, False)
    assert told["recorded"]["opscaffold"] == told["now"]["opscaffold"] == __version__
    files = {file["path"]: file for file in told["files"]}
    assert files["README.md"]["action"] == "conflict"
    assert files["README.md"]["reason"]
    assert files["tests/conftest.py"] == {
        "path": "tests/conftest.py",
        "former": None,
        "action": "updated",
        "reason": "",
        "changes": True,
    }
    code, out, _ = made.run("--write", "--format", "json")
    assert (code, json.loads(out)["written"]) == (1, True)
    code, out, _ = made.run("--format", "json", "--conflict", "new")
    assert (code, json.loads(out)["written"]) == (0, False)


def test_a_package_of_an_earlier_opscaffold_comes_up_to_date(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Update(tree, capsys)
    with template_directory("package") as path:
        shutil.copytree(path.parent, made.own)
    # What an earlier release may have had otherwise.
    made.op_template(lambda text: text.replace("Schema:\n", "Declared as:\n"))
    made.template("README.md", lambda text: text.replace("## Commands", "## How to"))
    made.template("tests/conftest.py", lambda text: text + "# dropped since\n")
    earlier = made.own / "package" / ROOT / "setup.cfg"
    earlier.write_text("[metadata]\n")
    given = ["new", "some-ops", "--schema", SCALE, "--defaults", "--template", str(made.own)]
    assert main(given) == 0
    made.as_of_opscaffold()
    made.edit(KERNEL, '"""scale', '"""My scale')
    code, out, _ = made.run("--write")
    assert code == 0
    acted = {name: action for name, action in lines(out).items() if action != "unchanged"}
    assert acted == {
        KERNEL: "merged",
        "README.md": "updated",
        "setup.cfg": "removed",
        "tests/conftest.py": "updated",
    }
    shutil.rmtree(made.own)
    expected = tree / "expected"
    assert main([*given[:-2], "-o", str(expected)]) == 0
    other = Update(expected, capsys)
    mine = made.contents() | {KERNEL: made.text(KERNEL).replace("My scale", "scale").encode()}
    assert mine == other.contents()


def test_other_answers_are_rendered_and_recorded(made: Update) -> None:
    made.edit("README.md", "## Commands", "## My commands")
    code, _, _ = made.run(
        "--write",
        "--torch-min",
        "2.10",
        "--description",
        "Other words.",
        "--registration",
        "library",
    )
    assert code == 0
    assert '"torch>=2.10"' in made.text("pyproject.toml")
    assert "Other words." in made.text("README.md")
    assert "## My commands" in made.text("README.md")
    assert "torch.library.Library" in made.text("README.md")
    package = read_record(made.root).answers.package
    assert package["torch_min"].value == "2.10"
    assert package["registration"].value == "library"
    # They are the answers from now on.
    assert made.run("--check")[0] == 0
    assert made.run("--check", "--namespace", "other")[0] == 1


def test_an_answer_that_cannot_be_used_is_refused(made: Update) -> None:
    before = made.contents()
    code, _, err = made.run("--write", "--torch-min", "1.0")
    assert code == 2
    assert "--torch-min" in err
    made.edit(".opscaffold/answers.toml", 'torch_min = "2.13"', 'torch_min = "two"')
    code, _, err = made.run("--write")
    assert code == 2
    assert "answers.toml:5" in err
    made.edit(".opscaffold/answers.toml", 'torch_min = "two"', 'torch_min = "2.13"')
    assert made.contents() == before


def test_edited_answers_are_the_answers(made: Update) -> None:
    made.edit(".opscaffold/answers.toml", 'package = "some-ops"', 'package = "other-ops"')
    made.edit(KERNEL, '"""scale', '"""My scale')
    code, out, _ = made.run("--write")
    assert code == 0
    assert lines(out)[f"{KERNEL} -> src/other_ops/ops/scale.py"] == "renamed"
    assert '"""My scale' in made.text("src/other_ops/ops/scale.py")
    assert not (made.root / "src" / "some_ops").exists()
    assert made.run("--check")[0] == 0


def test_of_an_adopted_package_only_what_is_recorded_is_updated(made: Update) -> None:
    record = read_record(made.root)
    ours = {path: file for path, file in record.files.items() if path.name in OURS}
    write_record(made.root, replace(record, files=ours, adopted=Adopted("some_ops")))
    made.op_template(lambda text: text + "\n\n# From newer templates.\n")
    made.template("README.md", lambda text: text + "\nNewer words.\n")
    made.template("tests/opscaffold_checks.py", lambda text: text + "# newer\n")
    helper = made.own / "package" / ROOT / "tests" / "helper.py"
    helper.write_text("NEW = True\n")
    code, out, _ = made.run("--write")
    assert code == 0
    assert set(lines(out)) == {path.as_posix() for path in ours}
    assert made.text(KERNEL).endswith("# From newer templates.\n")
    assert "Newer words." not in made.text("README.md")
    assert not (made.root / "tests" / "helper.py").exists()
    assert read_record(made.root).adopted == Adopted("some_ops")
    # None of these files says which torch is needed.
    code, out, _ = made.run("--check", "--quiet", "--torch-min", "2.14")
    assert (code, out) == (1, "the answers would be brought up to date; --write does it\n")
    # An op that the answers no longer name may still be imported by what its author wrote.
    made.change(made.root / ".opscaffold/answers.toml", lambda text: text[: text.index("[[op]]")])
    code, out, _ = made.run("--write")
    assert code == 0
    assert (made.root / KERNEL).is_file()
    assert made.run("--check")[0] == 0


def test_templates_that_are_gone_are_told(made: Update) -> None:
    moved = made.own.rename(made.tree / "moved")
    code, _, err = made.run("--check")
    assert code == 2
    assert f"made with the templates in {made.own}, which are not there" in err
    assert "--template DIR" in err
    assert made.run("--check", "--template", str(moved))[0] == 0
    made.change(moved / "package" / ROOT / "README.md", lambda text: text + "\nNewer words.\n")
    assert made.run("--write", "--template", str(moved))[0] == 0
    # They are recorded as being there.
    assert made.run("--check")[0] == 0


def test_templates_that_came_with_the_package_are_run_by_nobody_but_the_user(
    made: Update,
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=made.tree, check=True)
    made.template("README.md", lambda text: text + "{{ [].append(1) or '' }}\nNewer words.\n")
    code, _, err = made.run("--check")
    assert code == 2
    assert f"if you trust them, say --template {made.own}" in err
    assert made.run("--check", "--template", str(made.own))[0] == 1


def git(directory: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout


def test_uncommitted_changes_are_refused(made: Update) -> None:
    git(made.root, "init", "-q")
    made.template("README.md", lambda text: text + "\nNewer words.\n")
    before = made.contents()
    code, _, err = made.run("--write")
    assert code == 2
    assert "uncommitted changes" in err
    assert "--allow-dirty" in err
    assert made.contents() == before
    assert made.run("--check")[0] == 1
    git(made.root, "add", "-A")
    git(made.root, "commit", "-q", "-m", "made")
    assert made.run("--write")[0] == 0
    changed = set(git(made.root, "diff", "--name-only").split())
    assert changed == {"README.md", ".opscaffold/answers.toml", ".opscaffold/generated.zip"}
    # Where nothing is written, nothing is in the way.
    assert made.run("--write")[0] == 0
    made.template("README.md", lambda text: text + "\nYet newer words.\n")
    assert made.run("--write", "--allow-dirty")[0] == 0


def test_what_is_no_package_is_told_what_to_do(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["update"]) == 2
    assert "opscaffold adopt" in capsys.readouterr().err
    assert main(["update", "nowhere"]) == 2
    assert "there is no such directory" in capsys.readouterr().err


def test_usage_that_makes_no_sense_is_refused(made: Update) -> None:
    code, _, err = made.run("--write", "--check")
    assert code == 2
    assert "exclude each other" in err
    assert made.run("--conflict", "perhaps")[0] == 2


def test_a_package_is_updated_from_within(made: Update, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.root / "src" / "some_ops")
    assert main(["update", "--check"]) == 0


def test_a_machine_without_git_is_told_where_git_is_needed(
    made: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.template("README.md", lambda text: text + "\nNewer words.\n")
    monkeypatch.setenv("PATH", str(made.tree / "empty"))
    assert made.run("--check")[0] == 1
    made.edit("README.md", "## Commands", "## My commands")
    before = made.contents()
    code, _, err = made.run("--write")
    assert code == 2
    assert "install git" in err
    assert made.contents() == before


def test_broken_templates_write_nothing(made: Update) -> None:
    made.template("README.md", lambda text: text + "{{ cookiecutter.nothing }}")
    before = made.contents()
    code, _, err = made.run("--write")
    assert code == 2
    assert "make no package" in err
    assert made.contents() == before


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
class TestOnATerminal:
    """Each conflict is asked about, and nothing is written before the last answer."""

    @pytest.fixture
    def child(self, made: Update) -> Any:
        pexpect = pytest.importorskip("pexpect")
        made.edit("README.md", "## Commands", "## My commands")
        made.template("README.md", lambda text: text.replace("## Commands", "## New commands"))
        made.edit("tests/conftest.py", '"""', '"""Mine. ')
        made.template("tests/conftest.py", lambda text: text.replace('"""', '"""New. ', 1))
        child = pexpect.spawn(
            sys.executable,
            ["-m", "opscaffold", "update", str(made.root), "--write"],
            encoding="utf-8",
            timeout=60,
            dimensions=(50, 200),
            env={**os.environ, "TERM": "dumb", "PYTHONPATH": str(SOURCE)},
        )
        child.made = made
        yield child
        child.close(force=True)

    def answer(self, child: Any, text: str) -> None:
        child.expect_exact("? [k,n,m,l,d,?] (l) > ")
        child.sendline(text)

    def test_answers_decide(self, child: Any) -> None:
        import pexpect

        made: Update = child.made
        before = made.contents()
        child.expect_exact("README.md: you and the templates changed a place of it")
        self.answer(child, "what")
        child.expect_exact("k - keep yours")
        self.answer(child, "d")
        child.expect_exact("+## New commands")
        assert made.contents() == before
        self.answer(child, "n")
        child.expect_exact("tests/conftest.py: you and")
        self.answer(child, "")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 1
        assert "## New commands" in made.text("README.md")
        assert made.contents()["tests/conftest.py"] == before["tests/conftest.py"]

    def test_an_input_that_ends_leaves_all(self, child: Any) -> None:
        import pexpect

        before = child.made.contents()
        self.answer(child, "n")
        child.expect_exact("? [k,n,m,l,d,?] (l) > ")
        child.sendeof()
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 2
        assert child.made.contents() == before
