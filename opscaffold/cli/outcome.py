"""What a check or a run found, as it is narrowed, counted and written."""

from __future__ import annotations

import enum
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscaffold.findings.model import Finding, Position
    from opscaffold.report.full import StyledLine
    from opscaffold.report.json import Repair
    from opscaffold.report.sarif import RuleText
    from opscaffold.rules.baseline import Baseline
    from opscaffold.source.project import Project


class Format(str, enum.Enum):
    """How findings are written. An Enum, since older releases of typer know no Literal."""

    TEXT = "text"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"


CheckBefore = Callable[
    ["Project", Mapping[Path, bytes | None], Mapping[Path, Path]], "Report | None"
]
"""Checks a project with other contents of files, and old names of files with the new ones.

None where nothing that is read differs.
"""


class Findings:
    """What was found, and the files that it is about, read from disk when they are shown."""

    def __init__(self, root: Path, findings: list[Finding]) -> None:
        self.root = root
        self.findings = findings
        self._lines: dict[Path, list[str]] = {}

    def fails(self) -> bool:
        """Whether anything found is more than a note."""
        return any(finding.severity.value != "info" for finding in self.findings)

    def line_of(self, finding: Finding) -> str:
        """Return the line that a finding is reported on; empty where there is none."""
        lines = self.lines_of(finding.position.path)
        number = finding.position.line
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def lines_of(self, path: Path) -> list[str]:
        """Return the lines of a file; none where it cannot be read."""
        if path not in self._lines:
            self._lines[path] = self._read_lines(path)
        return self._lines[path]

    def text(
        self, shown: list[Finding], output: Path | None, end: Sequence[StyledLine] = ()
    ) -> str:
        """Return findings at length and the lines behind them; write them where they go to stdout.

        What was written is not returned.
        """
        from opscaffold.report.full import DEFAULT_WIDTH, plain, write_styled

        here = output is None
        lines = [*self.styled(shown, terminal_width() if here else DEFAULT_WIDTH), *end]
        if not here:
            return plain(lines)
        write_styled(lines)
        return ""

    def styled(self, shown: list[Finding], width: int) -> list[StyledLine]:
        """Return findings at length, as lines of text with their styles."""
        from opscaffold.report.full import full_lines

        return full_lines(shown, self.root, self.lines_of, width)

    def _read(self, path: Path) -> bytes | None:
        from opscaffold.source.files import read_bytes

        return read_bytes(path)

    def _read_lines(self, path: Path) -> list[str]:
        from opscaffold.fs.text import SourceError, decode

        data = self._read(path)
        if data is None:
            return []
        try:
            text = decode(data, path).text
        except SourceError:
            text = data.decode("utf-8", "replace")
        return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


class Report(Findings):
    """What a check found in a project, narrowed and rendered."""

    def __init__(self, project: Project, findings: list[Finding]) -> None:
        super().__init__(project.root, findings)
        self.project = project
        self.accepted = 0

    def leave_out(self, known: Baseline) -> None:
        """Leave out what a baseline holds."""
        from opscaffold.rules.baseline import split

        self.findings, self.accepted = split(self.findings, known, self.project.root, self.line_of)

    def narrow_to_changes(self, revision: str, check_before: CheckBefore) -> None:
        """Keep what a revision did not have, and what lines touch that changed since."""
        from opscaffold.fs.git import Changed, changed_lines, contents_at
        from opscaffold.fs.paths import real_path
        from opscaffold.rules.changes import not_among, parted

        root = self.project.root
        changed = {real_path(p): lines for p, lines in changed_lines(root, revision).items()}
        none = Changed()

        def touches(path: Path, first: int, last: int) -> bool:
            # The lines of a notebook's file are not those of its cells.
            if self.project.cell_of(path, first) is not None:
                return False
            return changed.get(path, none).touches(first, last)

        kept, others = parted(self.findings, self.project, touches)
        if others:
            before = contents_at(root, revision)
            contents = {real_path(path): data for path, data in before.contents.items()}
            moved = {real_path(old): real_path(new) for old, new in before.moved.items()}
            then = check_before(self.project, contents, moved)
            if then is not None:
                kept += not_among(others, self.line_of, then.findings, then.line_of, root, moved)
        self.findings = kept

    def summary(self) -> str:
        """Return the counts in words."""
        from opscaffold.report.text import summary

        ops = len(self.project.ops)
        read = "1 op read" if ops == 1 else f"{ops} ops read"
        known = f", {self.accepted} more in the baseline" if self.accepted else ""
        return f"{summary(self.findings)}{known}; {read}"

    def to_keep(self, output_format: Format) -> dict[str, Any]:
        """Return what ``show_kept`` needs to report the same again, as JSON has it."""
        if output_format is Format.TEXT:
            shown = [self._in_cells(finding) for finding in self.findings]
            lines = [*self.styled(shown, terminal_width()), [(self.summary(), "bold")]]
            return {"fails": self.fails(), "lines": lines}
        return {"fails": self.fails(), "text": self.render(output_format, None)}

    def render(self, output_format: Format, output: Path | None) -> str:
        """Return the report; for text on a terminal write it, and return nothing."""
        root = self.project.root
        shown = [self._in_cells(finding) for finding in self.findings]
        match output_format:
            case Format.TEXT:
                return self.text(shown, output, [[(self.summary(), "bold")]])
            case Format.CONCISE:
                from opscaffold.report.concise import render_concise

                return render_concise(shown, root)
            case Format.GITHUB:
                from opscaffold.report.concise import render_github

                return render_github(shown, root)
            case Format.GITLAB:
                from opscaffold.report.gitlab import render_gitlab

                return render_gitlab(shown, root, self._marks())
            case Format.JSON:
                from opscaffold.cli.listing import op_records
                from opscaffold.report.json import render_json

                return render_json(
                    shown, root, ops=op_records(self.project), repairs=self._repairs(shown)
                )
            case Format.SARIF:
                from opscaffold import __version__
                from opscaffold.report.sarif import render_sarif

                return render_sarif(
                    shown,
                    root,
                    version=__version__,
                    rules=_rule_texts(),
                    fingerprints=self._marks(),
                    repairs=self._repairs(shown),
                )

    def _marks(self) -> dict[Finding, str]:
        """Return what tells each finding, as it is shown, from others."""
        from opscaffold.rules.baseline import fingerprints

        marks = fingerprints(self.findings, self.project.root, self.line_of)
        return {self._in_cells(finding): mark for finding, mark in marks.items()}

    def _in_cells(self, finding: Finding) -> Finding:
        """Return a finding with its places in a notebook as cell and line."""

        def placed(position: Position) -> Position:
            cell = self.project.cell_of(position.path, position.line)
            return position if cell is None else replace(position, cell=cell[0], line=cell[1])

        evidence = tuple(placed(spot) for spot in finding.evidence)
        return replace(finding, position=placed(finding.position), evidence=evidence)

    def _read(self, path: Path) -> bytes | None:
        return self.project.read(path)

    def _read_lines(self, path: Path) -> list[str]:
        if path.parent in self.project.selected:
            # A cell of a notebook.
            whole = self.lines_of(path.parent)
            places = enumerate(self.project.cell_of(path.parent, n + 1) for n in range(len(whole)))
            return [whole[n] for n, at in places if at is not None and path.name == f"cell {at[0]}"]
        return super()._read_lines(path)

    def _repairs(self, shown: list[Finding]) -> dict[Finding, Repair]:
        from opscaffold.rules.check import repair_of

        repairs: dict[Finding, Repair] = {}
        for finding in shown:
            if finding.position.cell is not None:
                # Notebooks are read, and never written.
                continue
            match repair_of(finding):
                case "safe":
                    repairs[finding] = "safe"
                case "unsafe":
                    repairs[finding] = "unsafe"
        return repairs


def terminal_width() -> int:
    """Return how wide a report on stdout is."""
    import shutil

    from opscaffold.report.full import DEFAULT_WIDTH

    return shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns


def show_kept(kept: dict[str, Any]) -> bool:
    """Write a report that ``to_keep`` returned, and return whether it ``fails``."""
    from opscaffold.report.full import write_styled

    if "lines" in kept:
        write_styled([[(text, style) for text, style in line] for line in kept["lines"]])
    else:
        write_report(kept["text"], None)
    return bool(kept["fails"])


def _rule_texts() -> list[RuleText]:
    from opscaffold.report.sarif import RuleText
    from opscaffold.rules.selection import everything

    return [RuleText(r.code, r.name, r.severity, r.summary, r.why, r.remedy) for r in everything()]


def write_report(text: str, output: Path | None) -> None:
    """Write a report to a file, or to stdout in UTF-8. Raises WriteError."""
    # In JSON, the escape of a byte that is no text is the one that JSON has for it.
    data = text.encode("utf-8", "backslashreplace")
    if output is not None:
        from opscaffold.fs.atomic import write_atomically

        write_atomically(output, data)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        # For programs, UTF-8 whatever the terminal's encoding is.
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(data.decode())
