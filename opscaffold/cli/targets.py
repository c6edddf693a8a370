"""Files that a report or baseline may be written to: never one that holds something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from opscaffold.errors import UserError

if TYPE_CHECKING:
    from opscaffold.config.model import Config
    from opscaffold.source.project import Project

_SOURCES = frozenset({".py", ".pyi", ".ipynb", ".toml"})
_BASELINE_KEYS = frozenset({"version", "findings"})


def refuse_source(path: Path, flag: str, project: Project, config: Config) -> None:
    """Raise UserError where a file that is to be written is one that people write."""
    from opscaffold.fs.paths import real_path

    real = real_path(path)
    if real in project.files or real == config.file:
        raise UserError(f"{flag}: {path} is read by this check, and would be overwritten")
    if real.suffix in _SOURCES and real.exists():
        raise UserError(f"{flag}: {path} is there, and its name says that it is no report")


def refuse_no_baseline(path: Path) -> None:
    """Raise UserError where a file is there and is neither a baseline, of any version, nor empty.

    What cannot be read is left to whoever writes it.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return
    if data.strip() and not _is_baseline(data):
        raise UserError(f"--write-baseline: {path} is there, and is no baseline: remove it first")


def _is_baseline(data: bytes) -> bool:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.keys() <= _BASELINE_KEYS
