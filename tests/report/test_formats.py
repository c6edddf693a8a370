"""Findings as SARIF, as annotations, on one line, and at length."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from sarif_shape import faults

from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.report.concise import render_concise, render_github
from opscaffold.report.excerpt import cells, excerpt
from opscaffold.report.full import full_lines, plain, write_styled
from opscaffold.report.gitlab import render_gitlab
from opscaffold.report.ops import KernelRecord, OpRecord, Place, render_ops
from opscaffold.report.sarif import RuleText, render_sarif

ROOT = Path("/project")
RULES = (
    RuleText("OPS001", "unreadable", Severity.WARNING, "A.", "B.", "c"),
    RuleText("OPS101", "maybe-out", Severity.ERROR, "A.", "B.", "c"),
)
SOURCE = {ROOT / "pkg/my ops.py": ["import torch", "def f(x, out=None):", "\treturn x"]}


def finding(line: int = 2, column: int = 10, **more: Any) -> Finding:
    fields: dict[str, Any] = {
        "code": "OPS101",
        "name": "maybe-out",
        "severity": Severity.ERROR,
        "message": "`out` is returned",
        "op": "ns::f",
        "remedy": "split it",
        "position": Position(ROOT / "pkg/my ops.py", line, column),
    }
    return Finding(**(fields | more))


def sarif(findings: list[Finding], **more: Any) -> Any:
    return json.loads(render_sarif(findings, ROOT, version="1.2", rules=RULES, **more))


EVERY = [
    finding(),
    finding(severity=Severity.INFO, evidence=(Position(Path("/else where/x.py"), 3, 4),)),
    finding(code="OPS001", name="unreadable", severity=Severity.WARNING, op="", remedy=""),
    finding(position=Position(ROOT / "é%#?.py", 1, 1)),
    finding(code="OPS999", message="of a rule that is not described"),
]


def test_sarif_has_the_shape_that_its_schema_demands() -> None:
    document = sarif(EVERY, fingerprints={EVERY[0]: "f" * 32}, repairs={EVERY[0]: "safe"})
    assert list(faults(document)) == []
    assert len(document["runs"][0]["results"]) == len(EVERY)
    assert list(faults(sarif([]))) == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda run: run.pop("tool"), "lacks tool"),
        (lambda run: run.update(extra=1), "extra is no property"),
        (lambda run: run["results"][0].update(level="info"), "'info' is none of"),
        (lambda run: run["results"][0].pop("message"), "lacks message"),
        (lambda run: run["results"][0]["locations"][0].update(physicalLocation=3), "no object"),
    ],
)
def test_the_shape_refuses_what_is_no_sarif(spoil: Any, said: str) -> None:
    document = sarif(EVERY)
    spoil(document["runs"][0])
    assert any(said in fault for fault in faults(document))


def test_sarif_says_what_was_found() -> None:
    one = finding(evidence=(Position(ROOT / "b.py", 1, 2),))
    run = sarif([one], fingerprints={one: "abc"}, repairs={one: "safe"})["runs"][0]
    assert run["results"] == [
        {
            "ruleId": "OPS101",
            "level": "error",
            "message": {"text": "`out` is returned\nsplit it"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "pkg/my%20ops.py", "uriBaseId": "ROOT"},
                        "region": {"startLine": 2, "startColumn": 10},
                    }
                }
            ],
            "ruleIndex": 1,
            "relatedLocations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "b.py", "uriBaseId": "ROOT"},
                        "region": {"startLine": 1, "startColumn": 2},
                    }
                }
            ],
            "partialFingerprints": {"opscaffold/v1": "abc"},
            "properties": {"op": "ns::f", "repair": "safe"},
        }
    ]
    assert run["originalUriBaseIds"] == {"ROOT": {"uri": "file:///project/"}}


def test_an_annotation_escapes_what_would_end_it() -> None:
    odd = finding(
        message="50% of\nthis: x, y",
        remedy="",
        severity=Severity.INFO,
        position=Position(ROOT / "a,b:c%.py", 1, 2),
    )
    assert render_github([odd], ROOT) == (
        "::notice title=OPS101 maybe-out,file=a%2Cb%3Ac%25.py,line=1,col=2::50%25 of%0Athis: x, y\n"
    )


@pytest.mark.parametrize(
    ("severity", "command"), [(Severity.ERROR, "error"), (Severity.WARNING, "warning")]
)
def test_an_annotation_has_its_severity(severity: Severity, command: str) -> None:
    assert render_github([finding(severity=severity)], ROOT).startswith(f"::{command} ")


def test_concise_is_one_line_a_finding() -> None:
    odd = finding(message="two\nlines \x1b[31m", line=1)
    assert render_concise([finding(), odd], ROOT) == (
        "pkg/my ops.py:1:10: OPS101 maybe-out: two lines \\x1b[31m\n"
        "pkg/my ops.py:2:10: OPS101 maybe-out: `out` is returned\n"
    )


def full(*findings: Finding, width: int = 80) -> str:
    return plain(full_lines(findings, ROOT, lambda path: SOURCE.get(path, []), width))


def test_the_full_report_shows_the_place() -> None:
    one = finding(
        evidence=(Position(ROOT / "pkg/my ops.py", 3, 2), Position(ROOT / "gone.py", 1, 1)),
        remedy="split it\nor not",
        message="first\nsecond",
    )
    assert full(one) == (
        "pkg/my ops.py:2:10: OPS101 maybe-out: first\n"
        "    second\n"
        "  |\n"
        "2 | def f(x, out=None):\n"
        "  |          ^^^\n"
        "  = see pkg/my ops.py:3:2: return x\n"
        "  = see gone.py:1:1\n"
        "  = help: split it\n"
        "    or not\n"
        "\n"
    )


@pytest.mark.parametrize("line", [0, 4, 99])
def test_a_place_that_is_not_in_the_file_has_no_excerpt(line: int) -> None:
    assert " |" not in full(finding(line=line))


def test_the_full_report_does_not_depend_on_the_order_given() -> None:
    assert len({full(*each) for each in itertools.permutations(EVERY[:4])}) == 1


@pytest.mark.parametrize(
    ("line", "column", "shown", "carets"),
    [
        ("    x = value(1)", 9, "x = value(1)", "    ^^^^^"),
        ("\tif x:\ty", 8, "if x:    y", "         ^"),
        ("x", 9, "x", " ^"),
        ("", 1, "", "^"),
        ("a = '数値' + value", 12, "a = '数値' + value", "             ^^^^^"),
        ("a\x1b[0m = b", 1, "a\\x1b[0m = b", "^"),
        ("    x", 1, "    x", "^"),
    ],
)
def test_carets_stand_below_the_word(line: str, column: int, shown: str, carets: str) -> None:
    assert excerpt(line, column, 60) == (shown, carets)


@pytest.mark.parametrize(
    ("line", "column", "end", "shown", "carets"),
    [
        ("    x = value(1)", 9, 17, "x = value(1)", "    ^^^^^^^^"),
        ("x = '数値'.f(y)", 5, 14, "x = '数値'.f(y)", "    ^^^^^^^^^^^"),
        ("\treturn\tx", 2, 10, "return    x", "^^^^^^^^^^^"),
        ("x", 1, 99, "x", "^"),
        ("value", 1, 1, "value", "^^^^^"),
    ],
)
def test_carets_stand_below_all_that_is_marked(
    line: str, column: int, end: int, shown: str, carets: str
) -> None:
    assert excerpt(line, column, 60, end) == (shown, carets)


def test_of_a_long_expression_the_start_is_marked() -> None:
    shown, carets = excerpt("x = f(" + "a, " * 40 + "b)", 5, 60, 128)
    assert shown.startswith("x = f(a, a, ")
    assert shown.endswith("...")
    assert carets == "    " + "^" * (len(shown) - 4)
    assert 50 <= len(shown) <= 60


def test_the_end_of_a_place_is_told_to_programs() -> None:
    one = dataclasses.replace(finding(), position=Position(ROOT / "pkg/my ops.py", 2, 10, 13))
    assert "col=10,endColumn=12::" in render_github([one], ROOT)
    document = json.loads(render_sarif([one], ROOT, version="1", rules=[]))
    (location,) = document["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"]["region"] == {
        "startLine": 2,
        "startColumn": 10,
        "endColumn": 13,
    }


@pytest.mark.parametrize("width", [20, 33, 80])
@pytest.mark.parametrize("column", [1, 50, 150, 290, 301])
@pytest.mark.parametrize("text", ["ab, " * 75, "数値, " * 75, "x" * 300])
def test_an_excerpt_fits_and_shows_the_place(text: str, column: int, width: int) -> None:
    shown, carets = excerpt(text, column, width)
    assert cells(shown) <= width
    assert cells(carets) <= width + 1
    start = len(carets) - len(carets.lstrip())
    assert carets.strip("^ ") == ""
    if column <= len(text.rstrip()):
        assert start < cells(shown)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, **environment: str) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    lines = full_lines([finding(message="[red]m[/red]")], ROOT, lambda p: SOURCE.get(p, []), 80)
    write_styled(lines, stream)
    return stream.getvalue()


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = written(monkeypatch, io.StringIO())
    assert "\x1b" not in bare
    assert "[red]m[/red]" in bare
    coloured = written(monkeypatch, Terminal())
    assert "\x1b[1;31m" in coloured
    assert "[red]m[/red]" in coloured
    refused = written(monkeypatch, Terminal(), NO_COLOR="1")
    assert "\x1b[1;31m" not in refused
    assert "31m" not in refused


def test_ops_are_a_table() -> None:
    first = OpRecord(
        "ns::f",
        "mutable",
        "define (Library method)",
        ROOT / "a.py",
        3,
        "f",
        ("out", "x"),
        "ns::f(Tensor x) -> ()",
        (KernelRecord("impl", "f", ROOT / "a.py", 4, "opaque"),),
        (
            Place("define", "Library method", ROOT / "a.py", 3),
            Place("impl", "call", ROOT / "b.py", 4),
        ),
    )
    second = OpRecord("ns::longer", "?", "x", ROOT / "a.py", 1, None, None, None)
    assert render_ops([first, second], ROOT) == (
        "OP          KIND     FORM                     MUTATES  KERNELS   DEFINED\n"
        "ns::longer  ?        x                        ?        -         a.py:1\n"
        "ns::f       mutable  define (Library method)  out, x   1 opaque  a.py:3\n"
        "    schema: ns::f(Tensor x) -> ()\n"
        "    impl: b.py:4\n"
    )


def test_gitlab_gets_each_finding_with_a_mark_of_its_own() -> None:
    alike = [finding(line=2), finding(line=9), finding(code="OPS001", name="unreadable")]
    issues = json.loads(render_gitlab(alike, ROOT, {alike[0]: "a", alike[1]: "a"}))
    assert {issue["location"]["lines"]["begin"] for issue in issues} == {2, 9}
    assert len({issue["fingerprint"] for issue in issues}) == 3
    first = next(issue for issue in issues if issue["check_name"] == "OPS101 maybe-out")
    assert first["location"]["path"] == "pkg/my ops.py"
    assert first["description"] == "`out` is returned (split it)"
    assert first["severity"] == "major"


@pytest.mark.parametrize(
    ("severity", "named"),
    [(Severity.ERROR, "major"), (Severity.WARNING, "minor"), (Severity.INFO, "info")],
)
def test_gitlab_has_its_own_words_for_severity(severity: Severity, named: str) -> None:
    (issue,) = json.loads(render_gitlab([finding(severity=severity)], ROOT, {}))
    assert issue["severity"] == named


def test_gitlab_knows_a_finding_again_when_lines_move() -> None:
    def mark(line: int) -> str:
        moved = finding(line=line)
        (issue,) = json.loads(render_gitlab([moved], ROOT, {moved: "same"}))
        return str(issue["fingerprint"])

    assert mark(2) == mark(80)
