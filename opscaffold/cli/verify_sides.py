"""Two programs run side by side, each in a process of its own, and what that came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscaffold.cli.verify_process import Ended, Event, Limits, run_worker
from opscaffold.cli.verify_run import refusal
from opscaffold.errors import UserError
from opscaffold.findings.promises import CRASHED

Heard = Callable[[str, str], None]
"""Told the mode, ``record`` or ``compare``, and the op that is being run."""


@dataclass(frozen=True)
class Side:
    """One program: what to import, and files whose contents are others than on disk."""

    targets: tuple[str, ...]
    overlay: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Comparison:
    """What running two programs side by side showed."""

    ops: list[Event] = field(default_factory=list)
    """The old program's ops that were asked for: name, schema, path and line."""
    known: list[str] = field(default_factory=list)
    """The names of all ops of the old program."""
    calls: dict[str, int] = field(default_factory=dict)
    """By old op: how many of its calls were compared."""
    findings: list[Event] = field(default_factory=list)
    """Differences, and what could not be decided; ``old`` is the old op, empty for functions."""
    functions: list[str] = field(default_factory=list)
    """Functions that call the ops, and were called in both."""
    unloaded: dict[str, str] = field(default_factory=dict)
    """Targets that could not be imported, with the reason."""
    spent: dict[str, float] = field(default_factory=dict)

    def failed(self, old: str) -> list[str]:
        """The messages of breaches about an old op; of functions for the empty name."""
        return [
            each["message"]
            for each in self.findings
            if each["old"] == old and each["code"] == "OPS730"
        ]


def compare_sides(
    old: Side,
    new: Side,
    private: Path,
    limits: Limits,
    *,
    ops: Sequence[str] = (),
    pairs: Mapping[str, Sequence[str]] | None = None,
    samples: Sequence[str] = (),
    progress: Heard | None = None,
) -> Comparison:
    """Record what the old program's ops do, and compare the new one's.

    ``ops`` are old names, all of them where there are none; ``pairs`` tells which ops took their
    place, where it is known. Raises UserError where torch is missing.
    """
    result = Comparison()
    common = {
        "ops": list(ops),
        "samples": list(samples),
        "fast": True,
        "save": None,
        "record": str(private / "record"),
        "pairs": {name: list(names) for name, names in (pairs or {}).items()},
    }
    for mode, side in (("record", old), ("compare", new)):
        request = {
            **common,
            "mode": mode,
            "targets": list(side.targets),
            "overlay": dict(side.overlay),
        }
        _to_the_end(request, private, limits, result, progress)
    return result


def _to_the_end(
    request: dict[str, Any],
    private: Path,
    limits: Limits,
    result: Comparison,
    progress: Heard | None,
) -> None:
    """Run a side, again without the op at which its process died, until it comes to its end."""
    skip: list[str] = []
    while True:
        hearing = _Hearing(result, request["mode"], progress)
        ended = run_worker({**request, "skip": skip}, limits, private, hearing)
        if not ended.reason:
            return
        result.findings.append(_died(hearing.at, ended, hearing.places))
        if not hearing.at:
            return
        skip.append(hearing.at)


def _died(name: str, ended: Ended, places: Mapping[str, Event]) -> Event:
    last = f"; it wrote last: {ended.output[-1].strip()}" if ended.output else ""
    place = places.get(name, {})
    return {
        "event": "finding",
        "code": CRASHED.code,
        "op": name,
        "old": name,
        "message": f"{ended.reason}{last}",
        "sample": None,
        "path": place.get("path", "<unknown>"),
        "line": place.get("line", 1),
    }


class _Hearing:
    """Takes the events of one process."""

    def __init__(self, result: Comparison, mode: str, progress: Heard | None) -> None:
        self.result, self.mode, self.progress = result, mode, progress
        self.at = ""
        self.places: dict[str, Event] = {}

    def __call__(self, event: Event) -> None:
        match event["event"]:
            case "error":
                raise UserError(refusal(event))
            case "ops":
                self.places = {op["name"]: op for op in event["ops"]}
                if self.mode == "record":
                    self.result.ops, self.result.known = event["ops"], event["all"]
            case "op":
                self.at = event["op"]
                if self.progress is not None:
                    self.progress(self.mode, self.at)
            case "unloaded":
                self.result.unloaded[event["target"]] = event["message"]
            case "finding":
                self.result.findings.append(event)
            case "compared":
                self.result.calls[event["op"]] = event["calls"]
            case "functions":
                self.result.functions = event["called"]
            case "done":
                for what, seconds in event["spent"].items():
                    self.result.spent[what] = self.result.spent.get(what, 0.0) + seconds
