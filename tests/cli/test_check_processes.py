"""``check`` says the same whether a second process looks through the files or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import BREACH, CLEAN, Checker

from opscaffold.cli import check_reading
from opscaffold.fs import twin
from opscaffold.source import scanner

CALLER = """\
import torch
from ops import double


def run(x):
    compiled = torch.compile(double)
    return compiled(x).requires_grad_(), torch.ops.demo.doubled(x)  # opscaffold: ignore[OPS101]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch, capsys) -> Checker:
    monkeypatch.chdir(tmp_path)
    made = Checker(tmp_path, capsys)
    made.write("ops.py", BREACH)
    made.write("more/clean.py", CLEAN)
    made.write("caller.py", CALLER)
    made.write("talk.py", '"""On custom_op."""\nx = 1\n')
    for number in range(60):
        made.write(f"part/m{number}.py", f"x_{number} = 1\n")
    return made


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Make the project count as a large one; the second processes that are started."""
    started: list[object] = []

    def start(serve):
        started.append(twin.start_twin(serve))
        return started[-1]

    monkeypatch.setattr(check_reading, "MANY", 10)
    monkeypatch.setattr(scanner, "start_twin", start)
    monkeypatch.setattr(twin, "_can_fork", lambda: twin.sys.platform not in ("win32", "darwin"))
    return started


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_the_report_does_not_depend_on_the_number_of_processes(project, twins, monkeypatch, form):
    said = []
    for cores in (1, 2):
        monkeypatch.setattr(twin, "cores", lambda cores=cores: cores)
        said.append(project.run("--no-cache", "--format", form))
    assert said[0] == said[1]
    assert said[0][0] == 1
    assert "OPS101" in said[0][1]
    assert "OPS603" in said[0][1]
    assert twins[0] is None
    assert twins[1] is not None or twin.sys.platform in ("win32", "darwin")


def test_the_second_process_is_ended_whatever_happens(project, twins, monkeypatch):
    monkeypatch.setattr(twin, "cores", lambda: 2)
    closed = []
    close = twin.Twin.close
    monkeypatch.setattr(twin.Twin, "close", lambda self: closed.append(self) or close(self))
    code, _, err = project.run("--no-cache", "--select", "OPS999")
    assert code == 2
    assert "OPS999" in err
    assert closed == [each for each in twins if each is not None]


def test_a_small_project_is_looked_through_by_one_process(project, twins, monkeypatch):
    monkeypatch.setattr(check_reading, "MANY", 1000)
    monkeypatch.setattr(twin, "cores", lambda: 2)
    assert project.run("--no-cache")[0] == 1
    assert twins == []
