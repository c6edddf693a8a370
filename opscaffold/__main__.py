"""``python -m opscaffold``."""

from __future__ import annotations

import sys

from opscaffold.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
