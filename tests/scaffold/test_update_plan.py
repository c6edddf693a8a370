"""Each file gets what its three states call for, and nothing of its author's is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from updating import LINES, Package, actions

from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.merge import Resolution
from opscaffold.scaffold.update_plan import Action

NEW = LINES.replace("line 10", "line ten")
CLASH = LINES.replace("line 2\n", "line two\n")
BINARY = b"\x89PNG\0one"
as_root = hasattr(os, "geteuid") and os.geteuid() == 0


def one(tmp_path: Path, content: str | bytes = LINES, name: str = "a.txt") -> Package:
    return Package(tmp_path, {name: content})


def test_what_nobody_changed_is_unchanged(tmp_path: Path) -> None:
    package = one(tmp_path)
    before = package.tree()
    assert actions(package.update({"a.txt": LINES})) == {"a.txt": Action.UNCHANGED}
    assert package.tree() == before
    # Nothing changed, and so the record does not either.
    assert package.version() == "0.0.1"


def test_an_edit_where_the_templates_stayed_is_left(tmp_path: Path) -> None:
    package = one(tmp_path)
    package.edit("a.txt", "line 2\n", "mine\n")
    before = package.tree()
    assert actions(package.update({"a.txt": LINES})) == {"a.txt": Action.UNCHANGED}
    assert package.tree() == before


def test_a_file_that_its_author_left_is_updated(tmp_path: Path) -> None:
    package = one(tmp_path)
    assert actions(package.update({"a.txt": NEW})) == {"a.txt": Action.UPDATED}
    assert package.text("a.txt") == NEW
    assert package.bases() == {"a.txt": NEW.encode()}
    assert package.version() == "0.0.2"


def test_edits_in_different_places_are_merged(tmp_path: Path) -> None:
    package = one(tmp_path)
    package.edit("a.txt", "line 2\n", "mine\n")
    assert actions(package.update({"a.txt": NEW})) == {"a.txt": Action.MERGED}
    assert package.text("a.txt") == NEW.replace("line 2\n", "mine\n")
    assert package.bases() == {"a.txt": NEW.encode()}


def test_a_conflict_leaves_the_file_and_its_base(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.txt": LINES, "b.txt": LINES})
    package.edit("a.txt", "line 2\n", "mine\n")
    before = package.tree()["a.txt"]
    now = {"a.txt": CLASH.replace("line 10", "line ten"), "b.txt": NEW}
    entries = package.update(now)
    assert actions(entries) == {"a.txt": Action.CONFLICT, "b.txt": Action.UPDATED}
    assert entries["a.txt"].reason == "you and the templates changed a place of it"
    assert package.tree()["a.txt"] == before
    assert package.bases() == {"a.txt": LINES.encode(), "b.txt": NEW.encode()}
    assert package.version() == "0.0.1"
    # The next update tries again, and can.
    package.edit("a.txt", "mine\n", "line 2\n")
    assert actions(package.update(now))["a.txt"] is Action.UPDATED
    assert package.version() == "0.0.2"


@pytest.mark.parametrize(
    ("resolution", "line"), [(Resolution.KEEP, "mine\n"), (Resolution.NEW, "line two\n")]
)
def test_a_chosen_side_is_taken_and_settles_it(
    resolution: Resolution, line: str, tmp_path: Path
) -> None:
    package = one(tmp_path)
    package.edit("a.txt", "line 2\n", "mine\n")
    now = CLASH.replace("line 10", "line ten")
    entries = package.update({"a.txt": now}, resolution)
    assert actions(entries) == {"a.txt": Action.MERGED}
    assert package.text("a.txt") == NEW.replace("line 2\n", line)
    assert package.bases() == {"a.txt": now.encode()}


def test_markers_are_a_conflict_until_they_are_gone(tmp_path: Path) -> None:
    package = one(tmp_path)
    package.edit("a.txt", "line 2\n", "mine\n")
    entries = package.update({"a.txt": CLASH}, Resolution.MARKERS)
    assert actions(entries) == {"a.txt": Action.CONFLICT}
    assert "<<<<<<< yours\nmine\n" in package.text("a.txt")
    marked = package.text("a.txt")
    # Neither is it taken for settled, nor are markers merged into markers.
    for resolution in (None, *Resolution):
        entries = package.update({"a.txt": CLASH.replace("line 10", "line ten")}, resolution)
        assert "markers" in entries["a.txt"].reason
        assert package.text("a.txt") == marked
    package.write("a.txt", CLASH.replace("line two", "both"))
    assert actions(package.update({"a.txt": CLASH})) == {"a.txt": Action.UNCHANGED}


def test_a_file_that_is_as_generated_now_is_current(tmp_path: Path) -> None:
    package = one(tmp_path)
    package.write("a.txt", NEW)
    assert actions(package.update({"a.txt": NEW})) == {"a.txt": Action.CURRENT}
    assert package.bases() == {"a.txt": NEW.encode()}


def test_a_file_that_holds_what_is_new_and_more_is_current(tmp_path: Path) -> None:
    package = one(tmp_path)
    package.write("a.txt", NEW.replace("line 2\n", "mine\n"))
    before = package.text("a.txt")
    assert actions(package.update({"a.txt": NEW})) == {"a.txt": Action.CURRENT}
    assert package.text("a.txt") == before


def test_a_deleted_file_stays_so_and_is_updated_when_it_returns(tmp_path: Path) -> None:
    package = one(tmp_path)
    (tmp_path / "a.txt").unlink()
    assert actions(package.update({"a.txt": NEW})) == {"a.txt": Action.DELETED}
    assert not (tmp_path / "a.txt").exists()
    package.write("a.txt", LINES)
    assert actions(package.update({"a.txt": NEW})) == {"a.txt": Action.UPDATED}


def test_a_deleted_file_that_is_no_longer_generated_is_forgotten(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.txt": LINES, "b.txt": LINES})
    (tmp_path / "b.txt").unlink()
    assert actions(package.update({"a.txt": LINES}))["b.txt"] is Action.DELETED
    assert sorted(package.bases()) == ["a.txt"]


def test_a_new_file_is_added_with_its_directories(tmp_path: Path) -> None:
    package = one(tmp_path)
    entries = package.update({"a.txt": LINES, "new/deep/b.txt": NEW})
    assert actions(entries)["new/deep/b.txt"] is Action.ADDED
    assert package.text("new/deep/b.txt") == NEW


def test_a_new_file_replaces_none_of_the_authors(tmp_path: Path) -> None:
    package = one(tmp_path)
    package.write("b.txt", "mine\n")
    now = {"a.txt": LINES, "b.txt": NEW}
    entries = package.update(now)
    assert actions(entries)["b.txt"] is Action.CONFLICT
    assert package.text("b.txt") == "mine\n"
    assert "b.txt" not in package.bases()
    assert actions(package.update(now, Resolution.KEEP))["b.txt"] is Action.MERGED
    assert package.text("b.txt") == "mine\n"
    assert package.bases()["b.txt"] == NEW.encode()


@pytest.mark.parametrize("resolution", [Resolution.NEW, Resolution.MARKERS])
def test_a_file_in_the_way_of_a_new_one_may_be_given_up(
    resolution: Resolution, tmp_path: Path
) -> None:
    package = one(tmp_path)
    package.write("b.txt", "mine\n")
    package.update({"a.txt": LINES, "b.txt": NEW}, resolution)
    marked = package.text("b.txt")
    assert marked.startswith("<<<<<<< yours\nmine\n") is (resolution is Resolution.MARKERS)
    assert NEW in marked


def test_a_file_that_is_no_longer_generated_goes_with_its_directory(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.txt": LINES, "old/deep/b.txt": LINES, "old/c.txt": "c\n"})
    package.edit("old/c.txt", "c", "mine")
    entries = package.update({"a.txt": LINES})
    assert actions(entries) == {
        "a.txt": Action.UNCHANGED,
        "old/c.txt": Action.KEPT,
        "old/deep/b.txt": Action.REMOVED,
    }
    assert package.text("old/c.txt") == "mine\n"
    assert not (tmp_path / "old" / "deep").exists()
    assert package.bases() == {"a.txt": LINES.encode()}


def test_line_endings_of_a_checkout_are_no_edit(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.txt": LINES, "b.txt": LINES})
    for name in ("a.txt", "b.txt"):
        package.write(name, LINES.replace("\n", "\r\n"))
    entries = package.update({"a.txt": NEW})
    assert actions(entries) == {"a.txt": Action.UPDATED, "b.txt": Action.REMOVED}
    assert package.text("a.txt") == NEW.replace("\n", "\r\n")
    assert not (tmp_path / "b.txt").exists()


def test_edits_go_along_where_a_file_is_renamed(tmp_path: Path) -> None:
    package = Package(tmp_path, {"src/old/a.txt": LINES, "src/old/b.txt": LINES})
    package.edit("src/old/a.txt", "line 2\n", "mine\n")
    entries = package.update({"src/new/a.txt": NEW, "src/new/b.txt": NEW})
    assert actions(entries) == {"src/new/a.txt": Action.RENAMED, "src/new/b.txt": Action.RENAMED}
    assert package.text("src/new/a.txt") == NEW.replace("line 2\n", "mine\n")
    assert package.text("src/new/b.txt") == NEW
    assert not (tmp_path / "src" / "old").exists()
    assert sorted(package.bases()) == ["src/new/a.txt", "src/new/b.txt"]


def test_a_renamed_file_in_conflict_stays_where_it_is(tmp_path: Path) -> None:
    package = one(tmp_path, name="old/a.txt")
    package.edit("old/a.txt", "line 2\n", "mine\n")
    entries = package.update({"new/a.txt": CLASH})
    assert actions(entries) == {"old/a.txt": Action.CONFLICT}
    assert not (tmp_path / "new").exists()
    assert package.bases() == {"old/a.txt": LINES.encode()}
    entries = package.update({"new/a.txt": CLASH}, Resolution.KEEP)
    assert actions(entries) == {"new/a.txt": Action.RENAMED}
    assert package.text("new/a.txt") == LINES.replace("line 2\n", "mine\n")
    assert not (tmp_path / "old").exists()


def test_a_renamed_file_with_markers_is_at_its_new_place(tmp_path: Path) -> None:
    package = one(tmp_path, name="old/a.txt")
    package.edit("old/a.txt", "line 2\n", "mine\n")
    entries = package.update({"new/a.txt": CLASH}, Resolution.MARKERS)
    assert actions(entries) == {"new/a.txt": Action.CONFLICT}
    assert "<<<<<<< yours\nmine\n" in package.text("new/a.txt")
    assert not (tmp_path / "old").exists()


def test_a_renamed_file_that_was_deleted_stays_so(tmp_path: Path) -> None:
    package = one(tmp_path, name="old/a.txt")
    (tmp_path / "old" / "a.txt").unlink()
    assert actions(package.update({"new/a.txt": NEW})) == {"new/a.txt": Action.DELETED}
    assert not (tmp_path / "new").exists()


def test_a_file_in_the_way_of_a_renamed_one_is_left(tmp_path: Path) -> None:
    package = one(tmp_path, name="old/a.txt")
    package.edit("old/a.txt", "line 2\n", "mine\n")
    package.write("new/a.txt", "other\n")
    entries = package.update({"new/a.txt": LINES})
    assert actions(entries) == {"new/a.txt": Action.CONFLICT, "old/a.txt": Action.KEPT}
    assert package.text("new/a.txt") == "other\n"
    assert "mine\n" in package.text("old/a.txt")


def test_one_op_does_not_take_over_the_edits_of_another(tmp_path: Path) -> None:
    module = "".join(f"def {{op}}_{n}(): ...\n" for n in range(3)) + LINES
    package = one(tmp_path, module.replace("{op}", "scale"), "ops/scale.py")
    package.edit("ops/scale.py", "line 2\n", "my kernel\n")
    entries = package.update({"ops/shift.py": module.replace("{op}", "shift")})
    assert actions(entries) == {"ops/scale.py": Action.KEPT, "ops/shift.py": Action.ADDED}
    assert "my kernel" not in package.text("ops/shift.py")
    assert "my kernel" in package.text("ops/scale.py")


def test_python_that_does_not_go_together_is_a_conflict(tmp_path: Path) -> None:
    base = "f(\n    a=1,\n    b=2,\n    c=3,\n    d=4,\n)\n"
    package = one(tmp_path, base, "a.py")
    package.edit("a.py", "    a=1,\n", "    e=5,\n    a=1,\n")
    before = package.text("a.py")
    entries = package.update({"a.py": base.replace("    d=4,\n", "    d=4,\n    e=6,\n")})
    assert actions(entries) == {"a.py": Action.CONFLICT}
    assert "does not go together" in entries["a.py"].reason
    assert package.text("a.py") == before


def test_a_merge_that_breaks_a_file_is_a_conflict(tmp_path: Path) -> None:
    base = "[tool.a]\nx = 1\n\n[tool.b]\nx = 1\n\n[tool.c]\nx = 1\n"
    package = one(tmp_path, base, "pyproject.toml")
    package.edit("pyproject.toml", "[tool.a]\n", "[tool.new]\ny = 1\n\n[tool.a]\n")
    before = package.text("pyproject.toml")
    now = {"pyproject.toml": base + "\n[tool.new]\nz = 1\n"}
    entries = package.update(now)
    assert actions(entries) == {"pyproject.toml": Action.CONFLICT}
    assert "does not go together" in entries["pyproject.toml"].reason
    assert package.text("pyproject.toml") == before
    entries = package.update(now, Resolution.MARKERS)
    assert package.text("pyproject.toml") == before
    package.update(now, Resolution.KEEP)
    assert package.text("pyproject.toml") == before
    assert package.bases() == {"pyproject.toml": now["pyproject.toml"].encode()}


def test_binary_files_are_taken_whole_or_left(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.png": BINARY, "b.png": BINARY})
    package.write("a.png", BINARY + b"mine")
    now = {"a.png": BINARY + b"new", "b.png": BINARY + b"new"}
    entries = package.update(now, Resolution.MARKERS)
    assert actions(entries) == {"a.png": Action.CONFLICT, "b.png": Action.UPDATED}
    assert package.tree()["a.png"][0] == BINARY + b"mine"
    assert actions(package.update(now, Resolution.NEW))["a.png"] is Action.MERGED
    assert package.tree()["a.png"][0] == BINARY + b"new"


def test_text_in_another_encoding_is_not_mixed_with_ours(tmp_path: Path) -> None:
    package = one(tmp_path)
    package.write("a.txt", LINES.replace("line 2", "ligne é").encode("latin-1"))
    before = package.tree()
    assert actions(package.update({"a.txt": NEW})) == {"a.txt": Action.CONFLICT}
    assert package.tree() == before


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "package"
    package = Package(root, {"a.txt": LINES, "b.txt": LINES, "d/c.txt": LINES, "e/f.txt": LINES})
    for name in ("a.txt", "b.txt", "d/c.txt", "e/f.txt"):
        (root / name).unlink()
    (outside / "a.txt").write_text(LINES)
    (root / "a.txt").symlink_to(outside / "a.txt")
    (root / "b.txt").symlink_to("b.txt")
    for name in ("d", "e"):
        (root / name).rmdir()
        (root / name).symlink_to(outside, target_is_directory=True)
    (outside / "c.txt").write_text(LINES)
    (outside / "f.txt").write_text(LINES)
    now = {"a.txt": NEW, "b.txt": NEW, "d/c.txt": NEW, "d/new.txt": NEW}
    entries = package.update(now)
    assert actions(entries) == {
        "a.txt": Action.CONFLICT,
        "b.txt": Action.CONFLICT,
        "d/c.txt": Action.CONFLICT,
        "d/new.txt": Action.CONFLICT,
        "e/f.txt": Action.KEPT,
    }
    assert "lies in d, which is a symbolic link" in entries["d/c.txt"].reason
    assert sorted(path.name for path in outside.iterdir()) == ["a.txt", "c.txt", "f.txt"]
    assert {path.read_text() for path in outside.iterdir()} == {LINES}
    package.update(now, Resolution.NEW)
    assert (root / "a.txt").is_symlink()
    assert {path.read_text() for path in outside.iterdir()} == {LINES}
    assert actions(package.update(now, Resolution.KEEP))["a.txt"] is Action.KEPT
    assert (root / "a.txt").is_symlink()


def test_what_is_no_file_is_left(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.txt": LINES, "d/b.txt": LINES})
    (tmp_path / "a.txt").unlink()
    (tmp_path / "a.txt").mkdir()
    (tmp_path / "d" / "b.txt").unlink()
    (tmp_path / "d").rmdir()
    package.write("d", "a file")
    entries = package.update({"a.txt": NEW, "d/b.txt": NEW, "d/c.txt": NEW})
    assert entries["a.txt"].reason == "it is a directory"
    assert "lies in d, which is no directory" in entries["d/b.txt"].reason
    assert set(actions(entries).values()) == {Action.CONFLICT}


@pytest.mark.skipif(as_root or os.name == "nt", reason="root reads everything")
def test_a_file_that_cannot_be_read_is_left(tmp_path: Path) -> None:
    package = one(tmp_path)
    (tmp_path / "a.txt").chmod(0)
    entries = package.plan({"a.txt": NEW}).entries
    assert [(e.action, e.reason) for e in entries] == [
        (Action.CONFLICT, "it cannot be read: permission denied")
    ]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bits")
def test_permissions_are_the_authors(tmp_path: Path) -> None:
    package = one(tmp_path)
    (tmp_path / "a.txt").chmod(0o640)
    package.update({"a.txt": NEW})
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bits")
def test_what_the_templates_make_executable_is_made_so(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.sh": LINES, "b.sh": LINES, "c.sh": Generated(b"c", True)})
    (tmp_path / "a.sh").chmod(0o640)
    (tmp_path / "b.sh").chmod(0o755)
    now = {
        "a.sh": Generated(LINES.encode(), True),
        "b.sh": LINES,
        "c.sh": "c",
        "d/e.sh": Generated(LINES.encode(), True),
    }
    entries = package.update(now)
    modes = {name: mode & 0o777 for name, (_, mode) in package.tree().items()}
    assert modes["a.sh"] == 0o750
    assert modes["b.sh"] == 0o755
    assert modes["c.sh"] & 0o111 == 0
    assert modes["d/e.sh"] & 0o100
    assert entries["a.sh"].reason == "it may be executed"
    assert actions(entries)["b.sh"] is Action.UNCHANGED


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bits")
def test_a_renamed_script_stays_one(tmp_path: Path) -> None:
    package = one(tmp_path, LINES, "old/a.sh")
    (tmp_path / "old" / "a.sh").chmod(0o755)
    package.update({"new/a.sh": LINES})
    assert (tmp_path / "new" / "a.sh").stat().st_mode & 0o100


def test_empty_files_are_files_too(tmp_path: Path) -> None:
    package = Package(tmp_path, {"old/py.typed": "", "old/a.txt": LINES})
    entries = package.update({"new/py.typed": "", "new/a.txt": LINES, "b.txt": ""})
    assert actions(entries) == {
        "b.txt": Action.ADDED,
        "new/a.txt": Action.RENAMED,
        "new/py.typed": Action.RENAMED,
    }
    assert not (tmp_path / "old").exists()
    assert package.text("b.txt") == ""


@settings(max_examples=40)
@given(data=st.data())
def test_no_line_of_either_side_is_lost(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    base = [f"line {number}" for number in range(data.draw(st.integers(0, 12)))]

    def changed(who: str) -> list[str]:
        lines = list(base)
        for number in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(lines)))
            lines[at : at + data.draw(st.integers(0, 2))] = [f"{who} {number}"]
        return lines

    mine, new = changed("mine"), changed("new")
    ending = data.draw(st.sampled_from(["\n", "\r\n"]))
    package = one(tmp_path_factory.mktemp("lines"), "".join(f"{line}\n" for line in base))
    package.write("a.txt", "".join(line + ending for line in mine))
    before = package.text("a.txt")
    resolution = data.draw(st.sampled_from([None, *Resolution]))
    (entry,) = package.update({"a.txt": "".join(f"{line}\n" for line in new)}, resolution).values()
    after = package.text("a.txt").splitlines()
    if entry.action is Action.CONFLICT and resolution is None:
        assert package.text("a.txt") == before
        return
    kept = resolution is Resolution.KEEP and bool(entry.reason)
    taken = resolution is Resolution.NEW and bool(entry.reason)
    if not taken:
        assert {line for line in mine if line.startswith("mine")} <= set(after)
    if not kept:
        assert {line for line in new if line.startswith("new")} <= set(after)


def test_each_conflict_is_asked_about_once(tmp_path: Path) -> None:
    package = Package(tmp_path, {"a.txt": LINES, "b.txt": LINES})
    for name in ("a.txt", "b.txt"):
        package.edit(name, "line 2\n", "mine\n")
    package.plan({"a.txt": CLASH, "b.txt": NEW})
    assert [conflict.path.as_posix() for conflict in package.asked] == ["a.txt"]
    assert package.asked[0].marked is not None
