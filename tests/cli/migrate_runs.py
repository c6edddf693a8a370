"""Running ``migrate`` on small projects within this process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opscaffold.cli import app

OPS = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out
"""
CALLER = """\
from ops import double
from torch import Tensor


def run(x: Tensor, buf: Tensor) -> Tensor:
    return double(x, out=buf)
"""
REPORTED = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::add", mutates_args=("acc",))
def add(x: Tensor, acc: Tensor | None = None) -> Tensor:
    if acc is None:
        acc = torch.zeros_like(x)
    acc.add_(x)
    return acc
"""
CLEAN = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::triple", mutates_args=())
def triple(x: Tensor) -> Tensor:
    return x * 3
"""


class Run:
    """One run of the command in a test's directory."""

    def __init__(self, capsysbinary: pytest.CaptureFixture[bytes], *arguments: str | Path) -> None:
        self.code = app.main(["migrate", *map(str, arguments)])
        out, err = capsysbinary.readouterr()
        self.out, self.err = out, err.decode()


def write(root: Path, **files: str) -> None:
    """Write files; ``__`` in a name is a slash."""
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def commit(root: Path) -> None:
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "all")
