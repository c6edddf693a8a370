"""What ``--diff-base`` reports: what a revision did not have, and what changed lines touch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from checking import BREACH, Checker

OPS = """\
import torch
from torch import Tensor

WRITTEN = ("x",)


def helper(x):
    return x.clone()


@torch.library.custom_op("demo::first", mutates_args=("x",))
def first(x: Tensor) -> None:
    print(x)
    x.add_(1)


@torch.library.custom_op("demo::second", mutates_args=WRITTEN)
def second(x: Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("demo::third", mutates_args=())
def third(x: Tensor) -> Tensor:
    helper(x)
    return x + 1


@third.register_fake
def _(x):
    return torch.empty_like(x)


run = torch.compile(third)
"""


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture
def committed(project: Checker) -> Checker:
    project.write("ops.py", OPS)
    git(project.directory, "init", "-q")
    git(project.directory, "add", "-A")
    git(project.directory, "commit", "-q", "-m", "start")
    assert project.found() == []
    return project


def codes(project: Checker, *arguments: str) -> list[str]:
    return sorted(code for _, _, code in project.found(*arguments))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('mutates_args=("x",)', "mutates_args=()", "OPS301"),
        ('WRITTEN = ("x",)', "WRITTEN = ()", "OPS301"),
        ("    print(x)\n    x.add_(1)\n", "    print(x)\n", "OPS302"),
        ("return x.clone()", "return x.add_(1)", "OPS301"),
        ("@third.register_fake\ndef _(x):\n    return torch.empty_like(x)\n\n\n", "", "OPS110"),
    ],
    ids=["the declaration", "a constant", "a removed write", "a helper", "a removed fake"],
)
def test_what_a_change_breaks_is_reported_wherever_it_is_seen(
    committed: Checker, old: str, new: str, code: str
) -> None:
    assert old in OPS
    committed.write("ops.py", OPS.replace(old, new, 1))
    assert codes(committed) == [code]
    assert codes(committed, "--diff-base", "HEAD") == [code]


def test_what_breaks_in_another_file_is_reported(project: Checker) -> None:
    project.write("pkg/__init__.py", "")
    project.write("pkg/low.py", "def helper(x):\n    return x.clone()\n")
    project.write(
        "pkg/ops.py",
        OPS.replace("def helper(x):\n    return x.clone()\n", "from .low import helper\n"),
    )
    git(project.directory, "init", "-q")
    git(project.directory, "add", "-A")
    git(project.directory, "commit", "-q", "-m", "start")
    project.write("pkg/low.py", "def helper(x):\n    x.zero_()\n    return x.clone()\n")
    assert codes(project, "--diff-base", "HEAD") == ["OPS301"]


@pytest.fixture
def broken(project: Checker) -> Checker:
    project.write("ops.py", BREACH)
    git(project.directory, "init", "-q")
    git(project.directory, "add", "-A")
    git(project.directory, "commit", "-q", "-m", "start")
    assert codes(project, "--select", "OPS101") == ["OPS101"]
    return project


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ops.py", "# Shifted.\n\n" + BREACH),
        ("ops.py", BREACH + "\n\ndef unrelated():\n    return 1\n"),
        ("new.py", "def unrelated():\n    return 1\n"),
        ("README.md", "# Words\n"),
    ],
    ids=["shifted", "below", "elsewhere", "no Python"],
)
def test_what_a_change_leaves_alone_is_not_reported(broken: Checker, name: str, text: str) -> None:
    broken.write(name, text)
    assert codes(broken, "--diff-base", "HEAD") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def double(x: Tensor", "def double( x: Tensor"),
        ("torch.mul(x, 2,", "torch.mul(x, 2.0,"),
        ('"demo::double", mutates', '"demo::double",  mutates'),
        ("torch.empty_like(x) if out is None else out", "torch.empty_like(x)"),
    ],
    ids=["head", "kernel", "decorator", "fake"],
)
def test_an_old_breach_is_reported_where_its_op_was_touched(
    broken: Checker, old: str, new: str
) -> None:
    assert old in BREACH
    broken.write("ops.py", BREACH.replace(old, new))
    assert "OPS101" in codes(broken, "--diff-base", "HEAD")


def test_a_breach_beside_one_like_it_is_new(broken: Checker) -> None:
    broken.write(
        "ops.py", BREACH + "\n\n" + BREACH.partition("\n\n\n")[2].replace("demo::", "more::")
    )
    found = broken.found("--select", "OPS101", "--diff-base", "HEAD")
    assert [line > len(BREACH.splitlines()) for _, line, _ in found] == [True]


def test_a_moved_file_brings_nothing_new(broken: Checker) -> None:
    git(broken.directory, "mv", "ops.py", "moved.py")
    assert codes(broken) != []
    assert codes(broken, "--diff-base", "HEAD") == []
    assert codes(broken, "moved.py", "--diff-base", "HEAD") == []


def test_an_ignore_comment_that_a_change_makes_idle_is_reported(project: Checker) -> None:
    ignored = '"demo::double", mutates_args=("out",))  # opscaffold: ignore[OPS101]'
    project.write("ops.py", BREACH.replace('"demo::double", mutates_args=("out",))', ignored))
    git(project.directory, "init", "-q")
    git(project.directory, "add", "-A")
    git(project.directory, "commit", "-q", "-m", "start")
    text = (project.directory / "ops.py").read_text("utf-8")
    project.write(
        "ops.py", text.replace("Tensor | None = None", "Tensor").replace("is None", "is 1")
    )
    assert "OPS002" in codes(project, "--diff-base", "HEAD")
