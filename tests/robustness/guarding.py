"""A guard, the attack that it stops, and what takes the guard away."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opscaffold.errors import UserError

PRECIOUS = "precious\n"


@dataclass(frozen=True)
class Guard:
    """``attack`` gets an empty directory and tells whether it did harm; errors are no harm."""

    attack: Callable[[Path], bool]
    remove: Callable[[pytest.MonkeyPatch], None]


def does_harm(guard: Guard, directory: Path) -> bool:
    return guard.attack(directory)


def refused(act: Callable[[], object]) -> None:
    """Do what a guard may refuse."""
    with contextlib.suppress(UserError):
        act()


def replaced(owner: object, name: str, value: object) -> Callable[[pytest.MonkeyPatch], None]:
    """What puts another thing in a guard's place."""
    return lambda monkeypatch: monkeypatch.setattr(owner, name, value)


def outside(directory: Path) -> Path:
    """A file beside the project, which nobody may touch."""
    path = directory / "outside"
    path.write_text(PRECIOUS, "utf-8")
    return path


def is_harmed(path: Path) -> bool:
    return not path.is_file() or path.read_text("utf-8") != PRECIOUS


def project(directory: Path, **files: str) -> Path:
    root = Path(os.path.realpath(directory)) / "project"
    root.mkdir()
    for name, text in files.items():
        (root / f"{name}.py").write_text(text, "utf-8")
    return root


def without_arguments(*dropped: str) -> Callable[[pytest.MonkeyPatch], None]:
    """What calls programs without some arguments; of ``-c NAME=VALUE`` both words go."""
    import subprocess

    def remove(monkeypatch: pytest.MonkeyPatch) -> None:
        run = subprocess.run

        def less(command: list[str], **options: Any) -> Any:
            kept: list[str] = []
            for word in command:
                if not word.startswith(dropped):
                    kept.append(word)
                elif kept[-1:] == ["-c"]:
                    kept.pop()
            return run(kept, **options)

        monkeypatch.setattr(subprocess, "run", less)

    return remove
