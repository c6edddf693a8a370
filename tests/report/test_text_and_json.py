from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.report.json import render_json
from opscaffold.report.ops import KernelRecord, OpRecord, Place
from opscaffold.report.text import render_text, summary

ROOT = Path("/project")


def finding(
    path: str = "pkg/ops.py", line: int = 3, column: int = 1, code: str = "OPS001", **more: object
) -> Finding:
    fields: dict[str, object] = {
        "name": "maybe-out",
        "severity": Severity.ERROR,
        "message": "returns its buffer",
        "op": "ns::f",
    }
    return Finding(code=code, position=Position(ROOT / path, line, column), **(fields | more))  # type: ignore[arg-type]


def test_a_finding_is_one_line_with_its_remedy_below() -> None:
    text = render_text([finding(remedy="split the op\nby hand")], ROOT)
    assert text == (
        "pkg/ops.py:3:1: OPS001 maybe-out: returns its buffer\n    split the op\n    by hand\n"
    )


def test_evidence_names_each_place() -> None:
    places = (Position(ROOT / "pkg/ops.py", 9, 5), Position(Path("/elsewhere/x.py"), 1, 2))
    assert render_text([finding(evidence=places)], ROOT).splitlines()[1:] == [
        "    see pkg/ops.py:9:5",
        "    see /elsewhere/x.py:1:2",
    ]


def test_the_order_does_not_depend_on_the_order_given() -> None:
    several = [
        finding(),
        finding(line=20),
        finding(line=3, column=2),
        finding(code="OPS000"),
        finding("a.py", line=99),
        finding(op="ns::e"),
    ]
    texts = {render_text(each, ROOT) for each in itertools.permutations(several)}
    documents = {render_json(each, ROOT) for each in itertools.permutations(several)}
    assert len(texts) == len(documents) == 1
    heads = [line.split(" ")[0] for line in texts.pop().splitlines()]
    assert heads[0] == "a.py:99:1:"
    assert heads[-1] == "pkg/ops.py:20:1:"


def test_equal_findings_are_shown_once() -> None:
    assert render_text([finding(), finding()], ROOT).count("\n") == 1


def test_no_findings_give_no_text() -> None:
    assert render_text([], ROOT) == ""


@pytest.mark.parametrize(
    ("severities", "expected"),
    [
        ([], "0 findings"),
        ([Severity.ERROR], "1 finding (1 error)"),
        ([Severity.WARNING] * 2 + [Severity.INFO], "3 findings (2 warnings, 1 note)"),
    ],
)
def test_the_summary_counts_by_severity(severities: list[Severity], expected: str) -> None:
    several = [finding(line=n, severity=each) for n, each in enumerate(severities, 1)]
    assert summary(several) == expected


def test_json_holds_every_field() -> None:
    one = finding(evidence=(Position(ROOT / "b.py", 1, 2),), remedy="split it")
    other = finding("z.py", op="", severity=Severity.INFO)
    op = OpRecord(
        name="ns::f",
        kind="mutable",
        form="decorator",
        path=ROOT / "pkg/ops.py",
        line=3,
        function="f",
        mutates=("out",),
        schema=None,
        kernels=(KernelRecord("custom_op", "f", ROOT / "pkg/ops.py", 4, "opaque"),),
        registrations=(Place("custom_op", "decorator", ROOT / "pkg/ops.py", 3),),
    )
    document = json.loads(render_json([other, one], ROOT, ops=[op], repairs={one: "safe"}))
    assert document == {
        "findings": [
            {
                "code": "OPS001",
                "name": "maybe-out",
                "severity": "error",
                "path": "pkg/ops.py",
                "line": 3,
                "column": 1,
                "end_column": None,
                "op": "ns::f",
                "message": "returns its buffer",
                "remedy": "split it",
                "evidence": [{"path": "b.py", "line": 1, "column": 2}],
                "repair": "safe",
            },
            {
                "code": "OPS001",
                "name": "maybe-out",
                "severity": "info",
                "path": "z.py",
                "line": 3,
                "column": 1,
                "end_column": None,
                "op": None,
                "message": "returns its buffer",
                "remedy": None,
                "evidence": [],
                "repair": None,
            },
        ],
        "ops": [
            {
                "name": "ns::f",
                "kind": "mutable",
                "form": "decorator",
                "path": "pkg/ops.py",
                "line": 3,
                "function": "f",
                "mutates": ["out"],
                "schema": None,
                "kernels": [
                    {
                        "role": "custom_op",
                        "function": "f",
                        "path": "pkg/ops.py",
                        "line": 4,
                        "sight": "opaque",
                    }
                ],
                "registrations": [
                    {"role": "custom_op", "form": "decorator", "path": "pkg/ops.py", "line": 3}
                ],
            }
        ],
    }
