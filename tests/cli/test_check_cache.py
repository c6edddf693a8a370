"""A check is answered from the cache only where a new one would say the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opscaffold.cli import check_cache
from opscaffold.cli.app import main
from opscaffold.source import project

OPS = """\
import torch
from torch import Tensor
from helpers import copied


@torch.library.custom_op("cached::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return copied(x)


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)
"""
COPIES = "def copied(x):\n    return x.clone()\n"
RETURNS = "def copied(x):\n    return x\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPSCAFFOLD_CACHE_DIR", str(tmp_path / "cache"))
    # Somebody may work on opscaffold while its tests run.
    monkeypatch.setattr(check_cache, "_own_code", lambda: [("state", 1, 1)])
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "pyproject.toml").write_text("")
    (tree / "ops.py").write_text(OPS)
    (tree / "helpers.py").write_text(COPIES)
    return tree


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one whenever a project is really read."""
    counted: list[int] = []
    load = project.load_project

    def counting(*args, **options):
        counted.append(1)
        return load(*args, **options)

    monkeypatch.setattr(project, "load_project", counting)
    return counted


def check(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["check", *map(str, arguments)])
    return code, capfd.readouterr().out


@pytest.mark.parametrize("output_format", ["text", "concise", "json", "sarif", "github"])
def test_a_second_check_says_the_same_and_reads_no_project(tree, loads, capfd, output_format):
    (tree / "helpers.py").write_text(RETURNS)
    first = check(capfd, tree, "--format", output_format)
    assert first == check(capfd, tree, "--format", output_format)
    assert first[0] == 1
    assert len(loads) == 1
    assert first == check(capfd, tree, "--format", output_format, "--no-cache")
    assert len(loads) == 2


def test_an_edit_of_another_file_that_a_finding_depends_on_is_seen(tree, loads, capfd):
    assert check(capfd, tree)[0] == 0
    (tree / "helpers.py").write_text(RETURNS)
    code, found = check(capfd, tree)
    assert code == 1
    assert "returns-input" in found
    (tree / "helpers.py").write_text(COPIES)
    assert check(capfd, tree)[0] == 0
    assert len(loads) == 2


def test_an_edit_that_leaves_size_and_time_alone_is_seen(tree, capfd):
    ops = tree / "ops.py"
    before = ops.stat()
    assert check(capfd, tree)[0] == 0
    ops.write_text(OPS.replace("copied(x)", "x  #######"))
    assert ops.stat().st_size == before.st_size + len("x  #######") - len("copied(x)")
    ops.write_text(OPS.replace("copied(x)", "x  ######"))
    os.utime(ops, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ops.stat().st_size == before.st_size
    assert check(capfd, tree)[0] == 1


def test_options_paths_and_configuration_have_entries_of_their_own(tree, loads, capfd):
    (tree / "helpers.py").write_text(RETURNS)
    assert check(capfd, tree)[0] == 1
    assert check(capfd, tree, "--ignore", "ALL")[0] == 0
    assert check(capfd, tree / "helpers.py")[0] == 0
    (tree / "pyproject.toml").write_text('[tool.opscaffold]\nignore = ["ALL"]\n')
    assert check(capfd, tree)[0] == 0
    assert check(capfd, tree, "--exit-zero", "--select", "ALL")[0] == 0
    assert check(capfd, tree, "--select", "ALL")[0] == 1
    assert len(loads) == 5


def test_new_and_lost_files_are_seen(tree, loads, capfd):
    check(capfd, tree)
    (tree / "more.py").write_text(OPS.replace("copied(x)", "x"))
    assert check(capfd, tree)[0] == 1
    (tree / "more.py").unlink()
    assert check(capfd, tree)[0] == 0
    assert len(loads) == 2


def test_compiled_sources_beside_the_files_are_seen(tree, capfd):
    (tree / "use.py").write_text("import torch\n\ntorch.ops.cached.thrice(1)\n")
    assert check(capfd, tree)[0] == 1
    (tree / "csrc" / "deep").mkdir(parents=True)
    (tree / "csrc" / "deep" / "ops.cu").write_text("")
    assert check(capfd, tree)[0] == 0


def test_a_place_that_cannot_be_written_breaks_nothing(tree, tmp_path, monkeypatch, loads, capfd):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OPSCAFFOLD_CACHE_DIR", str(tmp_path / "file"))
    assert check(capfd, tree) == check(capfd, tree)
    assert len(loads) == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b'{"format": 0}'])
def test_a_damaged_entry_is_replaced(tree, tmp_path, loads, capfd, damage):
    first = check(capfd, tree)
    (entry,) = (tmp_path / "cache").rglob("*.json")
    entry.write_bytes(damage)
    assert check(capfd, tree) == first
    assert check(capfd, tree) == first
    assert len(loads) == 2


def test_no_cache_leaves_no_entry(tree, tmp_path, capfd):
    check(capfd, tree, "--no-cache")
    assert not (tmp_path / "cache").exists()


def test_without_a_directory_nothing_is_kept(tree, monkeypatch, loads, capfd):
    monkeypatch.setenv("OPSCAFFOLD_CACHE_DIR", "")
    check(capfd, tree)
    check(capfd, tree)
    assert len(loads) == 2


def test_another_state_of_opscaffold_itself_has_entries_of_its_own(tree, loads, capfd, monkeypatch):
    check(capfd, tree)
    monkeypatch.setattr(check_cache, "_own_code", lambda: [("state", 1, 2)])
    check(capfd, tree)
    assert len(loads) == 2


def test_what_was_used_longest_ago_makes_room(tree, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("opscaffold.cli.check_cache._MOST_ENTRIES", 2)
    for number in range(4):
        (tree / "more.py").write_text(f"x = {number}\n")
        check(capfd, tree)
    assert len(list((tmp_path / "cache").rglob("*.json"))) == 2


def test_a_change_while_the_check_runs_is_not_kept_under_the_old_contents(
    tree, loads, capfd, monkeypatch
):
    # Of files too large to be held, only what was hashed is known.
    monkeypatch.setattr("opscaffold.source.tree.KEPT", 0)
    load = project.load_project

    def edited_meanwhile(*args, **options):
        (tree / "helpers.py").write_text(RETURNS)
        return load(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(project, "load_project", edited_meanwhile)
        check(capfd, tree)
    (tree / "helpers.py").write_text(COPIES)
    assert check(capfd, tree)[0] == 0
