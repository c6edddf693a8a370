"""``check`` and ``migrate`` on files that nobody wrote for them: those of this Python, of its
packages, of any tree.

Each file is copied into a project of its own. It is checked; it is migrated and must keep its
bytes where it registers nothing; then its functions are registered as ops, and the program that
this makes is checked and migrated too: no fault, no hang, and what is written is Python that a
second run leaves alone.

As a program: ``stress.py [TREE ...]``, by default over the standard library and site-packages.
A worker process does the work, so that even a crash of the interpreter is only a fault.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import PIPE
from types import FrameType

sys.path.insert(0, str(Path(__file__).parent))
from planting import PLANTERS

from opscaffold.cli.app import main
from opscaffold.fs.text import SourceError, decode
from opscaffold.source.words import may_register

SLOW = 5.0  # seconds of this process for one command on one file
HANG = 60.0
OK, FOUND = 0, 1
SKIPPED = {"__pycache__", "node_modules", ".git", "site-packages"}


@dataclass(frozen=True)
class Fault:
    """What went wrong with a file, and what it was made of."""

    path: str
    made: str
    what: str


class Hang(BaseException):
    """A command that took longer than a hang may take."""


class Stress:
    """Runs the commands on one file after another, in a project made for each."""

    def __init__(self, directory: Path, *, slow: float = SLOW) -> None:
        self.root = directory
        self.slow = slow
        self.faults: list[Fault] = []
        self.runs = 0
        self.rewritten = 0
        self.slowest = 0.0
        (directory / "pyproject.toml").write_text("[project]\nname = 'stress'\n", "utf-8")

    def file(self, path: Path, planters: Sequence[str]) -> None:
        """Do all that is done with a file."""
        data = path.read_bytes()
        self._program(path, "as it is", data, planted=False)
        text = _text(data, path)
        if text is None:
            return
        for name in planters:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    program = PLANTERS[name](text)
                    ast.parse(program)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                # No Python, or what `ast.unparse` cannot write.
                continue
            self._program(path, name, program.encode("utf-8", "surrogatepass"), planted=True)

    def _program(self, path: Path, made: str, data: bytes, *, planted: bool) -> None:
        # The name matters: a directory of tests, an __init__.py.
        copy = self.root / path.name
        copy.write_bytes(data)
        try:
            self._run(path, made, "check", str(copy), "--format", "json")
            self._run(path, made, "migrate", "--write", "--unsafe", str(copy))
            now = copy.read_bytes()
            if now == data:
                return
            self.rewritten += 1
            if not planted and not may_register(data):
                self._fault(path, made, "changed, and registers nothing")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ast.parse(now)
            except (SyntaxError, ValueError) as error:
                self._fault(path, made, f"migrated into what is no Python: {error}")
            self._run(path, made, "migrate", "--write", "--unsafe", str(copy))
            if copy.read_bytes() != now:
                self._fault(path, made, "changed again by a second migrate")
        finally:
            copy.unlink()

    def _run(self, path: Path, made: str, *arguments: str) -> None:
        self.runs += 1
        said = io.StringIO()
        started = time.process_time()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                with _limited(HANG):
                    code = main([*arguments, "--root", str(self.root)])
            except Hang:
                self._fault(path, made, f"{arguments[0]} hung for {HANG:.0f} s")
                return
        took = time.process_time() - started
        self.slowest = max(self.slowest, took)
        if code not in (OK, FOUND):
            last = next((t for t in said.getvalue().split("\n") if "rror" in t), "")
            self._fault(path, made, f"{arguments[0]} exits with {code}: {last[:300]}")
        if took > self.slow:
            self._fault(path, made, f"{arguments[0]} takes {took:.1f} s")

    def _fault(self, path: Path, made: str, what: str) -> None:
        self.faults.append(Fault(str(path), made, what))


def _text(data: bytes, path: Path) -> str | None:
    try:
        return decode(data, path).text.replace("\r\n", "\n").replace("\r", "\n")
    except SourceError:
        return None


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def files_of(trees: Sequence[Path]) -> list[Path]:
    """Every Python file of the trees, links left out."""
    found = []
    for tree in trees:
        for directory, names, files in os.walk(tree):
            names[:] = sorted(set(names) - SKIPPED)
            paths = [Path(directory, name) for name in sorted(files) if name.endswith(".py")]
            found += [path for path in paths if path.is_file() and not path.is_symlink()]
    return list(dict.fromkeys(found))


def sample(files: Sequence[Path], base: Path, share: float) -> list[Path]:
    """A part of the files, the same wherever ``base`` lies."""

    def rank(path: Path) -> int:
        name = path.relative_to(base).as_posix() if path.is_relative_to(base) else path.name
        return int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big")

    return [path for path in files if rank(path) < share * 2**64]


def _work(planters: Sequence[str]) -> None:
    """Read a list of files from stdin and tell of each on stdout, for the process above."""
    out = sys.stdout
    with tempfile.TemporaryDirectory(prefix="opscaffold-stress-") as directory:
        stress = Stress(Path(directory))
        for line in sys.stdin.read().split("\0"):
            if not line:
                continue
            stress.file(Path(line), planters)
            told = {
                "faults": [asdict(fault) for fault in stress.faults],
                "runs": stress.runs,
                "rewritten": stress.rewritten,
                "slowest": stress.slowest,
            }
            out.write(json.dumps(told) + "\n")
            out.flush()
            stress.faults, stress.runs, stress.rewritten = [], 0, 0


def _all(files: Sequence[Path], planters: Sequence[str]) -> list[Fault]:
    faults: list[Fault] = []
    counts: Counter[str] = Counter()
    slowest = 0.0
    left = list(files)
    started = time.monotonic()
    while left:
        part, told = left[:200], 0
        worker = [sys.executable, __file__, "--worker", "--planters", ",".join(planters)]
        with subprocess.Popen(worker, stdin=PIPE, stdout=PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\0".join(map(str, part)))
            process.stdin.close()
            for line in process.stdout:
                result = json.loads(line)
                told += 1
                for each in result["faults"]:
                    print(f"  {each['path']} ({each['made']}): {each['what']}", flush=True)
                    faults.append(Fault(**each))
                counts.update(runs=result["runs"], rewritten=result["rewritten"])
                slowest = max(slowest, result["slowest"])
        if told < len(part):
            faults.append(
                Fault(str(part[told]), "", f"the process ended with {process.returncode}")
            )
            print(f"  {part[told]}: the process ended with {process.returncode}", flush=True)
            told += 1
        left = left[told:]
    print(
        f"{len(files)} files, {counts['runs']} runs, {counts['rewritten']} programs rewritten, "
        f"slowest run {slowest:.1f} s, {len(faults)} faults, "
        f"{time.monotonic() - started:.0f} s in all"
    )
    return faults


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE")
    parser.add_argument("--share", type=float, default=1.0, help="part of the files, by their hash")
    parser.add_argument(
        "--planters",
        default=",".join(PLANTERS),
        help="how functions are made ops, with commas; empty for files as they are only",
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    planters = [name for name in given.planters.split(",") if name]
    if given.worker:
        _work(planters)
        return 0
    trees = given.trees or [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")]
    failed = False
    seen: set[Path] = set()
    for tree in dict.fromkeys(trees):
        files = [f for f in sample(files_of([tree]), tree, given.share) if f not in seen]
        seen |= set(files)
        print(f"{tree}:", flush=True)
        failed = bool(_all(files, planters)) or failed
    return int(failed)


if __name__ == "__main__":
    sys.exit(_main())
