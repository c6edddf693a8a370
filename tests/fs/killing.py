"""Writing units while something kills, interrupts or starves the process, at every step it takes.

As a program: ``boundaries MANNER`` stops a small write before each of its calls to the system in
turn; ``stress`` sends SIGKILL to a large one at random moments.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import itertools
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from opscaffold.fs import atomic
from opscaffold.fs.journal import Unit, write_units
from opscaffold.fs.recovery import recover
from opscaffold.fs.state import find_state

# What changes the disk, by the names under which Python tells of it. Of syncing and writing it
# does not tell.
CHANGING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.truncate"}

Tree = dict[str, tuple[bytes, int]]


class BrokenPromiseError(AssertionError):
    """A tree that must not be."""


def snapshot(root: Path) -> Tree:
    """Every file of a tree with its bytes and mode, but for git's."""
    found = {}
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts:
            name = os.fspath(path.relative_to(root))
            found[name] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return found


def temporaries(root: Path) -> list[Path]:
    return sorted(root.rglob(f"{atomic.PREFIX}*"))


class Project:
    """A tree whose every version is known: unit ``u`` gives each file it touches the content of u.

    What a unit touches depends on its number and the seed alone, so that any process can tell
    which units a tree holds.
    """

    def __init__(
        self, root: Path, files: int, *, seed: int = 0, git: bool = True, widest: int = 5
    ) -> None:
        self.root, self.seed, self.widest = root, seed, widest
        self.names = [f"d{i % 7}/f{i}.py" for i in range(files)]
        self.git = git

    def make(self) -> None:
        for name in self.names:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.content(name, -1))
            path.chmod(0o755 if name.endswith("0.py") else 0o640)
        if self.git:
            (self.root / ".git").mkdir()
            (self.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    def content(self, name: str, unit: int) -> bytes:
        size = random.Random(f"{name} {unit}").randrange(1, 300)
        return f"# {name} unit {unit}\n".encode() * size

    def touched(self, unit: int) -> list[str]:
        chosen = random.Random(f"{self.seed} {unit}")
        return chosen.sample(self.names, chosen.randint(1, min(self.widest, len(self.names))))

    def last(self, units: int) -> dict[str, int]:
        """For each file, the last of the first ``units`` units that touched it."""
        found = dict.fromkeys(self.names, -1)
        for unit in range(units):
            found.update(dict.fromkeys(self.touched(unit), unit))
        return found

    def units(self, start: int, count: int) -> list[Unit]:
        last, found = self.last(start), []
        for unit in range(start, start + count):
            changes: dict[Path, tuple[bytes | None, bytes]] = {}
            for name in self.touched(unit):
                changes[self.root / name] = (
                    self.content(name, last[name]),
                    self.content(name, unit),
                )
                last[name] = unit
            found.append(Unit(f"unit {unit}", changes))
        return found

    def versions(self) -> dict[str, int]:
        """Which unit each file is of. Raises where a file is not wholly of one."""
        found = {}
        for name in self.names:
            data = (self.root / name).read_bytes()
            unit = int(data.partition(b"\n")[0].split()[-1] or -2)
            if data != self.content(name, unit):
                raise BrokenPromiseError(f"{name} is a mix")
            found[name] = unit
        return found

    def held(self, *, tidy: bool = True) -> int:
        """How many units the tree holds, all whole and no other. Raises where that is not so.

        Nor may anything be left behind but, unless ``tidy``, a journal of what needs no mending.
        """
        versions = self.versions()
        count = max(versions.values()) + 1
        if versions != self.last(count):
            wrong = {n for n, unit in self.last(count).items() if versions[n] != unit}
            raise BrokenPromiseError(f"not the tree after {count} units: {sorted(wrong)}")
        if temporaries(self.root):
            raise BrokenPromiseError(f"left behind: {temporaries(self.root)}")
        if tidy and find_state(self.root).directory.exists():
            raise BrokenPromiseError("the journal's directory is left behind")
        return count


# -- stopping before each call ---------------------------------------------------------------------


def on_each_step(act: Callable[[int], None]) -> None:
    """Have ``act`` called, with a count from 1, before everything that changes the disk."""
    counter = itertools.count(1)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in CHANGING or (event == "open" and _writes(arguments)):
            act(next(counter))

    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        act(next(counter))
        return real(descriptor, data)

    sys.addaudithook(hook)
    os.write = write
    # What a process wrote outlives it without syncing, which is for a loss of power, and slow.
    os.fsync = lambda _: act(next(counter))


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def kill_at(step: int) -> Callable[[int], None]:
    def act(count: int) -> None:
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def fail_once_at(step: int) -> Callable[[int], None]:
    def act(count: int) -> None:
        if count == step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return act


def fail_from(step: int) -> Callable[[int], None]:
    def act(count: int) -> None:
        if count >= step:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    return act


def interrupt_at(step: int) -> Callable[[int], None]:
    def act(count: int) -> None:
        if count == step:
            signal.raise_signal(signal.SIGINT)

    return act


MANNERS = {
    "kill": kill_at,
    "fail-once": fail_once_at,
    "fail-from": fail_from,
    "interrupt": interrupt_at,
}


def in_a_child(action: Callable[[], object], act: Callable[[int], None]) -> int:
    """Run ``action`` in a process of its own; return how it ended: 0, 1 raised, -9 killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            on_each_step(act)
            action()
            code = 0
        except BaseException as error:
            if isinstance(error, AssertionError):
                code = 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def boundaries(manner: str, *, git: bool, backups: bool, twice: int) -> dict[str, int]:
    """Stop a write before each of its steps in turn; check what is left, mend it, check again.

    With ``twice``, on each so many steps the mending is stopped, too.
    """
    steps = mended = seen = 0
    kept: set[int] = set()
    for step in itertools.count(1):
        with _project(FILES, git=git) as project:
            ended = in_a_child(_writing(project, backups), MANNERS[manner](step))
            if ended == 0:
                # What could not be tidied up, the next run does.
                if project.held(tidy=False) != COUNT:
                    raise BrokenPromiseError("a run that came to its end wrote not everything")
                # A failure to tidy up is no failure, but there are more steps.
                if _is_past_the_end(step, git=git, backups=backups):
                    return {"steps": steps, "mended": mended, "states": len(kept), "again": seen}
            steps = step
            project.versions()
            if manner in ("fail-once", "interrupt"):
                # The process lived on: it had all the means to leave a whole tree.
                kept.add(project.held(tidy=False))
            if twice and step % twice == 0:
                seen += _kill_the_mending(project)
            mended += recover(project.root) is not None
            kept.add(project.held())
            _check_modes_and_backups(project, backups=backups)
    raise AssertionError("not reached")


FILES = 4
COUNT = 3


def _writing(project: Project, backups: bool) -> Callable[[], None]:
    units = project.units(0, COUNT)
    return lambda: write_units(project.root, units, backup_suffix=".orig" if backups else None)


def _is_past_the_end(step: int, *, git: bool, backups: bool) -> bool:
    with _project(FILES, git=git) as project:
        return in_a_child(_writing(project, backups), kill_at(step)) == 0


def _kill_the_mending(project: Project) -> int:
    """Kill the next run, too, at each of its steps, each time on a copy of the tree."""
    copy = project.root.with_name("copy")
    for step in itertools.count(1):
        shutil.copytree(project.root, copy)
        again = Project(copy, len(project.names))
        ended = in_a_child(functools.partial(recover, copy), kill_at(step))
        again.versions()
        recover(copy)
        again.held()
        shutil.rmtree(copy)
        if ended == 0:
            return step - 1
    raise AssertionError("not reached")


def _check_modes_and_backups(project: Project, *, backups: bool) -> None:
    last = project.last(project.held())
    for name, (data, mode) in snapshot(project.root).items():
        original = name.removesuffix(".orig")
        if mode != (0o755 if original.endswith("0.py") else 0o640):
            raise BrokenPromiseError(f"{name} has the mode {mode:o}")
        if name != original and data != project.content(original, -1):
            raise BrokenPromiseError(f"{name} is not the file as it was")
    for name, unit in last.items():
        if backups and (project.root / f"{name}.orig").exists() != (unit >= 0):
            raise BrokenPromiseError(f"{name}.orig is there, or is not, and should")


@contextlib.contextmanager
def _project(files: int, *, git: bool = True, seed: int = 0, widest: int = 5) -> Iterator[Project]:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "tree"
        project = Project(root, files, seed=seed, git=git, widest=widest)
        project.root.mkdir()
        project.make()
        yield project


# -- killing at random -----------------------------------------------------------------------------

# Replacing files is quick, preparing to is slow: wide units, so that kills fall within one.
WIDE = 60


def work(root: Path, files: int, seed: int, count: int) -> None:
    """One run: mend what the last one left, say so, write the next units, say so."""
    project = Project(root, files, seed=seed, widest=WIDE)
    recovery = recover(root)
    held = project.held()
    units = project.units(held, count)
    told = None if recovery is None else [bool(recovery.finished), len(recovery.left)]
    print(json.dumps({"held": held, "recovery": told}), flush=True)
    write_units(root, units)
    print("done", flush=True)


def stress(kills: int, files: int, seed: int, count: int) -> dict[str, object]:
    """Kill runs at random moments until there were so many kills; raise on a broken promise."""
    chance = random.Random(seed)
    figures = dict.fromkeys(
        ("runs", "kills", "while writing", "with temporary files", "finished", "dropped"), 0
    )
    with _project(files, seed=seed, widest=WIDE) as project:
        state = find_state(project.root)
        command = [sys.executable, __file__, "work", os.fspath(project.root)]
        command += [str(files), str(seed), str(count)]
        # How long a run writes depends on the machine: one is left alone, to know when to kill.
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            began = time.monotonic()
            process.stdout.read()
            length = time.monotonic() - began
        if process.returncode != 0:
            raise BrokenPromiseError(f"a run failed with {process.returncode}")
        while figures["kills"] < kills:
            figures["runs"] += 1
            began = time.monotonic()
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                if chance.random() < 0.8:
                    # Up to its first word it mends, and reads.
                    said = process.stdout.readline()
                    began = time.monotonic()
                    time.sleep(chance.random() * length)
                else:
                    time.sleep(chance.random() * 0.3)
                    said = ""
                process.kill()
                rest = process.stdout.read()
            said = said + rest
            if process.returncode not in (0, -signal.SIGKILL):
                raise BrokenPromiseError(f"a run failed with {process.returncode}")
            figures["kills"] += process.returncode == -signal.SIGKILL
            figures["while writing"] += state.journal.exists()
            figures["with temporary files"] += bool(temporaries(project.root))
            for line in said.splitlines():
                told = json.loads(line)["recovery"] if line.startswith("{") else None
                if told is not None:
                    figures["finished" if told[0] else "dropped"] += 1
                    if told[1]:
                        raise BrokenPromiseError("a file was taken for somebody's work")
            project.versions()
        recover(project.root)
        return {**figures, "files": files, "units written": project.held(), "seed": seed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("boundaries")
    command.add_argument("manner", choices=sorted(MANNERS))
    command.add_argument("--no-git", action="store_true")
    command.add_argument("--backups", action="store_true")
    command.add_argument("--twice", type=int, default=0, metavar="STEPS")
    command = commands.add_parser("stress")
    command.add_argument("--kills", type=int, default=200)
    command.add_argument("--files", type=int, default=300)
    command.add_argument("--units", type=int, default=20)
    command.add_argument("--seed", type=int, default=None)
    command = commands.add_parser("work")
    command.add_argument("root", type=Path)
    command.add_argument("numbers", type=int, nargs=3)
    chosen = parser.parse_args()
    if chosen.command == "work":
        work(chosen.root, *chosen.numbers)
        return
    if chosen.command == "stress":
        seed = random.randrange(1 << 32) if chosen.seed is None else chosen.seed
        print(f"seed {seed}", file=sys.stderr)
        figures: object = stress(chosen.kills, chosen.files, seed, chosen.units)
    else:
        figures = boundaries(
            chosen.manner, git=not chosen.no_git, backups=chosen.backups, twice=chosen.twice
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
