"""Which file that is no longer generated goes on under another name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePosixPath

from opscaffold.scaffold.managed_files import Generated

# Shares of lines in common. Modules of two ops of one kind have up to nine tenths: only a name
# that says so, or hardly a change, makes one file the successor of another.
_SAME_NAME, _LIKE_NAME, _OTHER_NAME = 0.5, 0.8, 0.95


def renamed(
    removed: Mapping[PurePosixPath, Generated], added: Mapping[PurePosixPath, Generated]
) -> dict[PurePosixPath, PurePosixPath]:
    """Return the new path of each removed file that has one. No path is taken twice."""
    lines = {path: _lines(file) for path, file in {**removed, **added}.items()}
    pairs = []
    for old in removed:
        for new in added:
            share = _share(lines[old], lines[new])
            if old.suffix == new.suffix and share >= _needed(old, new):
                pairs.append((-share, -_common_tail(old, new), old, new))
    found: dict[PurePosixPath, PurePosixPath] = {}
    for *_, old, new in sorted(pairs):
        if old not in found and new not in found.values():
            found[old] = new
    return found


def _needed(old: PurePosixPath, new: PurePosixPath) -> float:
    if old.name == new.name:
        return _SAME_NAME
    if old.stem and re.search(rf"(?:^|[\W_]){re.escape(old.stem)}(?:$|[\W_])", new.stem):
        return _LIKE_NAME
    return _OTHER_NAME


def _lines(file: Generated) -> Counter[bytes]:
    return Counter(line for line in file.data.splitlines() if line.strip())


def _share(one: Counter[bytes], other: Counter[bytes]) -> float:
    total = sum(one.values()) + sum(other.values())
    # Empty files are alike in nothing but their names.
    return 2 * sum((one & other).values()) / total if total else _SAME_NAME


def _common_tail(one: PurePosixPath, other: PurePosixPath) -> int:
    count = 0
    for left, right in zip(reversed(one.parts), reversed(other.parts), strict=False):
        if left != right:
            break
        count += 1
    return count
