"""The process in which user code is imported and run.

The command line starts it as ``python -m opscaffold.verify.worker FD``. It reads one request as
JSON from stdin, and writes events, one JSON object a line, to the file descriptor ``FD``; what
user code prints goes elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

IMPORT = "import torch"


def main(fd: int) -> int:
    """Serve one request, and return the exit code: 0 when it was answered, whatever the answer."""
    stream = os.fdopen(fd, "w", encoding="utf-8", buffering=1)

    def tell(event: dict[str, Any]) -> None:
        stream.write(json.dumps(event) + "\n")

    request = json.load(sys.stdin)
    started = time.perf_counter()
    try:
        import torch  # noqa: F401
    except ImportError as error:
        tell({"event": "error", "kind": "torch", "message": str(error)})
        return 0
    from opscaffold.verify.run import Clock
    from opscaffold.verify.session import serve
    from opscaffold.verify.sides import compare, record

    modes = {"verify": serve, "record": record, "compare": compare}
    clock = Clock()
    clock.timed(IMPORT, started)
    modes[request.get("mode", "verify")](request, clock, tell)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
