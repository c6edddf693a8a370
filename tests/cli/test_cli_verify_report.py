from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from opscaffold.cli.outcome import Format
from opscaffold.cli.verify_report import Verified
from opscaffold.cli.verify_run import OpResult, Outcome, Told
from opscaffold.config.model import Config
from opscaffold.findings.promises import (
    CRASHED,
    FORWARD_MODE_SILENT,
    NOT_COVERED,
    PROMISES,
    RETURN_SHARES_MEMORY,
    UNDECLARED_WRITE,
    Promise,
    Verdict,
)

SOURCE = """\
import torch


@torch.library.custom_op("demo::f", mutates_args=())
def f(x: torch.Tensor) -> torch.Tensor:
    return x


@torch.library.custom_op("demo::g", mutates_args=())
def g(x: torch.Tensor) -> torch.Tensor:
    return x + 1
"""
ALL = frozenset(promise.code for promise in PROMISES)
F, G = 4, 9


class Made:
    """A project with two ops, and reports on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "ops.py"
        self.path.write_text(SOURCE, "utf-8")
        self.config = Config()
        self.codes = ALL

    def report(self, *told: tuple[Promise, str, str]) -> Verified:
        outcome = Outcome(spent={"import torch": 1.25, "aliasing": 0.5, "samples": 0.001})
        for name, line in (("demo::f", F), ("demo::g", G)):
            verdicts = [promise.verdict for promise, op, _ in told if op == name]
            worst = next(
                (v for v in (Verdict.BREACH, Verdict.UNDECIDED) if v in verdicts), Verdict.SOUND
            )
            place = (self.path, line)
            schema = f"{name}(Tensor x) -> Tensor"
            op = OpResult(name, "functional", schema, *place, place, worst, 7, "7 samples", 0.25)
            outcome.ops.append(op)
        for promise, name, message in told:
            line = F if name == "demo::f" else G
            outcome.told.append(Told(promise, name, self.path, line, message))
        return Verified(outcome, self.root, self.config, self.codes)

    def text(self, *told: tuple[Promise, str, str], quiet: bool = False) -> str:
        return self.report(*told).render(Format.TEXT, self.root / "out.txt", quiet=quiet)

    def json(self, *told: tuple[Promise, str, str]) -> dict[str, Any]:
        text = self.report(*told).render(Format.JSON, None, quiet=False)
        document: dict[str, Any] = json.loads(text)
        return document


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


SHARED = (RETURN_SHARES_MEMORY, "demo::f", "the return shares memory with the argument x")


def test_a_finding_stands_at_the_name_of_the_kernel(made: Made) -> None:
    text = made.text(SHARED)
    assert "ops.py:5:5: OPS702 return-shares-memory: the return shares" in text
    assert "5 | def f(x: torch.Tensor)" in text
    (finding,) = made.json(SHARED)["findings"]
    assert (finding["line"], finding["column"], finding["end_column"]) == (5, 5, 6)
    assert (finding["severity"], finding["op"]) == ("error", "demo::f")


def test_the_text_ends_with_verdicts_and_times(made: Made) -> None:
    *_, head, first, second, gap, times, total = made.text(SHARED).splitlines()
    assert head.split() == ["op", "kind", "verdict", "samples"]
    assert first.split(maxsplit=3) == ["demo::f", "functional", "breach", "7 samples"]
    assert second.split(maxsplit=3) == ["demo::g", "functional", "sound", "7 samples"]
    assert gap == ""
    assert times == "time: 1.8 s (import torch 1.2 s, aliasing 0.5 s)"
    assert total == "1 finding (1 error); 2 ops run: 1 sound, 1 in breach"


def test_a_limit_of_pytorch_is_said_once_with_the_ops_concerned(made: Made) -> None:
    report = made.report(
        (FORWARD_MODE_SILENT, "demo::g", "told of g"), (FORWARD_MODE_SILENT, "demo::f", "told of f")
    )
    (finding,) = report.findings
    assert finding.message == f"{FORWARD_MODE_SILENT.summary} It concerns demo::f, demo::g."
    assert finding.position.line == 5
    assert [spot.line for spot in finding.evidence] == [10]
    assert not report.fails()


def test_only_notes_do_not_fail(made: Made) -> None:
    assert not made.report((NOT_COVERED, "demo::f", "line 6")).fails()
    assert made.report((CRASHED, "demo::f", "it died")).fails()
    assert made.report(SHARED).fails()


def test_json_has_ops_with_verdict_samples_and_time(made: Made) -> None:
    document = made.json(SHARED)
    assert document["ops"][0] == {
        "name": "demo::f",
        "kind": "functional",
        "schema": "demo::f(Tensor x) -> Tensor",
        "path": "ops.py",
        "line": 4,
        "verdict": "breach",
        "ignored": False,
        "samples": 7,
        "summary": "7 samples",
        "seconds": 0.25,
    }
    assert document["seconds"] == {"import torch": 1.25, "aliasing": 0.5, "samples": 0.001}
    assert document["not_run"] == []


def test_sarif_describes_every_promise(made: Made) -> None:
    text = made.report(SHARED).render(Format.SARIF, None, quiet=False)
    (run,) = json.loads(text)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == sorted(ALL)
    (result,) = run["results"]
    assert result["ruleId"] == "OPS702"
    assert "partialFingerprints" in result


def test_concise_is_one_line_a_finding(made: Made) -> None:
    crash = (CRASHED, "demo::g", "it died; the last it wrote:\n  | a\n  | b")
    text = made.report(SHARED, crash).render(Format.CONCISE, None, quiet=False)
    assert len(text.splitlines()) == 2
    text = made.report(SHARED, crash).render(Format.GITHUB, None, quiet=False)
    assert text.startswith("::error title=OPS702 return-shares-memory,file=ops.py,line=5,col=5")


def test_quiet_says_what_needs_a_person_and_nothing_else(made: Made) -> None:
    note = (NOT_COVERED, "demo::g", "line 11")
    assert made.text(note, quiet=True) == ""
    text = made.text(note, SHARED, quiet=True)
    assert "OPS702" in text
    assert "OPS794" not in text
    assert "verdict" not in text
    assert text.endswith("1 in breach\n")


@pytest.mark.parametrize(
    ("line", "comment", "holds"),
    [
        (4, "OPS702", True),
        (5, "return-shares-memory", True),
        (5, "OPS101", False),
        (9, "OPS702", False),
        (6, "OPS702", False),
    ],
)
def test_a_comment_on_the_definition_holds_it_back(
    made: Made, line: int, comment: str, holds: bool
) -> None:
    lines = SOURCE.splitlines()
    lines[line - 1] += f"  # opscaffold: ignore[{comment}]"
    made.path.write_text("\n".join(lines), "utf-8")
    report = made.report(SHARED, (UNDECLARED_WRITE, "demo::g", "it writes x"))
    assert [f.code for f in report.findings] == (["OPS704"] if holds else ["OPS702", "OPS704"])
    assert made.json(SHARED)["ops"][0]["ignored"] is holds
    text = made.text(SHARED)
    assert bool(re.search(r"demo::f +functional +breach \(ignored\)", text)) is holds
    assert made.report(SHARED).fails() is not holds


def test_files_and_codes_are_left_out_by_the_configuration(made: Made) -> None:
    made.codes = ALL - {"OPS702"}
    assert made.report(SHARED).findings == []
    made.codes = ALL
    made.config = Config(per_file_ignores=(("*.py", ("OPS7",)),))
    assert made.report(SHARED).findings == []


def test_a_kernel_that_is_no_file_is_reported_all_the_same(made: Made) -> None:
    report = made.report()
    report.outcome.told.append(Told(CRASHED, "demo::f", Path("<string>"), 3, "it died"))
    shown = Verified(report.outcome, made.root, made.config, ALL)
    text = shown.render(Format.TEXT, made.root / "out.txt", quiet=False)
    assert text.startswith("<string>:3:1: OPS792 crashed: it died")
