"""Nothing is written outside the project, nor over what somebody else writes.

Each guard stands here with an attack that it stops. The attack is made twice: it does no harm,
and does harm once the guard is taken away, so that no guard can go unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from guarding import Guard, does_harm, is_harmed, outside, project, refused, replaced

from opscaffold.fs import journal, lock, record, recovery, state, tree
from opscaffold.fs.journal import Unit, write_units
from opscaffold.fs.lock import locked
from opscaffold.fs.record import Change, Journal, temporary_of
from opscaffold.fs.recovery import recover
from opscaffold.fs.state import find_state
from opscaffold.migrate import plan_apply
from opscaffold.migrate.plan_apply import load_plan, planned_units
from opscaffold.source import files

OLD, NEW = "precious\n", "harmed\n"


def write(root: Path, path: Path, old: str | None = OLD) -> None:
    before = None if old is None else old.encode()
    refused(lambda: write_units(root, [Unit("u", {path: (before, NEW.encode())})]))


def part_of_a_repository(directory: Path) -> Path:
    """A project beside others: a journal would take what lies in any of them."""
    (directory / ".git").mkdir()
    (directory / ".git" / "HEAD").touch()
    return project(directory)


def through_a_link(directory: Path) -> bool:
    root, target = part_of_a_repository(directory), outside(directory)
    (root / "a.py").symlink_to(target)
    write(root, root / "a.py")
    return is_harmed(target)


def through_dots(directory: Path) -> bool:
    root, target = part_of_a_repository(directory), outside(directory)
    write(root, root / ".." / "outside")
    return is_harmed(target)


def over_an_edit(directory: Path) -> bool:
    root = project(directory, a=OLD)
    (root / "a.py").write_text("edited since\n", "utf-8")
    write(root, root / "a.py")
    return (root / "a.py").read_text("utf-8") == NEW


def while_another_writes(directory: Path) -> bool:
    root = project(directory, a=OLD)
    with locked(find_state(root)):
        write(root, root / "a.py")
    return (root / "a.py").read_text("utf-8") == NEW


def link_in_the_state(name: str) -> Callable[[Path], bool]:
    """The tree has come with a directory of ours, and in it a link where we write."""

    def attack(directory: Path) -> bool:
        root, target = project(directory, a=OLD), outside(directory)
        held = find_state(root)
        held.directory.mkdir()
        (held.directory / name).symlink_to(target)
        write(root, root / "a.py")
        return is_harmed(target)

    return attack


def state_elsewhere(directory: Path) -> bool:
    root = project(directory, a=OLD)
    theirs = directory / "theirs"
    theirs.mkdir()
    (theirs / "journal.tmp").write_text(OLD, "utf-8")
    find_state(root).directory.symlink_to(theirs)
    refused(lambda: recover(root))
    return not (theirs / "journal.tmp").exists()


def killed_run(root: Path, *names: str) -> Journal:
    """The journal of a run that was killed when it had written the first of these files."""
    changes = []
    for name in names:
        path = root / name
        path.write_text(OLD, "utf-8")
        changes.append(Change(path, path, OLD.encode(), NEW.encode()))
    held = find_state(root)
    held.create()
    story = Journal(held, [("u", changes)])
    story.begin(0)
    (root / names[0]).write_text(NEW, "utf-8")
    return story


def journal_of(path: Callable[[Path], str]) -> Callable[[Path], bool]:
    def attack(directory: Path) -> bool:
        root, target = project(directory), outside(directory)
        killed_run(root, "a.py", "b.py")
        place = find_state(root).journal
        lines = [json.loads(line) for line in place.read_text("utf-8").splitlines()]
        lines[1]["files"][1]["path"] = path(target)
        place.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        refused(lambda: recover(root))
        return is_harmed(target)

    return attack


def recovery_through_a_link(directory: Path) -> bool:
    root, target = project(directory), outside(directory)
    killed_run(root, "a.py", "b.py")
    (root / "b.py").unlink()
    (root / "b.py").symlink_to(target)
    refused(lambda: recover(root))
    return is_harmed(target)


def tidying_through_a_link(directory: Path) -> bool:
    root = project(directory)
    (root / "sub").mkdir()
    story = killed_run(root, "sub/a.py")
    theirs = directory / "theirs"
    (root / "sub").rename(theirs)
    (root / "sub").symlink_to(theirs)
    precious = theirs / temporary_of(story.run, 0, 0)
    precious.touch()
    refused(lambda: recover(root))
    return not precious.exists()


def plan_for(name: str) -> Callable[[Path], bool]:
    """A plan from elsewhere that makes a file."""

    def attack(directory: Path) -> bool:
        root = part_of_a_repository(directory)
        made = Path(os.path.normpath(root / name.replace("TOP", os.fspath(directory))))
        made.parent.mkdir(parents=True, exist_ok=True)
        file = {
            "path": name.replace("TOP", os.fspath(directory)),
            "sha256_before": None,
            "sha256_after": hashlib.sha256(NEW.encode()).hexdigest(),
            "hunks": [{"line": 1, "removed": [], "added": [NEW]}],
        }
        plan = {"opscaffold_plan": 1, "steps": [], "tests": [file], "refusals": [], "notes": []}
        path = directory / "plan.json"
        path.write_text(json.dumps(plan), "utf-8")

        def apply() -> None:
            write_units(root, planned_units(load_plan(path), root, "plan.json"))

        refused(apply)
        return made.exists()

    return attack


def new_directory_through_a_link(directory: Path) -> bool:
    root = project(directory)
    theirs = directory / "theirs"
    theirs.mkdir()
    (root / "link").symlink_to(theirs)
    refused(lambda: tree.make_parents(root, [root / "link" / "new" / "test_a.py"]))
    return list(theirs.iterdir()) != []


def reading_through_a_link(directory: Path) -> bool:
    root, target = project(directory), outside(directory)
    (root / "a.py").symlink_to(target)
    return files.find_files([root], root) != []


def all_of(*steps: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    def remove(monkeypatch: pytest.MonkeyPatch) -> None:
        for step in steps:
            step(monkeypatch)

    return remove


FOLLOW = replaced(os, "O_NOFOLLOW", 0)
ANYWHERE = replaced(journal, "_require_ready", lambda *_: None)
ANY_NAME = replaced(plan_apply, "_inside", lambda name: name)
ANY_ENTRY = replaced(record, "_inside", lambda name, base: Path(os.path.normpath(base / name)))

GUARDS = {
    "a link out of the project": Guard(through_a_link, ANYWHERE),
    "dots out of the project": Guard(through_dots, ANYWHERE),
    "an edit since": Guard(
        over_an_edit,
        all_of(
            ANYWHERE, replaced(journal, "require_unchanged", lambda *_: None)
        ),
    ),
    "another run": Guard(while_another_writes, replaced(lock, "_lock", lambda *_: None)),
    "a lock that is a link": Guard(
        link_in_the_state("lock"), all_of(FOLLOW, replaced(lock, "_is", lambda *_: True))
    ),
    "a half journal that is a link": Guard(link_in_the_state("journal.tmp"), FOLLOW),
    "an ignore file that is a link": Guard(link_in_the_state(".gitignore"), FOLLOW),
    "a state that is a link": Guard(
        state_elsewhere, replaced(state.State, "exists", lambda self: self.directory.is_dir())
    ),
    "a journal with dots": Guard(journal_of(lambda target: "../outside"), ANY_ENTRY),
    "a journal with a whole path": Guard(journal_of(os.fspath), ANY_ENTRY),
    "mending through a link": Guard(
        recovery_through_a_link, replaced(recovery, "_is_real", lambda _: True)
    ),
    "tidying through a link": Guard(
        tidying_through_a_link, replaced(recovery, "_is_real", lambda _: True)
    ),
    "a plan into git": Guard(plan_for(".git/hooks/post-commit"), ANY_NAME),
    "a plan with dots": Guard(plan_for("../made"), all_of(ANY_NAME, ANYWHERE)),
    "a plan with a whole path": Guard(plan_for("TOP/made"), all_of(ANY_NAME, ANYWHERE)),
    "a new directory through a link": Guard(
        new_directory_through_a_link, replaced(Path, "is_relative_to", lambda *_: True)
    ),
    "reading through a link": Guard(
        reading_through_a_link, replaced(files, "_real_file", lambda path, _: path)
    ),
}  # fmt: skip


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_an_attack_does_no_harm(guard: Guard, tmp_path: Path) -> None:
    assert not does_harm(guard, tmp_path)


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_without_its_guard_the_same_attack_does_harm(
    guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.remove(monkeypatch)
    assert does_harm(guard, tmp_path)


@pytest.mark.parametrize("name", ["../made", "TOP/made"])
@pytest.mark.parametrize("removed", [ANY_NAME, ANYWHERE], ids=["reading", "writing"])
def test_of_the_two_guards_against_plans_each_is_enough(
    name: str,
    removed: Callable[[pytest.MonkeyPatch], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    removed(monkeypatch)
    assert not plan_for(name)(tmp_path)
