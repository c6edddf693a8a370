"""Writes the parts of the documentation that follow from the code: python tools/documents.

With --check, writes nothing and fails where a file is not what it would be.
"""

from __future__ import annotations

import sys
from pathlib import Path

from made import files

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Write what differs, or with --check name it. Returns 1 where --check found anything."""
    check = sys.argv[1:] == ["--check"]
    stale = 0
    for name, text in files(ROOT).items():
        path = ROOT / name
        old = path.read_text(encoding="utf-8") if path.exists() else None
        if old == text:
            continue
        stale += 1
        print(f"{name} {'is not up to date' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
