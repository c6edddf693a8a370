"""An update killed before each of its calls to the system in turn, then run again.

As a program; needs the program beside the tests of ``fs`` on the path.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path

from killing import in_a_child, kill_at, temporaries
from updating import LINES, Package

from opscaffold.fs.recovery import recover
from opscaffold.fs.state import find_state
from opscaffold.scaffold import update_plan
from opscaffold.scaffold.managed_files import Generated
from opscaffold.scaffold.update_apply import apply

NEW = LINES.replace("line 10", "line ten")
BEFORE = {
    "updated.txt": LINES,
    "merged.txt": LINES,
    "d/removed.txt": "removed\n",
    "old/renamed.txt": LINES,
    "run.sh": LINES,
    "conflict.txt": LINES,
}
NOW = {
    "updated.txt": NEW,
    "merged.txt": NEW,
    "new/added.sh": Generated(b"added\n", True),
    "new/renamed.txt": NEW,
    "run.sh": Generated(NEW.encode(), True),
    "conflict.txt": LINES.replace("line 2\n", "line two\n"),
}


def make(root: Path, *, git: bool) -> Package:
    root.mkdir()
    if git:
        (root / ".git").mkdir()
        (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    package = Package(root, BEFORE)
    for name in ("merged.txt", "old/renamed.txt", "conflict.txt"):
        package.edit(name, "line 2\n", "mine\n")
    return package


def contents(package: Package) -> dict[str, tuple[bytes, int]]:
    """All files, of the record the text alone: which files get a bit set is told by themselves."""
    found = {name: file for name, file in package.tree().items() if not name.startswith(".git/")}
    found[".opscaffold/generated.zip"] = (repr(package.bases()).encode(), 0)
    return found


def killed(*, git: bool, stride: int = 1) -> int:
    """Kill at each so many steps, and hold what must be. Return at how many steps it was killed."""
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory).resolve()
        whole = make(scratch / "whole", git=git)
        before = contents(whole)
        apply(whole.plan(NOW))
        after = contents(whole)
        for count, step in enumerate(itertools.count(1, stride)):
            root = scratch / "killed"
            package = make(root, git=git)
            ended = in_a_child(functools.partial(apply, package.plan(NOW)), kill_at(step))
            for name, (data, _) in contents(package).items():
                if not _is_ours(name):
                    known = {tree[name][0] for tree in (before, after) if name in tree}
                    known |= {after["new/renamed.txt"][0]} if name == "old/renamed.txt" else set()
                    if not name.startswith(".opscaffold/"):
                        assert data in known, f"step {step}: {name} is a mix"
            recover(root)
            apply(package.plan(NOW))
            assert contents(package) == after, f"step {step}: {_differing(package, after)}"
            assert not temporaries(root)
            assert not find_state(root).directory.exists()
            assert not package.plan(NOW).writes
            shutil.rmtree(root)
            if ended == 0:
                return count
            assert ended == -9
    raise AssertionError("not reached")


def _is_ours(name: str) -> bool:
    return name.startswith(".opscaffold.run/") or "/.opscaffold-" in f"/{name}"


def _differing(package: Package, after: dict[str, tuple[bytes, int]]) -> list[str]:
    now = contents(package)
    return sorted(name for name in {*now, *after} if now.get(name) != after.get(name))


if __name__ == "__main__":
    # What a process wrote outlives it without syncing, which is for a loss of power, and slow.
    os.fsync = lambda _: None
    # The same few files are merged again and again.
    update_plan.merge = functools.cache(update_plan.merge)
    print(json.dumps({"git": killed(git=True), "plain": killed(git=False, stride=7)}))
