"""The process in which user code is imported and run.

The command line starts it as ``python -m opscaffold.verify.worker FD``. It reads one request as a
line of JSON from stdin, and writes events, one JSON object a line, to the file descriptor ``FD``;
what user code prints goes elsewhere.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import sys
import time
from typing import Any

from opscaffold.verify import guard

IMPORT = "import torch"
_MODES = {
    "verify": ("serving", "serve"),
    "record": ("sides", "record"),
    "compare": ("sides", "compare"),
}


def main(fd: int) -> int:
    """Serve one request, and return the exit code: 0 when it was answered, whatever the answer."""
    line = _first_line(0)
    request = json.loads(line)
    if line.endswith(b"\n"):
        # Held open for as long as somebody waits for the answer.
        guard.start(0, fd, request.get("private"))
    _take_stdin_away()
    # What dies here is expected to, and leaves no image of its memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # A segmentation fault then says which line of Python led to it.
    faulthandler.enable()
    os.set_inheritable(fd, False)
    stream = os.fdopen(fd, "w", encoding="utf-8", buffering=1)

    def tell(event: dict[str, Any]) -> None:
        stream.write(json.dumps(event) + "\n")

    started = time.perf_counter()
    module, function = _MODES[request.get("mode", "verify")]
    try:
        import torch  # noqa: F401

        from opscaffold.verify.run import Clock

        serve = getattr(importlib.import_module(f"opscaffold.verify.{module}"), function)
    except (ImportError, OSError, AttributeError) as error:
        # A library that torch needs may be missing, and an old torch lacks what ops are made with.
        tell({"event": "error", "kind": "torch", "message": " ".join(str(error).split())})
        return 0
    clock = Clock()
    clock.timed(IMPORT, started)
    serve(request, clock, tell)
    return 0


def _first_line(fd: int) -> bytes:
    read = b""
    while not read.endswith(b"\n"):
        part = os.read(fd, 65536)
        if not part:
            break
        read += part
    return read


def _take_stdin_away() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


if __name__ == "__main__":
    # User code may read the arguments of the program that it takes itself to be.
    sys.exit(main(int(sys.argv.pop())))
