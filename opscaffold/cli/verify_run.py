"""Takes all ops of a request through workers, and keeps what they tell, however they end."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscaffold.cli.verify_process import (
    MODULE,
    Ended,
    Event,
    Limits,
    private_directory,
    run_worker,
)
from opscaffold.errors import UserError
from opscaffold.findings.promises import BY_CODE, CHECK_FAILED, CRASHED, Promise, Verdict
from opscaffold.fs.paths import real_path

INSTALL = "verify runs ops, and needs torch: python -m pip install 'opscaffold[torch]'"
CUT_SHORT = "ops that were cut short"
STARTS = "starting, and all else"

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how many ops are done of how many."""


@dataclass
class OpResult:
    """One op, and what became of it. ``defined`` is where its definition stands."""

    name: str
    kind: str
    schema: str
    path: Path
    line: int
    defined: tuple[Path, int]
    verdict: Verdict | None = None
    samples: int = 0
    summary: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Told:
    """One finding as a worker tells it, at a line of the op's kernel."""

    promise: Promise
    op: str
    path: Path
    line: int
    message: str


@dataclass
class Outcome:
    """What came of a run."""

    ops: list[OpResult] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Ops of installed packages, which were not asked for and not run."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds by what was done."""


class Run:
    """One run of all ops that are asked for."""

    def __init__(
        self,
        request: Mapping[str, Any],
        limits: Limits,
        progress: Progress,
        *,
        command: Sequence[str] = (sys.executable, "-m", MODULE),
    ) -> None:
        self._request = request
        self._limits = limits
        self._progress = progress
        self._command = command
        self._outcome = Outcome()
        self._done: list[str] = []
        self._listed = False
        self._current: OpResult | None = None
        self._started = 0.0
        self._check = ""
        self._spent: dict[str, float] = {}

    def run(self) -> Outcome:
        """Run every op, with a new process for those that are left when one dies.

        Raises UserError where nothing can be run: no torch, an import that fails, no op.
        """
        began = time.monotonic()
        self._progress("importing", 0, 0)
        with private_directory() as private:
            while not self._is_over(self._attempt(private)):
                self._progress("importing again", len(self._done), len(self._outcome.ops))
        known = sum(self._outcome.spent.values())
        self._outcome.spent[STARTS] = max(time.monotonic() - began - known, 0.0)
        return self._outcome

    def _attempt(self, private: Path) -> Ended:
        request = {**self._request, "skip": list(self._done)}
        self._current, self._check, self._spent = None, "", {}
        try:
            return run_worker(request, self._limits, private, self._hear, command=self._command)
        finally:
            for what, seconds in self._spent.items():
                self._add(what, seconds)

    def _add(self, what: str, seconds: float) -> None:
        self._outcome.spent[what] = self._outcome.spent.get(what, 0.0) + seconds

    def _is_over(self, ended: Ended) -> bool:
        """Take note of how a worker ended, and say whether nothing is left to do."""
        if not ended.reason:
            return True
        if not self._listed:
            targets = ", ".join(self._request["targets"])
            raise UserError(f"importing {targets} came to nothing: {_story(ended)}")
        current = self._current
        if current is None:
            # It died between two ops, or before the first that was left: so it would again.
            for op in self._outcome.ops:
                if op.name not in self._done:
                    message = f"it was not run, since before that {_story(ended)}"
                    self._tell(Told(CRASHED, op.name, op.path, op.line, message))
                    op.verdict = Verdict.UNDECIDED
            return True
        what = f"the check {self._check} ran" if self._check else "its samples were gathered"
        message = f"while {what}, {_story(ended)}"
        self._tell(Told(CRASHED, current.name, current.path, current.line, message))
        breach = any(
            t.op == current.name and t.promise.verdict is Verdict.BREACH for t in self._outcome.told
        )
        self._finish(Verdict.BREACH if breach else Verdict.UNDECIDED)
        self._add(CUT_SHORT, current.seconds)
        return len(self._done) == len(self._outcome.ops)

    def _hear(self, event: Event) -> None:
        match event["event"]:
            case "error":
                raise UserError(refusal(event))
            case "ops":
                self._take_ops(event)
            case "op":
                self._current = next(o for o in self._outcome.ops if o.name == event["op"])
                self._started = time.monotonic()
                self._check = ""
                self._show()
            case "check":
                self._check = event["check"]
                self._show()
            case "finding":
                place = _place(event)
                promise = BY_CODE[event["code"]]
                self._tell(Told(promise, event["op"], *place, event["message"]))
            case "verdict" if self._current is not None:
                self._current.samples = event["samples"]
                self._current.summary = event["summary"]
                self._spent = event["spent"]
                self._finish(Verdict(event["verdict"]))
            case "done":
                self._spent = event["spent"]

    def _take_ops(self, event: Event) -> None:
        if self._listed:
            return
        wrong = [name for name in self._request["ops"] if name not in event["all"]]
        if wrong:
            raise UserError(f"--op: {no_such_op(wrong[0], event['all'])}")
        asked = self._request["ops"]
        unreadable = [e for e in event["unreadable"] if not asked or e["name"] in asked]
        if not event["ops"] and not unreadable:
            raise UserError(_nothing_registered(self._request["targets"], event["others"]))
        self._listed = True
        self._outcome.others = [] if asked else event["others"]
        for each in event["ops"]:
            place, defined = _place(each), _place(each["defined"])
            op = OpResult(each["name"], each["kind"], each["schema"], *place, defined)
            self._outcome.ops.append(op)
        for each in unreadable:
            place = _place(each)
            op = OpResult(each["name"], "unknown", "", *place, place, Verdict.UNDECIDED)
            self._outcome.ops.append(op)
            self._done.append(op.name)
            message = f"the schema of {op.name} cannot be read: {each['reason']}"
            self._tell(Told(CHECK_FAILED, op.name, *place, message))

    def _tell(self, told: Told) -> None:
        # A second process may say what the first one said before it died.
        if told not in self._outcome.told:
            self._outcome.told.append(told)

    def _finish(self, verdict: Verdict) -> None:
        if self._current is not None:
            self._current.verdict = verdict
            self._current.seconds = time.monotonic() - self._started
            self._done.append(self._current.name)
            self._current = None

    def _show(self) -> None:
        if self._current is not None:
            name = self._current.name
            what = f"{name}: {self._check or 'samples'}"
            self._progress(what, len(self._done), len(self._outcome.ops))


def _place(event: Event) -> tuple[Path, int]:
    path = Path(event["path"])
    # Code that was made from a string has a name that is no path.
    return real_path(path) if path.is_absolute() else path, event["line"]


def refusal(event: Event) -> str:
    """Say why a worker did not go to work, as its event ``error`` tells."""
    if event["kind"] == "torch":
        return f"{INSTALL} (importing it said: {event['message']})"
    return str(event["message"])


def _story(ended: Ended) -> str:
    lines = "".join(f"\n  | {line}" for line in ended.output)
    return f"{ended.reason}{'; the last it wrote:' if lines else ''}{lines}"


def no_such_op(name: str, known: Sequence[str]) -> str:
    """Say that an op was asked for which the import does not register, and what is near."""
    near = difflib.get_close_matches(name, known, 3, 0.5)
    near += [each for each in known if each.endswith(f"::{name}") and each not in near]
    if near:
        return f"the import registers no {name}; did you mean {' or '.join(near)}?"
    return f"the import registers no {name}, but {', '.join(known) or 'nothing'}"


def _nothing_registered(targets: Sequence[str], others: Sequence[str]) -> str:
    shown = ", ".join(targets)
    if others:
        return (
            f"importing {shown} registers only ops of installed packages ({', '.join(others[:5])}"
            f"{', ...' if len(others) > 5 else ''}); name them with --op"
        )
    return (
        f"importing {shown} registers no op; name the file or module that defines them, as "
        "`opscaffold check --list-ops` shows it"
    )
