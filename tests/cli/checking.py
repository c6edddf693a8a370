"""Running ``check`` on small projects within this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opscaffold.cli.app import main

BREACH = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, 2, out=out)


@double.register_fake
def _(x, out=None):
    return torch.empty_like(x) if out is None else out
"""
CLEAN = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::triple", mutates_args=())
def triple(x: Tensor) -> Tensor:
    return x * 3


@triple.register_fake
def _(x):
    return torch.empty_like(x)
"""


class Checker:
    """A project in a directory of its own, which is the current one."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.capsys = capsys

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of ``opscaffold check``."""
        self.capsys.readouterr()
        code = main(["check", *arguments])
        shown = self.capsys.readouterr()
        return code, shown.out, shown.err

    def document(self, *arguments: str) -> dict[str, Any]:
        _, out, _ = self.run("--format", "json", *arguments)
        document: dict[str, Any] = json.loads(out)
        return document

    def found(self, *arguments: str) -> list[tuple[str, int, str]]:
        """Path, line and code of each finding."""
        findings = self.document(*arguments)["findings"]
        return [(f["path"], f["line"], f["code"]) for f in findings]
