"""The line length that an author set for their package, where it is another than was generated."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from opscaffold.fs.tree import Found, read_below
from opscaffold.scaffold.managed_files import Generated

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_RUFF = 88
_LEAST, _MOST = 20, 320
PYPROJECT = PurePosixPath("pyproject.toml")
# Ruff takes the first of these that is there.
_OWN = (PurePosixPath(".ruff.toml"), PurePosixPath("ruff.toml"))


def line_length(root: Path, generated: Mapping[PurePosixPath, Generated]) -> int | None:
    """The line length that ruff is told at ``root``; None where it is the generated one.

    What cannot be read, or is no length that ruff takes, says nothing.
    """
    found = _told(root)
    pyproject = generated.get(PYPROJECT)
    if pyproject is not None:
        usual = _length(_table(pyproject.data).get("tool", {}).get("ruff", {}))
        return None if found == usual else found
    return found


def _told(root: Path) -> int | None:
    for path in _OWN:
        data = _read(root, path)
        if data is not None:
            return _length(_table(data), _RUFF)
    data = _read(root, PYPROJECT)
    tool = _table(data).get("tool", {}) if data is not None else {}
    ruff = tool.get("ruff") if isinstance(tool, dict) else None
    return _length(ruff, _RUFF) if isinstance(ruff, dict) else None


def _read(root: Path, path: PurePosixPath) -> bytes | None:
    found = read_below(root, path)
    return found.data if isinstance(found, Found) else None


def _table(data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return {}


def _length(table: Any, default: int | None = None) -> int | None:
    value = table.get("line-length", default) if isinstance(table, dict) else None
    return value if isinstance(value, int) and _LEAST <= value <= _MOST else default
