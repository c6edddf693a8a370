"""Every rule fires on its own hits, and on nothing else of them than it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.rules.base import Rule
from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

RULES = all_rules()


def reported(rule: Rule, source: str, directory: Path) -> list[str]:
    (directory / "module.py").write_text(source, "utf-8")
    project = load_project([directory], directory)
    assert not project.problems
    return [finding.code for finding in apply_rules(project, [rule])]


def cases(kind: str) -> list[object]:
    return [
        pytest.param(rule, source, id=f"{rule.code}-{number}")
        for rule in RULES
        for number, source in enumerate(getattr(rule, kind))
    ]


@pytest.mark.parametrize(("rule", "source"), cases("hits"))
def test_hit(rule: Rule, source: str, tmp_path: Path) -> None:
    found = reported(rule, source, tmp_path)
    assert found
    assert set(found) == {rule.code}


@pytest.mark.parametrize(("rule", "source"), cases("misses"))
def test_near_miss(rule: Rule, source: str, tmp_path: Path) -> None:
    assert reported(rule, source, tmp_path) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_rule_is_complete(rule: Rule) -> None:
    assert len(rule.hits) >= 3
    assert len(rule.misses) >= 3
    assert rule.summary.endswith(".")
    assert rule.why.endswith(".")
    assert (rule.of_op is None) != (rule.of_project is None)


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)
