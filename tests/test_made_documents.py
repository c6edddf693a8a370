"""The parts of the documentation that follow from the code are those that follow from it now."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from opscaffold.contract import decision

ROOT = Path(__file__).resolve().parent.parent
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "documents"), *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_made_from_the_code_is_up_to_date() -> None:
    done = run("--check")
    assert (done.returncode, done.stdout) == (0, ""), f"{done.stdout}{done.stderr}: make documents"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_whole_and_asks_for_nothing_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ET.fromstring(text)
    assert re.findall(r"(?:href|src|url)\s*[=(]\s*[\"']?https?:", text) == []


def test_the_picture_of_the_tree_has_every_question_and_every_end() -> None:
    tree = (ROOT / "docs" / "pictures" / "decision-tree.svg").read_text(encoding="utf-8")
    words = " ".join("".join(ET.fromstring(tree).itertext()).split())
    for question in decision.QUESTIONS.values():
        assert question.prompt in words
    for outcome in decision.OUTCOMES.values():
        assert outcome.title in words
    assert tree.count("marker-end") == len(list(decision.edges()))


def test_every_page_is_in_the_site() -> None:
    yaml = pytest.importorskip("yaml")
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = set(re.findall(r"[\w-]+\.md", str(site["nav"])))
    assert listed == {path.name for path in (ROOT / "docs").glob("*.md")}
    assert site["strict"] is True
