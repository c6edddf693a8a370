"""Running the ops of a project before and after their repair, before anything is written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opscaffold.cli.verify_memory import default_memory
from opscaffold.cli.verify_process import Limits, private_directory
from opscaffold.cli.verify_sides import Comparison, Side, compare_sides
from opscaffold.fs.atomic import shown

if TYPE_CHECKING:
    from opscaffold.migrate.engine import Migration
    from opscaffold.migrate.steps import Step

LIMITS = Limits(seconds=300.0, memory=default_memory())
"""What one op may take before its repair counts as not run."""


class Prover:
    """Puts a finished plan to the test, as often as it is planned anew.

    ``unproven`` has the ops of the last plan whose repair could not be run, with the reason, and
    ``calls`` how many calls of each op were compared.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self.unproven: dict[str, str] = {}
        self.calls: dict[str, int] = {}

    def __call__(self, result: Migration) -> Mapping[str, str]:
        """Return the ops whose repair does not do what the old op did, with the reason."""
        self.unproven, self.calls = {}, {}
        steps = [step for step in result.steps if not step.prose]
        if not steps:
            return {}
        targets = dict.fromkeys(str(step.defined[0]) for step in steps if step.defined)
        pairs = successors(steps)
        with private_directory() as private:
            new = Side(tuple(targets), _overlay(result, private))
            old = Side(tuple(targets))
            compared = compare_sides(old, new, private, LIMITS, ops=list(pairs), pairs=pairs)
        return self._judged(compared, steps, pairs)

    def _judged(
        self, compared: Comparison, steps: Iterable[Step], pairs: Mapping[str, list[str]]
    ) -> dict[str, str]:
        failed: dict[str, str] = {}
        for name in pairs:
            reasons = compared.failed(name)
            if reasons:
                failed[name] = f"run beside the old op, {reasons[0]}"
            elif compared.calls.get(name):
                self.calls[name] = compared.calls[name]
            else:
                self.unproven[name] = _why_not(name, compared)
        for message in compared.failed(""):
            # Which of the repairs it was cannot be told from what a function returns.
            for step in steps:
                failed.setdefault(step.plan.op, f"run before and after, {message}")
        origins = origins_of(steps)
        return {
            step.plan.op: failed[origins[step.plan.op]]
            for step in steps
            if origins[step.plan.op] in failed
        }

    def summarise(self) -> None:
        """Say what was run, and what could not be."""
        for name, reason in sorted(self.unproven.items()):
            typer.echo(f"{name}: its repair was not run: {reason}", err=True)
        if self._quiet:
            return
        total = sum(self.calls.values())
        ops = "1 op" if len(self.calls) == 1 else f"{len(self.calls)} ops"
        calls = "1 call" if total == 1 else f"{total} calls"
        typer.echo(f"{ops} run beside the old, on {calls}: no difference", err=True)


def origins_of(steps: Iterable[Step]) -> dict[str, str]:
    """For each op that a step repairs or makes, the op of the old program it comes from."""
    origins: dict[str, str] = {}
    for step in steps:
        origin = origins.setdefault(step.plan.op, step.plan.op)
        for name, _ in step.new:
            origins.setdefault(name, origin)
    return origins


def successors(steps: Iterable[Step]) -> dict[str, list[str]]:
    """For each op of the old program, the ops that take its place, itself first if it stays."""
    steps = list(steps)
    pairs: dict[str, list[str]] = {}
    for name, origin in origins_of(steps).items():
        pairs.setdefault(origin, []).append(name)
    return pairs


def _overlay(result: Migration, private: Path) -> dict[str, str]:
    """What importing the changed files must read, written to a private directory."""
    overlay = {}
    for number, (path, (_, new)) in enumerate(sorted(result.changes.items())):
        if path.suffix == ".py":
            instead = private / f"{number}-{path.name}"
            instead.write_bytes(new)
            overlay[os.path.realpath(path)] = str(instead)
    return overlay


def _why_not(name: str, compared: Comparison) -> str:
    for finding in compared.findings:
        if finding["old"] == name:
            return str(finding["message"])
    for target, message in compared.unloaded.items():
        return f"{shown(Path(target))} cannot be imported: {message}"
    return "importing its module does not register it"
