from __future__ import annotations

import os
import stat
import subprocess
import textwrap
from pathlib import Path

import pytest
from migrate_runs import CALLER, CLEAN, OPS, REPORTED, Run, commit, contents, git, write


def test_default_prints_a_diff_and_writes_nothing(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, caller=CALLER)
    before = contents(tree)
    run = Run(capsysbinary)
    assert run.code == 0
    assert run.out.startswith(b"diff --git a/caller.py b/caller.py\n")
    assert b"+    return double_out(x, out=buf)\n" in run.out
    assert "demo::double: would be split into demo::double and demo::double_out" in run.err
    assert "(1 call site)" in run.err
    assert "1 ops read, 1 would change in 2 files, 0 left as they are" in run.err
    assert "cached" not in run.err
    assert contents(tree) == before


def test_stdout_holds_the_diff_and_nothing_else(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, reported=REPORTED)
    run = Run(capsysbinary)
    assert run.code == 1
    lines = run.out.decode().splitlines()
    assert all(line[:1] in "d-+@ " for line in lines)
    assert "reported.py:9:5: OPS101 maybe-out:" in run.err


def test_write_applies_and_says_how_to_clear_compile_caches(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, caller=CALLER)
    run = Run(capsysbinary, "--write")
    assert (run.code, run.out) == (0, b"")
    assert "from ops import double, double_out" in (tree / "caller.py").read_text("utf-8")
    assert '"demo::double_out"' in (tree / "ops.py").read_text("utf-8")
    assert "demo::double: split into" in run.err
    assert "would" not in run.err
    assert "TORCHINDUCTOR_CACHE_DIR" in run.err
    after = contents(tree)
    again = Run(capsysbinary, "--write")
    assert (again.code, again.out) == (0, b"")
    assert "TORCHINDUCTOR_CACHE_DIR" not in again.err
    assert contents(tree) == after


def test_check_says_by_its_exit_code_whether_anything_would_change(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS)
    before = contents(tree)
    run = Run(capsysbinary, "--check")
    assert (run.code, run.out) == (1, b"")
    assert contents(tree) == before
    Run(capsysbinary, "--write")
    assert Run(capsysbinary, "--check").code == 0


def test_breaches_that_remain_are_exit_1_whatever_was_asked(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, reported=REPORTED)
    for flags in ([], ["--check"], ["--write"]):
        run = Run(capsysbinary, *flags)
        assert (run.code, run.out) == (1, b"")
        assert "1 left as they are" in run.err


def test_nothing_to_do_is_exit_0(tree: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write(tree, clean=CLEAN)
    for flags in ([], ["--check"], ["--write"]):
        run = Run(capsysbinary, *flags)
        assert (run.code, run.out) == (0, b"")
    assert "1 ops read, 0 changed in 0 files, 0 left as they are" in run.err


def test_no_python_at_all_is_exit_0(tree: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    run = Run(capsysbinary)
    assert (run.code, run.out) == (0, b"")
    assert "0 ops read" in run.err


def test_write_and_check_exclude_each_other(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS)
    run = Run(capsysbinary, "--write", "--check")
    assert run.code == 2
    assert "exclude each other" in run.err
    assert contents(tree) == {"ops.py": OPS.encode()}


@pytest.mark.parametrize("arguments", [["missing.py"], ["ops.py", "gone"], ["--root", "nowhere"]])
def test_path_that_does_not_exist_is_a_mistake_in_usage(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], arguments: list[str]
) -> None:
    write(tree, ops=OPS)
    run = Run(capsysbinary, *arguments, "--write")
    assert run.code == 2
    assert arguments[-1] in run.err
    assert contents(tree) == {"ops.py": OPS.encode()}


@pytest.mark.parametrize("change", ["edit", "stage", "untracked"])
def test_dirty_tree_is_refused_and_nothing_is_written(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], change: str
) -> None:
    write(tree, ops=OPS, caller=CALLER, other="A = 1\n")
    commit(tree)
    if change == "untracked":
        write(tree, new="B = 2\n")
    else:
        write(tree, other="A = 2\n")
    if change == "stage":
        git(tree, "add", ".")
    before = contents(tree)
    run = Run(capsysbinary, "--write")
    assert run.code == 2
    assert "uncommitted changes" in run.err
    assert ("new.py" if change == "untracked" else "other.py") in run.err
    assert "--allow-dirty" in run.err
    assert contents(tree) == before
    assert Run(capsysbinary).code == 0
    allowed = Run(capsysbinary, "--write", "--allow-dirty")
    assert allowed.code == 0
    assert "double_out" in (tree / "ops.py").read_text("utf-8")


def test_several_dirty_files_are_counted(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS)
    commit(tree)
    write(tree, a="A = 1\n", b="B = 1\n", c="C = 1\n")
    assert "a.py and 2 other files have" in Run(capsysbinary, "--write").err


def test_dirty_tree_does_not_matter_where_nothing_changes(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, clean=CLEAN)
    commit(tree)
    write(tree, other="A = 2\n")
    assert Run(capsysbinary, "--write").code == 0


def test_clean_tree_is_written_without_a_flag(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS)
    (tree / ".gitignore").write_text("ignored.py\n", "utf-8")
    commit(tree)
    write(tree, ignored="A = 1\n")
    assert Run(capsysbinary, "--write").code == 0
    assert git(tree, "status", "--porcelain").split() == ["M", "ops.py"]


def test_printed_diff_is_what_git_applies(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, pkg__ops=OPS, pkg__other=CLEAN, caller=CALLER.replace("ops", "pkg.ops"))
    commit(tree)
    diff = Run(capsysbinary).out
    subprocess.run(["git", "apply", "--check"], cwd=tree, input=diff, check=True)
    subprocess.run(["git", "apply"], cwd=tree, input=diff, check=True)
    applied = contents(tree)
    git(tree, "checkout", "-q", ".")
    assert Run(capsysbinary, "--write").code == 0
    assert contents(tree) == applied


def test_diff_is_relative_to_the_repository_wherever_the_command_runs(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, pkg__ops=OPS)
    commit(tree)
    monkeypatch.chdir(tree / "pkg")
    assert Run(capsysbinary, "ops.py").out.startswith(b"diff --git a/pkg/ops.py b/pkg/ops.py\n")


def test_unreadable_files_are_findings_and_stop_nothing(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, broken="import torch\n\ntorch.library.custom_op(\n")
    (tree / "nul.py").write_bytes(b"import torch.library\n\0\n")
    (tree / "coded.py").write_bytes(b"# coding: no-such-codec\nimport torch.library\n")
    run = Run(capsysbinary, "--write")
    assert run.code == 1
    for name in ("broken.py:3", "nul.py:2", "coded.py:1"):
        assert f"{name}:" in run.err
    assert run.err.count("OPS001 unreadable") == 3
    assert "double_out" in (tree / "ops.py").read_text("utf-8")


def test_unreadable_file_that_mentions_no_op_is_not_worth_a_word(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, template="{{ cookiecutter }} is no Python (\n")
    run = Run(capsysbinary)
    assert run.code == 0
    assert "template.py" not in run.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission_is_a_finding(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, secret=OPS)
    (tree / "secret.py").chmod(0)
    run = Run(capsysbinary, "ops.py", "secret.py")
    assert run.code == 1
    assert "secret.py:1:1: OPS001" in run.err


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o664])
def test_file_permissions_are_kept(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes], mode: int
) -> None:
    write(tree, ops=OPS)
    (tree / "ops.py").chmod(mode)
    assert Run(capsysbinary, "--write").code == 0
    assert stat.S_IMODE((tree / "ops.py").stat().st_mode) == mode
    assert sorted(path.name for path in tree.iterdir()) == ["ops.py"]


def test_only_ops_of_the_paths_are_migrated_but_all_their_call_sites(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    other = OPS.replace("double", "halve")
    write(tree, one__ops=OPS, two__ops=other, app__caller=CALLER.replace("ops", "one.ops"))
    (tree / "pyproject.toml").write_text("", "utf-8")
    run = Run(capsysbinary, "one", "--write")
    assert run.code == 0
    assert "1 changed in 2 files" in run.err
    assert (tree / "two" / "ops.py").read_text("utf-8") == other
    assert "double_out(x, out=buf)" in (tree / "app" / "caller.py").read_text("utf-8")


def test_several_paths(tree: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write(tree, a=OPS, b=OPS.replace("double", "halve"), c=OPS.replace("double", "third"))
    run = Run(capsysbinary, "a.py", "b.py", "a.py", "--write")
    assert run.code == 0
    assert "2 ops read, 2 changed in 2 files" in run.err
    assert "third_out" not in (tree / "c.py").read_text("utf-8")


def test_root_says_where_call_sites_are_searched(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    use = CALLER.replace("from ops import double\n", "import torch\n").replace(
        "double(", "torch.ops.demo.double("
    )
    write(tree, lib__ops=OPS, outside=use, lib__inside=use)
    (tree / "lib" / "pyproject.toml").write_text("", "utf-8")
    narrow = Run(capsysbinary, "lib")
    assert b"inside.py" in narrow.out
    assert b"outside.py" not in narrow.out
    wide = Run(capsysbinary, "lib", "--root", ".", "--write")
    assert wide.code == 0
    assert "torch.ops.demo.double_out(x, out=buf)" in (tree / "outside.py").read_text("utf-8")


def test_excluded_files_are_neither_read_nor_changed(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS, caller=CALLER, old__ops=OPS, vendored__ops=OPS.replace("double", "v"))
    write(tree, old__broken="torch.library.custom_op(\n")
    run = Run(capsysbinary, "--exclude", "old/", "--exclude", "vend*", "--write")
    assert run.code == 0
    assert "1 ops read" in run.err
    assert (tree / "old" / "ops.py").read_text("utf-8") == OPS
    assert "double_out" in (tree / "caller.py").read_text("utf-8")


def test_documents_are_rewritten_with_the_op(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, ops=OPS)
    text = """\
        ```python
        from ops import double

        double(torch.ones(2), out=torch.empty(2))
        ```
    """
    (tree / "README.md").write_text(textwrap.dedent(text), "utf-8")
    assert Run(capsysbinary, "--write").code == 0
    after = (tree / "README.md").read_text("utf-8")
    assert "from ops import double, double_out\n" in after
    assert "double_out(torch.ones(2), out=torch.empty(2))\n" in after


def test_directory_with_spaces_and_odd_names(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = tree / "a dir" / "größe"
    root.mkdir(parents=True)
    (root / "my ops.py").write_text(OPS, "utf-8")
    commit(tree)
    diff = Run(capsysbinary, root).out
    subprocess.run(["git", "apply"], cwd=tree, input=diff, check=True)
    assert "double_out" in (root / "my ops.py").read_text("utf-8")


def test_symlinked_file_is_changed_in_its_place(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tree, real__ops=OPS)
    (tree / "link.py").symlink_to("real/ops.py")
    run = Run(capsysbinary, "link.py", "--root", ".", "--write")
    assert run.code == 0
    assert (tree / "link.py").is_symlink()
    assert "double_out" in (tree / "real" / "ops.py").read_text("utf-8")


def test_nothing_that_is_read_is_run(
    tree: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    trap = 'open("trap", "w").close()\n'
    write(tree, ops=trap + OPS, conftest=trap, setup=trap, caller=trap + CALLER)
    assert Run(capsysbinary, "--write").code == 0
    assert not (tree / "trap").exists()
