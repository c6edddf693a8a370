"""Which findings come of a change: those that were not there before it, and those it touches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from opscaffold.findings.model import Finding
from opscaffold.patterns import pattern
from opscaffold.rules.baseline import Entry, LineOf, entry_of
from opscaffold.source.model import Module, Op
from opscaffold.source.project import Project

Touches = Callable[[Path, int, int], bool]
"""Tells whether any line of a file, from a first to a last one, changed."""

_LINE_NUMBER = pattern(r"\bline \d+")

_Key = tuple[Entry, str]


def parted(
    findings: Iterable[Finding], project: Project, touches: Touches
) -> tuple[list[Finding], list[Finding]]:
    """Part findings into those that a change touches and the others.

    It touches one whose line it changed, or a line of its evidence, or of a registration or a
    function registered for its op.
    """
    ops: dict[str, list[Op]] = {}
    for op in project.all_ops:
        ops.setdefault(op.qualname, []).append(op)
    known: dict[str, bool] = {}

    def touched(finding: Finding) -> bool:
        for place in (finding.position, *finding.evidence):
            if touches(place.path, place.line, place.line):
                return True
        if finding.op not in known:
            known[finding.op] = any(
                touches(*span) for op in ops.get(finding.op, ()) for span in _spans(op)
            )
        return known[finding.op]

    parts: tuple[list[Finding], list[Finding]] = ([], [])
    for finding in findings:
        parts[0 if touched(finding) else 1].append(finding)
    return parts


def not_among(
    findings: Iterable[Finding],
    line_of: LineOf,
    earlier: Iterable[Finding],
    earlier_line_of: LineOf,
    root: Path,
    moved: Mapping[Path, Path],
) -> list[Finding]:
    """Return the findings that are none of the earlier ones.

    One stays the same while its file, code, op, message and the text of its line do, so that
    lines may come and go above it. ``moved`` tells which files bear another name now.
    """
    left: Counter[_Key] = Counter()
    for finding in earlier:
        path = finding.position.path
        now = replace(finding, position=replace(finding.position, path=moved.get(path, path)))
        left[_key(now, root, earlier_line_of(finding))] += 1
    new = []
    for finding in sorted(findings, key=lambda f: f.position):
        key = _key(finding, root, line_of(finding))
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return new


def _key(finding: Finding, root: Path, line: str) -> _Key:
    return entry_of(finding, root, lambda _: line), _LINE_NUMBER.sub("line", finding.message)


def _spans(op: Op) -> Iterator[tuple[Path, int, int]]:
    for registration in (op.definition, *op.attached):
        nodes = [registration.statement, registration.call, registration.operand]
        module = registration.module
        yield from (_span(module, node) for node in nodes if node is not None)
        if registration.function is not None:
            yield _span(registration.function_module or module, registration.function)


def _span(module: Module, node: object) -> tuple[Path, int, int]:
    first = getattr(node, "lineno", 1)
    lines = [first, *(d.lineno for d in getattr(node, "decorator_list", ()))]
    return module.path, min(lines), getattr(node, "end_lineno", None) or first
