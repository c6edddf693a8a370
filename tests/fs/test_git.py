from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from opscaffold.fs.git import GitError, dirty_files, toplevel


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = (tmp_path / "a repo").resolve()
    (root / "sub").mkdir(parents=True)
    git(root, "init", "-q")
    (root / ".gitignore").write_text("ignored*\n")
    for name in ("one.py", "sub/two é.py", "sub/three.py"):
        (root / name).write_text("x = 1\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


def test_a_committed_tree_is_clean(repository: Path) -> None:
    assert dirty_files(repository) == []
    assert dirty_files(repository / "sub") == []


def test_the_top_is_found_from_a_file_and_a_directory(repository: Path) -> None:
    assert toplevel(repository / "sub") == repository
    assert toplevel(repository / "sub" / "three.py") == repository


def test_changed_staged_renamed_and_new_files_count(repository: Path) -> None:
    (repository / "one.py").write_text("x = 2\n")
    git(repository, "mv", "sub/two é.py", "sub/moved\n.py")
    (repository / "sub" / "new.py").touch()
    (repository / "ignored.py").touch()
    assert dirty_files(repository) == [
        repository / "one.py",
        repository / "sub" / "moved\n.py",
        repository / "sub" / "new.py",
        repository / "sub" / "two é.py",
    ]


def test_paths_narrow_the_question(repository: Path) -> None:
    (repository / "one.py").write_text("x = 2\n")
    (repository / "sub" / "new.py").touch()
    assert dirty_files(repository, [repository / "sub"]) == [repository / "sub" / "new.py"]
    assert dirty_files(repository, [repository / "sub" / "three.py"]) == []


def test_a_named_ignored_file_counts(repository: Path) -> None:
    path = repository / "ignored.py"
    path.touch()
    assert dirty_files(repository, [path]) == [path]
    assert dirty_files(repository, [repository]) == []


def test_a_name_that_looks_like_a_pattern_is_a_name(repository: Path) -> None:
    (repository / "one.py").write_text("x = 2\n")
    (repository / "sub" / "*.py").touch()
    starred = repository / "sub" / "*.py"
    assert dirty_files(repository, [starred]) == [starred]


def test_without_a_repository_nothing_is_dirty(tmp_path: Path) -> None:
    (tmp_path / "f.py").touch()
    assert toplevel(tmp_path) is None
    assert dirty_files(tmp_path, [tmp_path / "f.py"]) == []
    assert dirty_files(tmp_path) == []


def test_without_git_nothing_is_dirty(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "one.py").write_text("x = 2\n")
    monkeypatch.setenv("PATH", os.fspath(repository))
    assert toplevel(repository) is None
    assert dirty_files(repository) == []


def test_a_hooks_environment_does_not_mislead(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "one.py").write_text("x = 2\n")
    monkeypatch.setenv("GIT_DIR", os.fspath(tmp_path / "elsewhere"))
    assert dirty_files(repository) == [repository / "one.py"]


def test_a_repository_git_cannot_read_is_an_error(repository: Path) -> None:
    (repository / ".git" / "config").write_text("[core\n")
    with pytest.raises(GitError, match="cannot read the repository"):
        toplevel(repository)
