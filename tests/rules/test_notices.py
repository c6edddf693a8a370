"""Notices fire on their own examples, as rules do."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.config.model import Config
from opscaffold.rules.check import check_project
from opscaffold.rules.notices import NOTICES, Notice
from opscaffold.rules.selection import chosen
from opscaffold.source.project import load_project


def reported(source: str, directory: Path) -> set[str]:
    path = directory / "module.py"
    path.write_text(source, "utf-8")
    project = load_project([path], directory)
    project.module_for(path)
    return {f.code for f in check_project(project, Config(), chosen([])) if f.code < "OPS1"}


def cases(kind: str) -> list[object]:
    return [
        pytest.param(notice, source, id=f"{notice.code}-{number}")
        for notice in NOTICES
        for number, source in enumerate(getattr(notice, kind))
    ]


@pytest.mark.parametrize(("notice", "source"), cases("hits"))
def test_hit(notice: Notice, source: str, tmp_path: Path) -> None:
    assert reported(source, tmp_path) == {notice.code}


@pytest.mark.parametrize(("notice", "source"), cases("misses"))
def test_near_miss(notice: Notice, source: str, tmp_path: Path) -> None:
    assert reported(source, tmp_path) == set()
