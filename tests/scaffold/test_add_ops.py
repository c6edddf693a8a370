"""Ops added to a package: what was generated for them at once, and nothing of the author's lost."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from generated import BROADCAST, op, package, pytest_in, require, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opscaffold.fs import journal
from opscaffold.fs.atomic import Staged, WriteError
from opscaffold.scaffold.add import CannotAddError, plan_addition
from opscaffold.scaffold.add_names import NameTakenError
from opscaffold.scaffold.add_write import write_addition
from opscaffold.scaffold.answers import op_names
from opscaffold.scaffold.managed import read_record
from opscaffold.scaffold.matrix_ops import UNUSUAL, grid
from opscaffold.scaffold.render import render_package
from opscaffold.scaffold.spec import KernelLanguage, OpSpec, Registration

SCALE = op("ns::scale(Tensor x, float alpha=1.0) -> Tensor")
SHIFT = op("ns::shift_(Tensor(a!) x, float by=1.0) -> Tensor(a!)")
BLEND = op("ns::blend(Tensor x, Tensor y) -> Tensor", BROADCAST, family=True)
LONG = "".join(f"_{n}_of_a_name_that_fills_a_line" for n in range(4))
WIDE = op(f"ns::wide{LONG}(Tensor x) -> Tensor")


def make(parent: Path, ops: Sequence[OpSpec], **more: object) -> Path:
    return render_package(replace(package("demo-ops", ops), **more), parent, force=True).path


def add(root: Path, ops: Sequence[OpSpec], added: Sequence[OpSpec], **more: object) -> None:
    """Add ops to a package that was made with others."""
    spec = replace(package("demo-ops", [*ops, *added]), **more)
    write_addition(plan_addition(root, read_record(root), spec, len(added)))


def files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def record_of(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in files(root).items() if name.startswith(".opscaffold")}


def distinct(ops: list[OpSpec]) -> list[OpSpec]:
    kept: list[OpSpec] = []
    names: set[str] = set()
    for each in ops:
        own = {name.lower() for name in op_names(each)}
        if not own & names:
            kept.append(each)
            names |= own
    return kept


@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    ops=st.lists(st.sampled_from([*grid(), *UNUSUAL]), min_size=2, max_size=3).map(distinct),
    way=st.sampled_from(Registration),
)
def test_ops_added_one_by_one_are_what_is_made_at_once(
    tmp_path: Path, ops: list[OpSpec], way: Registration
) -> None:
    root = make(tmp_path / "grown", ops[:1], registration=way)
    for count in range(1, len(ops)):
        add(root, ops[:count], [ops[count]], registration=way)
    assert files(root) == files(make(tmp_path / "whole", ops, registration=way))


def test_ops_of_every_language_are_added_likewise(tmp_path: Path) -> None:
    more = [
        replace(op(f"ns::in_{language.value}(Tensor x) -> Tensor"), kernel=language)
        for language in (KernelLanguage.NUMPY, KernelLanguage.TRITON, KernelLanguage.CPP)
    ]
    root = make(tmp_path / "grown", [SCALE])
    add(root, [SCALE], more[:1])
    add(root, [SCALE, *more[:1]], more[1:])
    assert files(root) == files(make(tmp_path / "whole", [SCALE, *more]))


def test_an_op_that_needs_longer_lines_relays_what_nobody_edited(tmp_path: Path) -> None:
    root = make(tmp_path / "grown", [SCALE])
    add(root, [SCALE], [WIDE])
    assert files(root) == files(make(tmp_path / "whole", [SCALE, WIDE]))
    assert b"line-length = 100" not in (root / "pyproject.toml").read_bytes()


# What an author does to a package: each edit keeps to the formatter and the linter.
EDITS = {
    "README.md": ("Needs torch", "Mine.\n\nNeeds torch"),
    "opscaffold_samples.py": (
        '("empty", (0, 3)',
        '("tall", (9, 1), torch.float32, OFFSET),\n    ("empty", (0, 3)',
    ),
    "pyproject.toml": ('version = "0.1.0"', 'version = "0.2.0"  # mine'),
    "src/demo_ops/__init__.py": (
        '__all__ = ["scale"]',
        '__all__ = ["VERSION", "scale"]\n\nVERSION = "0.2.0"',
    ),
    "src/demo_ops/ops/scale.py": (
        "    # >>> Replace this placeholder",
        "    # Mine.\n    # >>> Replace this placeholder",
    ),
    "tests/test_scale.py": (
        "def test_schema",
        "def test_mine() -> None:\n    pass\n\n\ndef test_schema",
    ),
}


def edit(root: Path) -> None:
    for name, (old, new) in EDITS.items():
        path = root / name
        text = path.read_text("utf-8")
        assert text.count(old) == 1, name
        path.write_text(text.replace(old, new), "utf-8", newline="")


def test_edits_stay_and_the_rest_is_as_it_would_be_made(tmp_path: Path) -> None:
    root = make(tmp_path / "grown", [SCALE])
    edit(root)
    add(root, [SCALE], [BLEND, SHIFT])
    whole = make(tmp_path / "whole", [SCALE, BLEND, SHIFT])
    expected = files(whole)
    for name, (old, new) in EDITS.items():
        if name != "src/demo_ops/__init__.py":
            expected[name] = expected[name].replace(old.encode(), new.encode())
    made = files(root)
    init = made.pop("src/demo_ops/__init__.py").decode()
    del expected["src/demo_ops/__init__.py"]
    assert made == expected
    assert '"VERSION", "blend", "blend_", "blend_out", "scale", "shift_"]' in init
    assert 'VERSION = "0.2.0"' in init


def test_the_record_is_that_of_a_package_made_at_once(tmp_path: Path) -> None:
    root = make(tmp_path / "grown", [SCALE])
    edit(root)
    add(root, [SCALE], [SHIFT])
    assert record_of(root) == record_of(make(tmp_path / "whole", [SCALE, SHIFT]))


def test_a_line_length_of_the_authors_is_kept_to(tmp_path: Path) -> None:
    root = make(tmp_path, [SCALE])
    path = root / "pyproject.toml"
    path.write_text(path.read_text("utf-8").replace("line-length = 100", "line-length = 72"))
    require(run(root, "-m", "ruff", "format", "--no-cache", "."))
    add(root, [SCALE], [BLEND])
    made = ("src", "opscaffold_samples.py")
    require(run(root, "-m", "ruff", "format", "--no-cache", "--diff", *made))
    assert "line-length = 72" in path.read_text("utf-8")
    with pytest.raises(CannotAddError, match="line-length"):
        add(root, [SCALE, BLEND], [WIDE])


BY_HAND = (
    "from torch.library import Library\n\nlib = Library('demo_ops', 'FRAGMENT')\n"
    "lib.define('shift_.mine(Tensor x) -> Tensor')\n"
)


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("src/demo_ops/ops/shift_.py", "", "it is there already"),
        ("tests/TEST_shift_.py", "", "it is there already"),
        ("tests/cpu/test_shift_.py", "", "pytest cannot tell it from tests/test_shift_.py"),
        ("src/demo_ops/shift_.py", "", "is a module that the function"),
        (
            "src/demo_ops/mine.py",
            BY_HAND,
            r"taken by an op at src/demo_ops/mine.py:4",
        ),
        ("src/demo_ops/__init__.py", "def broken(:\n", "__init__.py:1: cannot be read"),
        ("README.md", "# Nothing here\n", "table of ops"),
        ("opscaffold_samples.py", "SAMPLES = {}\n\ndef shift__samples(): ...\n", "is taken"),
    ],
)
def test_what_is_in_the_way_is_named_and_nothing_is_written(
    tmp_path: Path, path: str, text: str, reason: str
) -> None:
    root = make(tmp_path, [SCALE])
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text(text, "utf-8")
    before = files(root)
    with pytest.raises((CannotAddError, NameTakenError), match=reason):
        add(root, [SCALE], [SHIFT])
    assert files(root) == before


def test_every_obstacle_is_told_at_once_with_what_to_write_by_hand(tmp_path: Path) -> None:
    root = make(tmp_path, [SCALE])
    (root / "README.md").write_text("# Mine\n", "utf-8")
    (root / "opscaffold_samples.py").unlink()
    with pytest.raises(CannotAddError) as refused:
        add(root, [SCALE], [SHIFT])
    text = str(refused.value)
    assert "README.md: its table of ops" in text
    assert "    | `demo_ops.shift_` | in-place |" in text
    assert "--by-hand README.md" in text
    assert "opscaffold_samples.py: it is gone; bring it back from version control" in text


def test_what_every_op_imports_must_be_there(tmp_path: Path) -> None:
    root = make(tmp_path, [SCALE])
    (root / "src" / "demo_ops" / "ops" / "__init__.py").unlink()
    with pytest.raises(CannotAddError, match=r"ops/__init__\.py: it is gone, and ops need it"):
        add(root, [SCALE], [SHIFT])
    (root / "src" / "demo_ops" / "ops" / "__init__.py").touch()
    (root / ".github" / "workflows" / "ci.yml").unlink()
    add(root, [SCALE], [SHIFT])


def test_a_link_is_left_to_its_author_where_they_say_so(tmp_path: Path) -> None:
    root = make(tmp_path, [SCALE])
    readme = root / "README.md"
    readme.rename(tmp_path / "elsewhere.md")
    readme.symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(CannotAddError, match=r"README\.md: it is a symbolic link; put the file"):
        add(root, [SCALE], [SHIFT])
    spec = package("demo-ops", [SCALE, SHIFT])
    by_hand = [PurePosixPath("README.md")]
    planned = plan_addition(root, read_record(root), spec, 1, by_hand=by_hand)
    assert PurePosixPath("README.md") not in planned.changes
    assert "demo_ops.shift_" in planned.by_hand[0].text


def test_a_file_is_left_to_its_author_who_is_told_what_it_needs(tmp_path: Path) -> None:
    root = make(tmp_path, [SCALE])
    (root / "README.md").write_text("# Mine\n", "utf-8")
    spec = package("demo-ops", [SCALE, SHIFT])
    readme = PurePosixPath("README.md")
    planned = plan_addition(root, read_record(root), spec, 1, by_hand=[readme])
    write_addition(planned)
    assert (root / "README.md").read_text("utf-8") == "# Mine\n"
    assert [each.where for each in planned.by_hand] == ["README.md"]
    assert planned.by_hand[0].text.startswith("| `demo_ops.shift_` | in-place |")
    # An update finds nothing that it would have to bring there.
    assert record_of(root) == record_of(make(tmp_path / "whole", [SCALE, SHIFT]))


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_nothing_is_read_or_written_through_a_link(tmp_path: Path) -> None:
    root = make(tmp_path / "in", [SCALE])
    outside = tmp_path / "outside"
    shutil.move(root / "tests", outside)
    (root / "tests").symlink_to(outside)
    before = files(outside)
    with pytest.raises(CannotAddError, match="symbolic link"):
        add(root, [SCALE], [SHIFT])
    assert files(outside) == before
    assert not (root / "src/demo_ops/ops/shift_.py").exists()


def test_a_package_of_other_templates_is_updated_first(tmp_path: Path) -> None:
    root = make(tmp_path, [SCALE])
    record = read_record(root)
    changed = dict(record.files)
    path = PurePosixPath("tests/conftest.py")
    changed[path] = replace(changed[path], data=b"# older\n")
    spec = package("demo-ops", [SCALE, SHIFT])
    with pytest.raises(CannotAddError, match=r"conftest.py .*run opscaffold update first"):
        plan_addition(root, replace(record, files=changed), spec, 1)
    (root / path).unlink()
    assert plan_addition(root, replace(record, files=changed), spec, 1).changes


def test_a_write_that_fails_halfway_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make(tmp_path, [SCALE])
    # A folder has to be made, then; without this, its loss would be refused.
    monkeypatch.setattr("opscaffold.scaffold.add._NEEDED", frozenset())
    shutil.rmtree(root / "tests")
    before = files(root)
    real, calls = journal.commit, iter(range(100))

    def commit(item: Staged, *, sync: bool = True) -> None:
        if next(calls) == 3:
            raise WriteError(item.path, "the disk is full")
        real(item, sync=sync)

    monkeypatch.setattr(journal, "commit", commit)
    with pytest.raises(WriteError, match="the disk is full"):
        add(root, [SCALE], [SHIFT])
    assert files(root) == before
    assert not (root / "tests").exists()


@pytest.mark.torch
@pytest.mark.slow
def test_an_edited_package_passes_its_own_tools_after_ops_were_added(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    root = make(tmp_path, [SCALE])
    edit(root)
    add(root, [SCALE], [BLEND])
    add(root, [SCALE, BLEND], [SHIFT])
    require(run(root, "-m", "ruff", "check", "--no-cache", "."))
    require(run(root, "-m", "ruff", "format", "--no-cache", "--check", "."))
    # The modules are those of a package made at once, whose tests and types are held elsewhere.
    found = require(pytest_in(root, "-k", "schema or numbers or mine"))
    assert " passed" in found
