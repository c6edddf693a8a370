"""How long opscaffold takes and how much memory it needs, beside what it is measured by.

Each row runs two commands in turn, several times, and prints the medians and the ratio of the
fastest runs: what else the machine does only ever adds time. Nothing here is asserted, and no
test depends on it.

    python benchmarks/run.py [--tree PATH] [--runs N] [--only WORD]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from trees import Shape, write_tree

ROOT = Path(__file__).resolve().parent.parent
OPSCAFFOLD = (sys.executable, "-m", "opscaffold")
GROWN = 20_000
CORES = 2

HELLO = """\
import typer

app = typer.Typer()


@app.command()
def main(name: str = "world") -> None:
    \"\"\"Greet somebody.\"\"\"
    typer.echo(f"Hello {name}")


if __name__ == "__main__":
    app()
"""
SMALL = """\
import torch


@torch.library.custom_op("demo::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _double_fake(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)
"""


@dataclass
class Runs:
    """The runs of one command: wall seconds, processor seconds and MiB of its largest process."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    memory: float = 0.0


class Bench:
    """Runs commands in turn, in a scratch directory, and prints a line for each pair."""

    def __init__(self, scratch: Path, runs: int, only: str) -> None:
        self.scratch, self.runs, self.only = scratch, runs, only
        self.environment = {
            **os.environ,
            "OPSCAFFOLD_CACHE_DIR": str(scratch / "cache"),
            "XDG_CACHE_HOME": str(scratch / "caches"),
        }
        # As installed, opscaffold and the peers find their bytecode beside them.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment.setdefault("PYTHONPYCACHEPREFIX", str(scratch / "bytecode"))

    def once(self, command: Sequence[str], into: Runs | None = None) -> None:
        """Run a command to its end, whatever it says."""
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        if into is not None:
            into.wall.append(time.perf_counter() - start)
            into.processor.append(usage.ru_utime + usage.ru_stime)
            # Kilobytes on Linux; this is the largest of the process and those it waited for.
            into.memory = max(into.memory, usage.ru_maxrss / 1024)

    def pair(
        self, what: str, bar: str, ours: Sequence[str], peer: Sequence[str], *, share: float = 1.0
    ) -> None:
        """Measure two commands in turn, after one run of each that does not count.

        ``share`` is how many of what the peer does once ours does.
        """
        if self.only not in what:
            return
        mine, theirs = Runs(), Runs()
        self.once(ours)
        self.once(peer)
        for _ in range(self.runs):
            self.once(ours, mine)
            self.once(peer, theirs)
        wall = min(mine.wall) / min(theirs.wall) / share
        processor = min(mine.processor) / min(theirs.processor) / share
        print(
            f"| {what} | {bar} | {statistics.median(mine.wall):.2f} s | "
            f"{statistics.median(theirs.wall):.2f} s | {wall:.3g}x | {processor:.3g}x | "
            f"{mine.memory:.0f} MiB |",
            flush=True,
        )

    def missing(self, what: str, why: str) -> None:
        """Say that a row could not be measured."""
        if self.only in what:
            print(f"| {what} | {why} | | | | | |", flush=True)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Measure opscaffold beside its peers.")
    parser.add_argument("--tree", type=Path, help="a real tree in place of the synthetic one")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command (default: 5)")
    parser.add_argument("--only", default="", metavar="WORD", help="rows that hold this word")
    parser.add_argument("--files", type=int, default=Shape().files, help="size of the tree")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory(prefix="opscaffold-bench-") as scratch:
        bench = Bench(Path(scratch), given.runs, given.only)
        print("| what | bar | opscaffold | peer | wall | processor | memory |")
        print("|---|---|---|---|---|---|---|")
        tree = given.tree
        if tree is None:
            tree = bench.scratch / "tree"
            write_tree(tree, Shape().scaled(given.files))
        _trees(bench, tree.resolve())
        _growth(bench)
        _start_up(bench)
        _new(bench)


def _trees(bench: Bench, tree: Path) -> None:
    check = (*OPSCAFFOLD, "check", "--root", str(tree), str(tree))
    anew = (*check, "--no-cache")
    ruff = _beside_python("ruff")
    if ruff is None:
        bench.missing("check, ruff", "ruff is not installed")
    else:
        bench.pair("check, ruff", "1x", anew, (ruff, "check", "--no-cache", str(tree)))
    torchfix = _beside_python("torchfix")
    if torchfix is None:
        bench.missing("check, torchfix", "torchfix is not installed")
    else:
        bench.pair("check, torchfix", "0.01x", anew, (torchfix, "-j2", str(tree)))
    migrate = (*OPSCAFFOLD, "migrate", "--root", str(tree), str(tree))
    bench.pair("migrate, check", "3x", migrate, anew)
    bench.pair("second check, check", "0.5x", check, anew)


def _growth(bench: Bench) -> None:
    what = "check of 20,000 files, of 2,500"
    if bench.only not in what:
        return
    small, large = bench.scratch / "small", bench.scratch / "large"
    write_tree(small, Shape().scaled(2500))
    write_tree(large, Shape().scaled(GROWN))
    check = (*OPSCAFFOLD, "check", "--no-cache")
    bench.pair(
        f"{what}, per file", "1.15x", (*check, str(large)), (*check, str(small)), share=GROWN / 2500
    )


def _start_up(bench: Bench) -> None:
    hello = bench.scratch / "hello.py"
    hello.write_text(HELLO)
    greet = (sys.executable, str(hello), "--help")
    helped = (*OPSCAFFOLD, "--help")
    bench.pair("--help, typer", "1.3x", helped, greet)
    one = bench.scratch / "one"
    one.mkdir()
    (one / "ops.py").write_text(SMALL)
    check = (*OPSCAFFOLD, "check", str(one / "ops.py"))
    bench.pair("check of one small file, --help", "1.5x", (*check, "--no-cache"), helped)
    bench.pair("second check of one small file, --help", "1.5x", check, helped)


def _new(bench: Bench) -> None:
    what = "new --defaults, cookiecutter"
    if bench.only not in what:
        return
    made = bench.scratch / "made"
    ours = (*OPSCAFFOLD, "new", "demo-ops", "--defaults", "--force", "--output-dir", str(made))
    bench.once(ours)
    package = next(made.iterdir())
    # The same files as a template of their own: cookiecutter takes no objects for answers.
    template = bench.scratch / "template"
    shutil.copytree(package, template / "{{cookiecutter.name}}")
    for path in template.rglob("*"):
        # Cookiecutter copies archives as they are.
        if path.is_file() and path.suffix != ".zip":
            text = path.read_text("utf-8").replace("{% endraw %}", "")
            path.write_text("{% raw %}" + text + "{% endraw %}", "utf-8")
    (template / "cookiecutter.json").write_text(json.dumps({"name": package.name}))
    peer = (sys.executable, "-m", "cookiecutter", "--no-input", "--overwrite-if-exists")
    output = ("--output-dir", str(bench.scratch / "theirs"), str(template))
    bench.pair(what, "1.2x", ours, (*peer, *output))


def _beside_python(name: str) -> str | None:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name)


if __name__ == "__main__":
    main()
