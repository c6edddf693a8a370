from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from opscaffold.source.files import find_documents, find_files, find_root, without_excluded


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")


def found(root: Path, *paths: Path, exclude: tuple[str, ...] = ()) -> list[str]:
    files = find_files(paths or (root,), root, exclude=exclude)
    return [file.relative_to(root).as_posix() for file in files]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def repository(root: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def add(repository: Path, *names: str) -> None:
    subprocess.run(["git", "-C", str(repository), "add", "-f", *names], check=True)


def test_without_git_ignore_files_are_honoured_level_by_level(root):
    make(root, "a.py", "b.py", "gen/c.py", "sub/d.py", "sub/keep.py", "sub/deep/e.py", "n.pyi")
    (root / ".gitignore").write_text("b.py\n/gen/\nkeep.py\n")
    (root / "sub/.gitignore").write_text("!keep.py\ndeep/\n")
    assert found(root) == ["a.py", "sub/d.py", "sub/keep.py"]


@pytest.mark.parametrize(
    "directory", [".venv", "node_modules", "__pycache__", "build", ".tox", "own-env", "x/.git"]
)
def test_what_is_no_source_is_skipped(root, directory):
    make(root, "a.py", f"{directory}/b.py")
    (root / "own-env").mkdir(exist_ok=True)
    (root / "own-env/pyvenv.cfg").write_text("")
    assert found(root) == ["a.py"]


def test_git_says_what_belongs_to_the_tree(repository):
    make(repository, "tracked.py", "new.py", "ignored.py", "forced.py", "build/a.py", "gone.py")
    make(repository, "dist/b.py", ".venv/c.py", "name with\nnewline.py")
    (repository / ".gitignore").write_text("ignored.py\nforced.py\n")
    add(repository, "tracked.py", "forced.py", "build/a.py", "gone.py", ".venv/c.py")
    (repository / "gone.py").unlink()
    assert found(repository) == [
        "build/a.py",
        "forced.py",
        "name with\nnewline.py",
        "new.py",
        "tracked.py",
    ]


def test_an_ignored_directory_is_read_when_it_is_named(repository):
    make(repository, "a.py", "gen/b.py")
    (repository / ".gitignore").write_text("gen/\n")
    assert found(repository) == ["a.py"]
    assert found(repository, repository / "gen") == ["gen/b.py"]


def test_files_named_by_themselves_are_always_taken(repository):
    make(repository, "a.py", "stub.pyi", "script", "skip/b.py")
    (repository / ".gitignore").write_text("a.py\n")
    named = [repository / name for name in ("a.py", "stub.pyi", "script", "skip/b.py")]
    assert found(repository, *named, exclude=("skip/",)) == [
        "a.py",
        "script",
        "skip/b.py",
        "stub.pyi",
    ]


def test_named_files_can_be_left_out_where_they_are_excluded(repository):
    make(repository, "a.py", "skip/b.py", "skip/c/d.py")
    named = [repository / name for name in ("a.py", "skip/b.py", "skip")]
    assert without_excluded(named, repository, ("skip/",)) == [
        repository / "a.py",
        repository / "skip",
    ]
    assert without_excluded(named, repository, ()) == named
    outside = repository.parent / "skip" / "e.py"
    assert without_excluded([outside], repository, ("skip/",)) == [outside]


def test_nested_repositories_are_read_too(repository):
    make(repository, "a.py", "inner/b.py", "inner/hidden.py")
    subprocess.run(["git", "init", "-q", str(repository / "inner")], check=True)
    (repository / "inner/.gitignore").write_text("hidden.py\n")
    assert found(repository) == ["a.py", "inner/b.py"]


@pytest.mark.parametrize(
    "pattern", ["third_party/", "third_party/**", "*/vendored.py", "third_party"]
)
def test_excluded_files_are_left_out(root, pattern):
    make(root, "a.py", "third_party/vendored.py")
    assert found(root, exclude=(pattern,)) == ["a.py"]


@pytest.mark.parametrize("with_git", [False, True])
def test_symlinks_out_of_the_root_are_not_followed(root, with_git):
    outside, inside = root / "outside", root / "inside"
    make(outside, "secret.py", "package/x.py")
    make(inside, "a.py")
    (inside / "file.py").symlink_to(outside / "secret.py")
    (inside / "package").symlink_to(outside / "package")
    (inside / "again.py").symlink_to(inside / "a.py")
    (inside / "loop").symlink_to(inside)
    (inside / "dangling.py").symlink_to(inside / "nothing.py")
    if with_git:
        subprocess.run(["git", "init", "-q", str(inside)], check=True)
    assert found(inside) == ["a.py"]


def test_git_is_not_started_where_no_repository_can_be(repository, tmp_path_factory, monkeypatch):
    make(repository, "sub/a.py")
    outside = tmp_path_factory.mktemp("outside")
    make(outside, "a.py")
    if any((parent / ".git").exists() for parent in outside.parents):
        pytest.skip("the temporary directory is in a repository")
    asked = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: asked.append(a) or run(*a, **k))
    assert (find_root([outside]), found(outside)) == (outside, ["a.py"])
    assert asked == []
    assert find_root([repository / "sub"]) == repository
    assert asked


def test_a_hook_environment_does_not_mislead(repository, monkeypatch, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    make(repository, "sub/a.py")
    assert find_root([repository / "sub"]) == repository
    assert found(repository) == ["sub/a.py"]


def test_documents_are_markdown(root):
    make(root, "README.md", "docs/a.markdown", "b.py", "c.txt")
    names = [path.relative_to(root).as_posix() for path in find_documents([root], root)]
    assert names == ["README.md", "docs/a.markdown"]


@pytest.mark.parametrize("marker", ["pyproject.toml", "setup.py", "setup.cfg"])
def test_the_root_is_the_nearest_project(root, marker):
    make(root, "p/src/pkg/a.py", "p/src/pkg/b.py")
    (root / "p" / marker).write_text("")
    assert find_root([root / "p/src/pkg/a.py"]) == root / "p"
    assert find_root([root / "p/src", root / "p/src/pkg/b.py"]) == root / "p"


def test_the_root_of_bare_files_is_what_they_share(root):
    make(root, "d/x/a.py", "d/y/b.py")
    assert find_root([root / "d/x/a.py", root / "d/y/b.py"]) == root / "d"
    assert find_root([root / "d/x/a.py"]) == root / "d/x"
    assert find_root([root / "d/gone/a.py"]) == root / "d"


def test_no_paths_mean_the_current_directory(root, monkeypatch):
    monkeypatch.chdir(root)
    assert find_root([]) == root


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_directory_is_passed_over(root):
    make(root, "a.py", "locked/b.py")
    (root / "locked").chmod(0)
    try:
        assert found(root) == ["a.py"]
    finally:
        (root / "locked").chmod(0o700)
