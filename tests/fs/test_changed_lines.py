"""Which lines of a working tree differ from a revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opscaffold.errors import UserError
from opscaffold.fs.git import changed_lines


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


def commit(repository: Path, **files: str) -> None:
    for name, text in files.items():
        (repository / f"{name}.py").write_text(text, "utf-8")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "m")


def changed(repository: Path, revision: str = "HEAD") -> dict[str, set[int] | None]:
    found = changed_lines(repository, revision)
    return {p.name: None if lines is None else set(lines) for p, lines in found.items()}


def test_changed_and_added_lines_count_and_removed_ones_do_not(repository: Path) -> None:
    commit(repository, a="1\n2\n3\n4\n5\n", b="1\n2\n", c="1\n")
    (repository / "a.py").write_text("1\ntwo\n3\n4\n5\n6\n7\n", "utf-8")
    (repository / "b.py").write_text("2\n", "utf-8")
    (repository / "c.py").unlink()
    assert changed(repository) == {"a.py": {2, 6, 7}}


def test_a_line_that_looks_like_a_header_is_none(repository: Path) -> None:
    commit(repository, a="-- a/x\n++ b/y\n1\n")
    (repository / "a.py").write_text("-- b/z\n++ b/q\n@@ -1 +9 @@\n", "utf-8")
    assert changed(repository) == {"a.py": {1, 2, 3}}


@pytest.mark.parametrize("name", ["with space.py", 'quo"te.py', "tab\t.py", "ünï.py", "b\\s.py"])
def test_any_file_name_comes_through(repository: Path, name: str) -> None:
    (repository / name).write_text("1\n", "utf-8")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "m")
    (repository / name).write_text("1\n2\n", "utf-8")
    assert changed(repository) == {name: {2}}


def test_untracked_files_are_new_as_a_whole_and_ignored_ones_are_not(repository: Path) -> None:
    commit(repository, a="1\n")
    (repository / ".git" / "info" / "exclude").write_text("ignored.py\n", "utf-8")
    (repository / "new.py").write_text("1\n", "utf-8")
    (repository / "ignored.py").write_text("1\n", "utf-8")
    assert changed(repository) == {"new.py": None}


def test_a_moved_file_is_compared_with_itself(repository: Path) -> None:
    commit(repository, a="".join(f"{n}\n" for n in range(50)))
    git(repository, "mv", "a.py", "b.py")
    with (repository / "b.py").open("a", encoding="utf-8") as stream:
        stream.write("more\n")
    assert changed(repository) == {"b.py": {51}}


def test_the_user_s_configuration_changes_nothing(repository: Path) -> None:
    commit(repository, a="1\n")
    for key, value in (
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("color.ui", "always"),
        ("diff.external", "false"),
    ):
        git(repository, "config", key, value)
    (repository / "a.py").write_text("2\n", "utf-8")
    assert changed(repository) == {"a.py": {1}}


@pytest.mark.parametrize("revision", ["nothing", "", "--help", "-p", "HEAD~99", "a b"])
def test_a_revision_that_is_not_is_refused(repository: Path, revision: str) -> None:
    commit(repository, a="1\n")
    with pytest.raises(UserError, match="knows no revision"):
        changed_lines(repository, revision)


def test_without_a_repository_there_is_no_revision(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no git repository"):
        changed_lines(tmp_path, "HEAD")
