"""Which lines of a working tree differ from a revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opscaffold.errors import UserError
from opscaffold.fs.git import changed_lines, contents_at


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
    named = {p.name: None if c.lines is None else set(c.lines) for p, c in found.items()}
    return {name: lines for name, lines in named.items() if lines is None or lines}


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


@pytest.mark.parametrize(
    ("removed", "touched"),
    [
        # Within the first block, at its end, and the second block as a whole.
        ({2}, [(1, 2)]),
        ({3}, [(1, 2)]),
        ({4, 5, 6}, []),
        ({5, 6}, []),
        ({6}, [(5, 5)]),
        ({1}, []),
    ],
)
def test_removed_lines_touch_the_block_they_stood_in(
    repository: Path, removed: set[int], touched: list[tuple[int, int]]
) -> None:
    lines = ["def a():\n", "    1\n", "    2\n", "\n", "def b():\n", "    3\n"]
    commit(repository, a="".join(lines))
    left = [line for number, line in enumerate(lines, 1) if number not in removed]
    (repository / "a.py").write_text("".join(left), "utf-8")
    (found,) = changed_lines(repository, "HEAD").values()
    assert found.lines == frozenset()
    first = len([n for n in (1, 2, 3) if n not in removed])
    blocks = [(1, first), (first + 2, len(left))]
    assert [span for span in blocks if span[0] <= span[1] and found.touches(*span)] == touched


def test_a_new_file_is_touched_everywhere(repository: Path) -> None:
    commit(repository, a="1\n")
    (repository / "new.py").write_text("1\n2\n", "utf-8")
    assert changed_lines(repository, "HEAD")[repository.resolve() / "new.py"].touches(2, 2)


def test_files_are_read_as_a_revision_had_them(repository: Path) -> None:
    long = "".join(f"{n}\n" for n in range(50))
    commit(repository, same="1\n", edited="old\nü\n", gone="3\n", moved=long)
    (repository / "edited.py").write_text("new\n", "utf-8")
    (repository / "gone.py").unlink()
    (repository / "new.py").write_text("5\n", "utf-8")
    git(repository, "mv", "moved.py", "there.py")
    found = contents_at(repository, "HEAD")
    assert {path.name: data for path, data in found.contents.items()} == {
        "edited.py": "old\nü\n".encode(),
        "gone.py": b"3\n",
        "new.py": None,
        "moved.py": long.encode(),
        "there.py": None,
    }
    assert {old.name: new.name for old, new in found.moved.items()} == {"moved.py": "there.py"}


def test_a_tree_that_is_as_it_was_has_no_other_contents(repository: Path) -> None:
    commit(repository, a="1\n")
    assert contents_at(repository, "HEAD").contents == {}


def test_without_git_that_is_said(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, a="1\n")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="git is not on PATH"):
        changed_lines(repository, "HEAD")
