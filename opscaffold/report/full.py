"""Findings for people at length: the source at each place, the remedy, and what led there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TextIO

from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.report.excerpt import excerpt, visible
from opscaffold.report.order import in_order, place_name

Lines = Callable[[Path], Sequence[str]]
"""Gives the lines of a file as it was read; none for a file that could not be.

Those of a cell of a notebook are asked for as ``book.ipynb/cell 3``.
"""

Segment = tuple[str, str]
StyledLine = list[Segment]

DEFAULT_WIDTH = 100
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def full_lines(
    findings: Iterable[Finding], root: Path, lines: Lines, width: int = DEFAULT_WIDTH
) -> list[StyledLine]:
    """Return the report as lines of (text, style), each finding followed by an empty line.

    Sorted by place; paths are relative to ``root`` where they lie under it.
    """
    return [line for finding in in_order(findings) for line in _block(finding, root, lines, width)]


def plain(styled: Iterable[StyledLine]) -> str:
    """Return lines without their styles."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in styled)


def write_styled(styled: Iterable[StyledLine], stream: TextIO | None = None) -> None:
    """Write lines to a stream (stdout): in colour on a terminal, unless NO_COLOR is set."""
    out = sys.stdout if stream is None else stream
    if not out.isatty():
        out.write(plain(styled))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, soft_wrap=True, highlight=False)
    for line in styled:
        console.print(Text.assemble(*line))


def _block(finding: Finding, root: Path, lines: Lines, width: int) -> list[StyledLine]:
    place = finding.position
    style = _STYLES[finding.severity]
    first, *rest = finding.message.splitlines() or [""]
    block: list[StyledLine] = [
        [
            (f"{visible(_where(place, root))}: ", "bold"),
            (f"{finding.code} {finding.name}", style),
            (f": {visible(first)}", ""),
        ]
    ]
    gutter = " " * len(str(place.line))
    block += [[(f"{gutter}   {visible(line)}", "")] for line in rest]
    source = _line(lines, place)
    if source is not None:
        shown, carets = excerpt(source, place.column, width - len(gutter) - 3, place.end)
        block += [
            [(f"{gutter} |", "blue")],
            [(f"{place.line} | ", "blue"), (shown, "")],
            [(f"{gutter} | ", "blue"), (carets, style)],
        ]
    for spot in finding.evidence:
        where = f"{gutter} = see {visible(_where(spot, root))}"
        source = _line(lines, spot)
        shown = "" if source is None else excerpt(source, 1, max(width - len(where) - 2, 20))[0]
        block.append([(where, "dim"), (f": {shown.strip()}" if shown.strip() else "", "dim")])
    for number, line in enumerate(finding.remedy.splitlines()):
        lead = f"{gutter} = help: " if number == 0 else f"{gutter}   "
        block.append([(lead, "green"), (visible(line), "")])
    return [*block, []]


def _where(position: Position, root: Path) -> str:
    return place_name(position, root)


def _line(lines: Lines, position: Position) -> str | None:
    cell = () if position.cell is None else (f"cell {position.cell}",)
    found = lines(position.path.joinpath(*cell))
    return found[position.line - 1] if 0 < position.line <= len(found) else None
