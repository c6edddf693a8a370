"""What a migration does step by step, and which files belong together when it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from opscaffold.contract.model import OpContract
from opscaffold.findings.intents import Intent
from opscaffold.migrate.call_sites import CallSite
from opscaffold.migrate.plan import OpPlan

Changes = dict[Path, tuple[bytes, bytes]]
"""Changed files with their bytes before and after."""


@dataclass(slots=True)
class Step:
    """One repair of one op with all its call sites, or the prose that belongs to it.

    ``changes`` starts from what the steps before it leave. ``intents`` are what is repaired,
    ``sites`` the call sites that change. ``old`` is the op's contract before, ``new`` has those
    of the ops that are there afterwards, by name, in the order of the plan; None stands for a
    contract that cannot be told from the source. ``defined`` is the file that defines the op, and
    the dotted name of its module.
    """

    plan: OpPlan
    changes: Changes
    intents: tuple[Intent, ...] = ()
    prose: bool = False
    sites: tuple[CallSite, ...] = ()
    old: OpContract | None = None
    new: tuple[tuple[str, OpContract | None], ...] = ()
    defined: tuple[Path, str] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same repair, in code and in prose."""
        return self.plan.op, self.plan.does


@dataclass(slots=True)
class Unit:
    """Steps that are written together, whole or not at all, and what that changes.

    That is one repair of one op; more only where they interlock in one file so that none of them
    could be written without half of another.
    """

    steps: list[Step]
    changes: Changes

    @property
    def name(self) -> str:
        """The ops it repairs."""
        return ", ".join(dict.fromkeys(step.plan.op for step in self.steps))


def unpaired_prose(steps: Sequence[Step]) -> Step | None:
    """A step that changes the prose about a repair that was not made after all, if any."""
    made = {step.key for step in steps if not step.prose}
    return next((step for step in steps if step.prose and step.key not in made), None)


def units(steps: Sequence[Step]) -> list[Unit]:
    """Group the steps of a migration for writing, in an order in which each starts from the last.

    The prose of a repair goes with the repair, though other steps were made between the two.
    """
    group = list(range(len(steps)))
    code = {step.key: index for index, step in enumerate(steps) if not step.prose}
    for index, step in enumerate(steps):
        if step.prose and step.key in code:
            group[index] = code[step.key]
    while True:
        sorter: TopologicalSorter[int] = TopologicalSorter()
        last: dict[Path, int] = {}
        for index, step in enumerate(steps):
            sorter.add(group[index])
            for path in step.changes:
                if path in last and last[path] != group[index]:
                    sorter.add(group[index], last[path])
                last[path] = group[index]
        try:
            order = list(sorter.static_order())
        except CycleError as error:
            merged = set(error.args[1])
            group = [min(merged) if each in merged else each for each in group]
            continue
        return [_unit([s for s, g in zip(steps, group, strict=True) if g == n]) for n in order]


def _unit(steps: list[Step]) -> Unit:
    changes: Changes = {}
    for step in steps:
        for path, (old, new) in step.changes.items():
            changes[path] = (changes[path][0] if path in changes else old, new)
    return Unit(steps, {path: pair for path, pair in changes.items() if pair[0] != pair[1]})
