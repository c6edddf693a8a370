"""Paths as files of a project are named: one for each file."""

from __future__ import annotations

import os
from pathlib import Path


def real_path(path: Path) -> Path:
    """Return the absolute path without symlinks; a link that leads to itself stays in it."""
    # Path.resolve raises RuntimeError for such a link, up to Python 3.12.
    return Path(os.path.realpath(path))
