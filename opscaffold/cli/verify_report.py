"""What running ops showed, held back, placed and rendered."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from opscaffold.cli.outcome import Findings, Format
from opscaffold.cli.verify_run import OpResult, Outcome, Told
from opscaffold.config.model import Config
from opscaffold.findings.model import Finding, Position
from opscaffold.findings.promises import BY_CODE, PROMISES, Verdict
from opscaffold.report.json import finding_document
from opscaffold.report.order import in_order, relative_name
from opscaffold.rules.ignores import MARK
from opscaffold.rules.suppression import Suppression
from opscaffold.source.files import read_bytes
from opscaffold.source.project import load_project

if TYPE_CHECKING:
    from opscaffold.report.full import StyledLine
    from opscaffold.report.sarif import RuleText

_DEFINED = re.compile(r"(?:async\s+)?def\s+(\w+)")
_STYLES = {
    Verdict.SOUND: "green",
    Verdict.BREACH: "bold red",
    Verdict.LIMIT: "cyan",
    Verdict.UNDECIDED: "yellow",
}
_IGNORED = " (ignored)"


class Verified(Findings):
    """The findings of a run that stay, and the table of ops.

    ``codes`` are those that hold; comments and the configuration hold back more. Raises
    UnknownSelectorError for a rule in per-file-ignores that there is not.
    """

    def __init__(self, outcome: Outcome, root: Path, config: Config, codes: frozenset[str]) -> None:
        super().__init__(root, [])
        self.outcome = outcome
        placed = [self._placed(told) for told in outcome.told]
        kept = [finding for finding in placed if finding.code in codes]
        kept = self._held_back(kept, config)
        self._ignored = {
            op.name: _is_ignored(op, placed, kept) for op in outcome.ops if op.verdict is not None
        }
        self.findings = in_order(_with_limits_once(kept))

    def summary(self) -> str:
        """Return the counts in words."""
        from opscaffold.report.text import summary

        ops = len(self.outcome.ops)
        counts = [
            f"{sum(op.verdict is verdict for op in self.outcome.ops)} {word}"
            for verdict, word in (
                (Verdict.SOUND, "sound"),
                (Verdict.BREACH, "in breach"),
                (Verdict.UNDECIDED, "undecided"),
            )
            if any(op.verdict is verdict for op in self.outcome.ops)
        ]
        ran = f"{ops} op{'' if ops == 1 else 's'} run: {', '.join(counts)}"
        return f"{summary(self.findings)}; {ran}"

    def render(self, output_format: Format, output: Path | None, *, quiet: bool) -> str:
        """Return the report; text for stdout is written here, and nothing is returned."""
        from opscaffold import __version__
        from opscaffold.report.concise import render_concise, render_github
        from opscaffold.report.gitlab import render_gitlab
        from opscaffold.report.sarif import render_sarif

        match output_format:
            case Format.TEXT:
                shown, end = self.findings, self._end()
                if quiet:
                    shown = [each for each in shown if each.severity.value != "info"]
                    end = [[(self.summary(), "bold")]] if shown else []
                return self.text(shown, output, end)
            case Format.CONCISE:
                return render_concise(self.findings, self.root)
            case Format.GITHUB:
                return render_github(self.findings, self.root)
            case Format.GITLAB:
                return render_gitlab(self.findings, self.root, self._marks())
            case Format.JSON:
                return self._json()
            case Format.SARIF:
                return render_sarif(
                    self.findings,
                    self.root,
                    version=__version__,
                    rules=_rule_texts(),
                    fingerprints=self._marks(),
                )

    def _marks(self) -> dict[Finding, str]:
        from opscaffold.rules.baseline import fingerprints

        return fingerprints(self.findings, self.root, self.line_of)

    def _placed(self, told: Told) -> Finding:
        """Make a finding of what was told, at the name of the kernel's function."""
        promise = told.promise
        return Finding(
            promise.code,
            promise.name,
            promise.severity,
            self._position(told.path, told.line),
            told.message,
            told.op,
            promise.remedy,
        )

    def _position(self, path: Path, line: int) -> Position:
        """The name of the function that starts on a line, with its decorators; else the line."""
        lines = self.lines_of(path)
        for node in _functions(lines):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            match = _DEFINED.search(lines[node.lineno - 1]) if first == line else None
            if match is not None:
                return Position(path, node.lineno, match.start(1) + 1, match.end(1) + 1)
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        return Position(path, line, len(text) - len(text.lstrip()) + 1)

    def _held_back(self, findings: list[Finding], config: Config) -> list[Finding]:
        """Leave out what comments and the configuration hold back."""
        files = {path for op in self.outcome.ops for path in (op.path, op.defined[0])}
        files = {path for path in files if path.is_file()}
        marked = any(MARK in (read_bytes(path) or b"").lower() for path in files)
        if not files or not (marked or config.per_file_ignores):
            return findings
        # Where an op is defined is known from its source: a comment may stand at any of it.
        project = load_project(
            sorted(files), self.root, config.excluded(None), registrars=config.registrars
        )
        # Whether a comment is of use is not asked: not every promise was looked at.
        return Suppression(project, config).apply(findings, frozenset(BY_CODE))

    def _end(self) -> list[StyledLine]:
        head = ("op", "kind", "verdict", "samples")
        rows = [
            (op.name, op.kind, self._verdict(op), op.summary or str(op.samples))
            for op in self.outcome.ops
        ]
        wide = [max(len(row[n]) for row in (head, *rows)) for n in range(3)]
        styles = ["dim", *(_STYLES[op.verdict or Verdict.UNDECIDED] for op in self.outcome.ops)]
        lines: list[StyledLine] = []
        for row, style in zip((head, *rows), styles, strict=True):
            first, kind, verdict = (text.ljust(wide[n]) for n, text in enumerate(row[:3]))
            rest = "dim" if row is head else ""
            lines.append([(f"{first}  {kind}  ", rest), (verdict, style), (f"  {row[3]}", rest)])
        lines += [[], [(self._times(), "dim")]]
        if self.outcome.others:
            number = len(self.outcome.others)
            said = f"{number} op{'' if number == 1 else 's'} of installed packages not run"
            lines.append([(f"{said}: --op runs one", "dim")])
        return [*lines, [(self.summary(), "bold")]]

    def _times(self) -> str:
        spent = self.outcome.spent
        parts = [f"{what} {seconds:.1f} s" for what, seconds in spent.items() if seconds >= 0.05]
        return f"time: {sum(spent.values()):.1f} s ({', '.join(parts)})"

    def _verdict(self, op: OpResult) -> str:
        # An op whose worker ended in silence has none.
        verdict = Verdict.UNDECIDED if op.verdict is None else op.verdict
        return f"{verdict.value}{_IGNORED if self._ignored.get(op.name) else ''}"

    def _json(self) -> str:
        document = {
            "findings": [finding_document(each, self.root) for each in self.findings],
            "ops": [self._op_document(op) for op in self.outcome.ops],
            "not_run": self.outcome.others,
            "seconds": {what: round(spent, 3) for what, spent in self.outcome.spent.items()},
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def _op_document(self, op: OpResult) -> Mapping[str, object]:
        verdict = Verdict.UNDECIDED if op.verdict is None else op.verdict
        return {
            "name": op.name,
            "kind": op.kind,
            "schema": op.schema or None,
            "path": relative_name(op.path, self.root),
            "line": op.line,
            "verdict": verdict.value,
            "ignored": self._ignored.get(op.name, False),
            "samples": op.samples,
            "summary": op.summary,
            "seconds": round(op.seconds, 3),
        }


def _functions(lines: list[str]) -> Iterable[ast.FunctionDef | ast.AsyncFunctionDef]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _is_ignored(op: OpResult, placed: Iterable[Finding], kept: Iterable[Finding]) -> bool:
    """Whether all that led to an op's verdict is held back."""

    def led(findings: Iterable[Finding]) -> bool:
        return any(f.op == op.name and BY_CODE[f.code].verdict is op.verdict for f in findings)

    return op.verdict is not Verdict.SOUND and led(placed) and not led(kept)


def _with_limits_once(findings: Iterable[Finding]) -> list[Finding]:
    """Put the findings of one limit of PyTorch together: they say the same of every op."""
    found: list[Finding] = []
    limits: dict[str, list[Finding]] = {}
    for finding in findings:
        if BY_CODE[finding.code].verdict is Verdict.LIMIT:
            limits.setdefault(finding.code, []).append(finding)
        else:
            found.append(finding)
    for code, same in limits.items():
        first, *rest = in_order(same)
        names = list(dict.fromkeys(each.op for each in (first, *rest)))
        places = [each.position for each in rest if each.position != first.position]
        concerned = f"it concerns {', '.join(names)}"
        found.append(
            Finding(
                first.code,
                first.name,
                first.severity,
                first.position,
                f"{BY_CODE[code].summary} {concerned[:1].upper()}{concerned[1:]}.",
                first.op if len(names) == 1 else "",
                first.remedy,
                tuple(dict.fromkeys(places)),
            )
        )
    return found


def _rule_texts() -> list[RuleText]:
    from opscaffold.report.sarif import RuleText

    return [RuleText(p.code, p.name, p.severity, p.summary, p.why, p.remedy) for p in PROMISES]
