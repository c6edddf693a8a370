from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from opscaffold.cli.app import main
from opscaffold.findings.promises import PROMISES, Promise
from opscaffold.rules.document import page
from opscaffold.rules.notices import MIGRATION_NOTES, Notice
from opscaffold.rules.selection import coded, everything

CODES = [rule.code for rule in everything()]
ALL_CODES = [each.code for each in coded()]


def explain(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    return capsys.readouterr().out


def test_without_an_argument_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    out = explain(capsys)
    assert re.findall(r"^  (OPS\d+)", out, re.MULTILINE) == ALL_CODES
    assert re.findall(r"^  (functional|in-place|out=|mutable) ", out, re.MULTILINE) == [
        "functional",
        "in-place",
        "out=",
        "mutable",
    ]


@pytest.mark.parametrize("code", CODES)
def test_every_rule_is_explained_by_code_and_by_name(
    capsys: pytest.CaptureFixture[str], code: str
) -> None:
    rule = next(rule for rule in everything() if rule.code == code)
    out = explain(capsys, code)
    assert out == explain(capsys, rule.name) == explain(capsys, code.lower())
    assert out.startswith(f"# {code} {rule.name}\n\n{rule.summary}\n")
    assert rule.why in out
    assert rule.hits[0].strip() in out
    assert rule.misses[0].strip() in out
    ast.parse(rule.misses[0])


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.code)
def test_what_verify_shows_is_explained_by_code_and_by_name(
    capsys: pytest.CaptureFixture[str], promise: Promise
) -> None:
    out = explain(capsys, promise.code)
    assert out == explain(capsys, promise.name) == explain(capsys, promise.code.lower())
    assert out.startswith(f"# {promise.code} {promise.name}\n\n{promise.summary}\n")
    assert promise.why in out
    assert "`opscaffold verify`" in out


@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("functional", "Functional op"),
        ("in-place", "In-place op"),
        ("inplace", "In-place op"),
        ("out", "out= op"),
        ("out=", "out= op"),
        ("Mutable", "Mutable op"),
    ],
)
def test_a_kind_is_explained(capsys: pytest.CaptureFixture[str], word: str, title: str) -> None:
    out = explain(capsys, word)
    assert out.startswith(f"# {title}\n\n- mutates_args")
    assert "- Does it write to any Tensor that it is given?" in out


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("maybe-ot", "'maybe-out'"),
        ("OPS0011", "'OPS001'"),
        ("OSP101", "'OPS101'"),
        ("OPS9", "lists all"),
        ("zzz", "lists all"),
    ],
)
def test_an_unknown_word_names_what_is_near(
    capsys: pytest.CaptureFixture[str], word: str, hint: str
) -> None:
    assert main(["explain", word]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("start", ["OPS1", "ops10", "OPS7", "OPS", "all"])
def test_the_start_of_codes_lists_their_rules(
    capsys: pytest.CaptureFixture[str], start: str
) -> None:
    codes = [c for c in ALL_CODES if start == "all" or c.startswith(start.upper())]
    assert len(codes) > 1
    assert re.findall(r"^  (OPS\d+)", explain(capsys, start), re.MULTILINE) == codes


@pytest.mark.parametrize("code", CODES)
def test_what_to_do_is_whole_sentences(capsys: pytest.CaptureFixture[str], code: str) -> None:
    (said,) = re.findall(r"\*\*What to do\.\*\* (.*)", explain(capsys, code))
    assert re.search(r"[.!] (It has to|`opscaffold migrate`)[^.]*\.$", said)


@pytest.mark.parametrize("note", MIGRATION_NOTES, ids=lambda note: note.code)
def test_a_note_of_migrate_is_explained(capsys: pytest.CaptureFixture[str], note: Notice) -> None:
    out = explain(capsys, note.code)
    assert out == explain(capsys, note.name)
    assert out.startswith(f"# {note.code} {note.name}\n\n{note.summary}\n")
    assert "Only `migrate` reports this" in out


def test_the_page_takes_no_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--page", "OPS001"]) == 2
    assert "--page" in capsys.readouterr().err


def test_the_page_of_rules_is_current(
    capsys: pytest.CaptureFixture[str], repository_root: Path
) -> None:
    held = (repository_root / "docs" / "rules.md").read_text("utf-8")
    assert held == page(), "run: opscaffold explain --page > docs/rules.md"
    assert explain(capsys, "--page") == held


def test_every_anchor_of_the_page_leads_to_a_heading() -> None:
    headings = {
        re.sub(r"[^a-z0-9 _-]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in page().splitlines()
        if line.startswith("#")
    }
    anchors = set(re.findall(r"\]\(#([^)]+)\)", page()))
    assert anchors
    assert anchors <= headings
