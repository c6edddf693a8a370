"""Where the process starts: ``opscaffold``, and ``python -m opscaffold``."""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130
WITHOUT_COLLECTOR = ("check", "migrate")
"""The commands whose objects stay until they end: to look for garbage among them is in vain."""


def main() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:2] and sys.argv[1] in WITHOUT_COLLECTOR:
        gc.disable()
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


def _pass_over_the_working_directory() -> None:
    """Look for modules where they are installed, as the script ``opscaffold`` does.

    ``python -m`` looks in the working directory first, and a tree that is only to be read could
    have a ``typer.py``.
    """
    try:
        here = os.getcwd()  # noqa: PTH109 -- this much is loaded
    except OSError:
        # It was removed: nothing can be found in it.
        return
    if sys.path and sys.path[0] in ("", here):
        del sys.path[0]


if __name__ == "__main__":
    _pass_over_the_working_directory()
    sys.exit(main())
