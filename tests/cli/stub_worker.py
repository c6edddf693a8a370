"""Stand-ins for the worker: programs that speak its protocol, and do what a test wants beside."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

# A minute to import, as for any run, would be long to wait for in a test.
_START = """\
import json, os, signal, subprocess, sys, time

line = sys.stdin.readline()
request = json.loads(line)
stream = os.fdopen(int(sys.argv[1]), "w", buffering=1)


def tell(**event):
    stream.write(json.dumps(event) + "\\n")


def ops(*names, known=(), others=(), unreadable=()):
    place = {"path": __file__, "line": 1}
    told = [
        {"name": n, "kind": "functional", "schema": n + "() -> ()", "defined": place, **place}
        for n in names
    ]
    unread = [{"name": n, "reason": "it is odd", **place} for n in unreadable]
    tell(
        event="ops", ops=told, all=[*names, *known, *others, *unreadable], others=list(others),
        unreadable=unread,
    )


def left(*names):
    return [n for n in names if n not in request["skip"]]


def finding(op, code, message="it is so"):
    tell(event="finding", code=code, op=op, message=message, sample=None, path=__file__, line=1)


def verdict(op, word="sound"):
    tell(event="verdict", op=op, verdict=word, samples=3, summary="", spent={"import torch": 1.0})


"""


def stub(directory: Path, body: str) -> tuple[str, ...]:
    """The command of a worker that does ``body``; see ``_START`` for what it may use."""
    path = directory / "stub.py"
    path.write_text(_START + textwrap.dedent(body), "utf-8")
    return (sys.executable, str(path))
