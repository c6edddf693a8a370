"""The tools that a rendered package is held to: how each is called, and whom its output blames."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscaffold.errors import UserError

if TYPE_CHECKING:
    from opscaffold.scaffold.matrix import Cell, Group

RENDER = "render"
LAST_LINES = 12

_FILE = re.compile(r"[^\s:'\"()]+\.\w+")

Blame = Mapping[str, Sequence[str]]
"""By the name of a cell, the lines that speak of it. Nobody's: under the empty name."""


@dataclass(frozen=True)
class Place:
    """A rendered package, and where tools may keep caches and temporary files."""

    group: Group
    path: Path
    private: Path

    @property
    def sources(self) -> str:
        """The import package, or the directory that holds it alone."""
        return "src" if (self.path / "src").is_dir() else self.group.spec.module


@dataclass(frozen=True)
class Tool:
    """One tool: ``arguments`` go behind ``python -m``; ``blame`` reads what it wrote in a red run.

    ``missed`` blames in a run that ended well. ``heavy`` tools import torch. ``ours`` are commands
    of opscaffold, which write JSON to stdout and the rest to stderr. ``needs`` are the modules that
    must be importable, by the names they are installed under.
    """

    name: str
    needs: tuple[str, ...]
    arguments: Callable[[Place], Sequence[str]]
    blame: Callable[[str, Group], Blame]
    missed: Callable[[str, Group], Blame] = lambda _, __: {}
    heavy: bool = False
    ours: bool = False


def by_file(output: str, group: Group, lines: Callable[[str], bool] = lambda _: True) -> Blame:
    """Blame the cell whose file a line names."""
    blamed: dict[str, list[str]] = {}
    for line in output.splitlines():
        if not lines(line):
            continue
        found = _FILE.search(line)
        cell = cell_of(found[0], group) if found else None
        if found:
            blamed.setdefault(cell.name if cell else "", []).append(line.strip())
    return blamed


def cell_of(path: str, group: Group) -> Cell | None:
    """The cell that a file of the package belongs to, by the file's name or a directory's."""
    parts = [part.partition(".")[0].lower() for part in re.split(r"[\\/]", path)]
    for part in reversed(parts):
        for cell in group.cells:
            if part in (cell.file, f"test_{cell.file}", f"{cell.file}_test"):
                return cell
    return None


def _of_mypy(output: str, group: Group) -> Blame:
    return by_file(output, group, lambda line: ": error:" in line)


def _of_format(output: str, group: Group) -> Blame:
    # Releases of ruff name the file in one line, or put the change below it.
    blamed: dict[str, list[str]] = {}
    name: str | None = None
    for line in output.splitlines():
        if line.strip().startswith(("Would reformat: ", "--> ", "error: ")):
            found = _FILE.search(line.replace("-->", ""))
            cell = cell_of(found[0], group) if found else None
            name = cell.name if cell else ""
        elif line.startswith("unformatted: ") or line.endswith(("reformatted", "formatted")):
            continue
        if name is not None and line.strip(" |"):
            blamed.setdefault(name, []).append(line.rstrip())
    return blamed


def _of_pytest(output: str, group: Group) -> Blame:
    return by_file(output, group, lambda line: line.startswith(("FAILED ", "ERROR ")))


def _of_findings(output: str, group: Group) -> Blame:
    document = _document(output)
    blamed: dict[str, list[str]] = {}
    for finding in document.get("findings", []):
        if finding.get("severity") == "info":
            continue
        cell = _of_op(str(finding.get("op") or ""), group) or cell_of(str(finding["path"]), group)
        line = f"{finding['path']}:{finding['line']}: {finding['code']} {finding['message']}"
        blamed.setdefault(cell.name if cell else "", []).append(line)
    return blamed


def _of_op(qualname: str, group: Group) -> Cell | None:
    from opscaffold.scaffold.answers import op_names

    name = qualname.rpartition("::")[2].partition(".")[0]
    return next((cell for cell in group.cells if name in op_names(cell.op)), None)


def _ops_missing(output: str, group: Group) -> Blame:
    """Nothing found is no good news where nothing was read."""
    names = {str(op["name"]).rpartition("::")[2] for op in _document(output).get("ops", [])}
    lost = [cell.name for cell in group.cells if cell.op.contract.name not in names]
    return dict.fromkeys(lost, ("the op was not found in the package",))


def _document(output: str) -> dict[str, Any]:
    try:
        document = json.loads(output)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "ruff",
            ("ruff",),
            lambda _: ("ruff", "check", "--no-cache", "--output-format", "concise", "."),
            by_file,
        ),
        Tool(
            "format",
            ("ruff",),
            lambda _: ("ruff", "format", "--no-cache", "--check", "."),
            _of_format,
        ),
        Tool(
            "mypy",
            ("mypy", "torch"),
            lambda place: (
                *("mypy", "--strict", "--no-error-summary", "--show-column-numbers"),
                *("--cache-dir", str(place.private / "mypy"), place.sources),
            ),
            _of_mypy,
        ),
        Tool(
            "pytest",
            ("pytest", "torch", "numpy"),
            lambda _: (
                *("pytest", "-q", "--tb=short", "--color=no", "-rfE"),
                *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"),
            ),
            _of_pytest,
            heavy=True,
        ),
        Tool(
            "check",
            (),
            lambda _: ("opscaffold", "check", "--root", ".", "--format", "json", "."),
            _of_findings,
            _ops_missing,
            ours=True,
        ),
        Tool(
            "verify",
            ("torch", "numpy"),
            lambda _: ("opscaffold", "verify", "--root", ".", "--format", "json", "--quiet", "."),
            _of_findings,
            _ops_missing,
            heavy=True,
            ours=True,
        ),
    )
}


def chosen_tools(names: Sequence[str]) -> list[Tool]:
    """The tools of those names, all where none is given.

    Raises UserError for a name that is none, and where a tool is not installed.
    """
    unknown = [name for name in names if name not in TOOLS]
    if unknown:
        raise UserError(f"--tool: there is no {unknown[0]!r}; there are {', '.join(TOOLS)}")
    tools = [tool for name, tool in TOOLS.items() if not names or name in names]
    needed = dict.fromkeys(module for tool in tools for module in tool.needs)
    missing = [module for module in needed if find_spec(module) is None]
    if missing:
        whom = ", ".join(tool.name for tool in tools if {*missing} & {*tool.needs})
        raise UserError(
            f"{', '.join(missing)} {'are' if len(missing) > 1 else 'is'} not installed, and "
            f"{whom} cannot run without: python -m pip install {' '.join(missing)}; or name the "
            "tools to run with --tool"
        )
    return tools
