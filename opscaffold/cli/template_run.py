"""Cells rendered into packages, and every tool run on every package."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import opscaffold
from opscaffold.cli.template_tools import LAST_LINES, RENDER, Place, Tool

if TYPE_CHECKING:
    from opscaffold.scaffold.matrix import Cell, Group

_UNWANTED = ("PYTEST_ADDOPTS", "MYPYPATH", "FORCE_COLOR", "MYPY_FORCE_COLOR", "PY_COLORS")
_WANTED = {"PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"}

_GRACE = 5.0


@dataclass(frozen=True)
class Red:
    """A tool's no to some cells of a package: all, where its output names none."""

    group: str
    tool: str
    cells: tuple[str, ...]
    output: tuple[str, ...]


@dataclass
class Result:
    """What became of all cells."""

    groups: Sequence[Group]
    tools: Sequence[str]
    reds: list[Red] = field(default_factory=list)
    # A package that could not be rendered is held to no tool.
    left_out: set[str] = field(default_factory=set)
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    wall: float = 0.0

    def verdict(self, cell: Cell, tool: str) -> str:
        """``green``, ``red``, or ``none`` where the tool had nothing to look at."""
        if any(r.tool == tool and cell.name in r.cells for r in self.reds):
            return "red"
        return "none" if tool != RENDER and cell.name in self.left_out else "green"

    def cost(self, tool: str) -> float:
        """The seconds that a tool took in all packages."""
        return sum(spent for (_, name), spent in self.seconds.items() if name == tool)


Told = Callable[[str, str, bool, float], None]
"""Hears of each run: package, tool, whether it is green, seconds."""


def run_cells(
    groups: Sequence[Group],
    tools: Sequence[Tool],
    directory: Path,
    private: Path,
    *,
    own: Path | None = None,
    jobs: int = 1,
    tell: Told = lambda *_: None,
) -> Result:
    """Render the groups into ``directory`` and run the tools on them, ``jobs`` at once.

    What the tools say is kept there in ``logs``. ``private`` is for their caches and temporary
    files. Whatever is raised, no process is left.
    """
    started = time.monotonic()
    result = Result(groups, (RENDER, *(tool.name for tool in tools)))
    places = [Place(*made, private) for made in _render(result, directory, own, tell)]
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    # Those that share a cache run one after the other.
    batches = [[(place, tool) for place in places for tool in tools if not tool.heavy]]
    batches += [[(place, tool)] for place in places for tool in tools if tool.heavy]
    lock = threading.Lock()
    processes = _Processes()

    def work(batch: Sequence[tuple[Place, Tool]]) -> None:
        for place, tool in batch:
            begun = time.monotonic()
            ended = processes.run(tool, place)
            if ended is None:
                return
            spent = time.monotonic() - begun
            log = logs / f"{place.group.name}-{tool.name}.log"
            log.write_text(ended.output + ended.errors, encoding="utf-8")
            reds = _reds(tool, place.group, ended)
            with lock:
                result.reds += reds
                result.seconds[place.group.name, tool.name] = spent
                tell(place.group.name, tool.name, not reds, spent)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for done in as_completed([pool.submit(work, batch) for batch in batches]):
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.end()
            raise
    result.wall = time.monotonic() - started
    return result


def _render(
    result: Result, directory: Path, own: Path | None, tell: Told
) -> Iterator[tuple[Group, Path]]:
    """Each group as far as it can be rendered, and where its package is."""
    from opscaffold.scaffold.matrix import Group

    # One after the other: rendering changes the working directory.
    for group in result.groups:
        begun = time.monotonic()
        said = _rendered(group, directory, own)
        sound = group.cells
        if said:
            alone = {c: _rendered(Group(group.name, (c,)), directory, own) for c in group.cells}
            sound = tuple(c for c in group.cells if not alone[c])
            # Where each can be rendered by itself, it is their being together.
            sound = () if len(sound) == len(group.cells) else sound
            for cell in group.cells:
                if cell not in sound:
                    lines = _last(alone[cell] or said)
                    result.reds.append(Red(group.name, RENDER, (cell.name,), lines))
                    result.left_out.add(cell.name)
        spent = time.monotonic() - begun
        result.seconds[group.name, RENDER] = spent
        tell(group.name, RENDER, not said, spent)
        left = Group(group.name, sound)
        if sound and (sound == group.cells or not _rendered(left, directory, own)):
            yield left, directory / group.name


def _rendered(group: Group, directory: Path, own: Path | None) -> str:
    """Render a group. Returns what is wrong with the templates, or nothing."""
    from opscaffold.scaffold.render import RenderError, render_package
    from opscaffold.scaffold.templates import TemplateError

    try:
        render_package(group.spec, directory, force=True, own=own)
    except (RenderError, TemplateError) as error:
        return str(error)
    return ""


def _reds(tool: Tool, group: Group, ended: _Ended) -> list[Red]:
    everyone = tuple(cell.name for cell in group.cells)
    blamed = (tool.missed if ended.code == 0 else tool.blame)(ended.output, group)
    if ended.code != 0 and not blamed:
        return [Red(group.name, tool.name, everyone, _last(ended.errors or ended.output))]
    return [
        Red(group.name, tool.name, (name,) if name else everyone, tuple(lines[-LAST_LINES:]))
        for name, lines in blamed.items()
    ]


def _last(output: str) -> tuple[str, ...]:
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    return tuple(lines[-LAST_LINES:])


@dataclass(frozen=True)
class _Ended:
    """A process that ended. ``errors`` is what came apart from the output."""

    code: int
    output: str
    errors: str


class _Processes:
    """The processes that run now: all can be ended at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False

    def run(self, tool: Tool, place: Place) -> _Ended | None:
        """Run a tool to its end; None where it was ended before, or not started."""
        with self._lock:
            if self._over:
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", *tool.arguments(place)],
                cwd=place.path,
                env=_environment(tool, place.private),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if tool.ours else subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="backslashreplace",
                start_new_session=True,
            )
            self._running.add(process)
        output, errors = process.communicate()
        with self._lock:
            self._running.discard(process)
            if self._over:
                return None
        return _Ended(process.returncode, output, errors or "")

    def end(self) -> None:
        """End them, with all that they started, and start no more."""
        with self._lock:
            self._over = True
            running = [*self._running]
        # Verify has a process of its own to end.
        for process in running:
            _signal(process, signal.SIGTERM)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
        for process in running:
            _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))


def _signal(process: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, number)
        else:
            process.kill()


def _environment(tool: Tool, private: Path) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k not in _UNWANTED} | _WANTED
    env["TMPDIR"] = str(private)
    # Tensors here are tiny, and the jobs fill the cores.
    env.setdefault("OMP_NUM_THREADS", "1")
    if tool.ours:
        here = str(Path(opscaffold.__file__).resolve().parent.parent)
        env["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [env.get("PYTHONPATH")])])
    return env
