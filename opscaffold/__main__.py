"""Where the process starts: ``opscaffold``, and ``python -m opscaffold``."""

from __future__ import annotations

import gc
import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        # Loading takes a while, in which Ctrl-C may come as well.
        from opscaffold.cli.app import main as run

        code = run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("opscaffold: interrupted\n")
        return INTERRUPTED
    # All that is left goes with the process: to look through it once more, for what holds itself,
    # takes as long as a tenth of a check.
    gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
