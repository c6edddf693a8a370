"""The places that explain a finding: where a kernel writes, and where the op says that it does."""

from __future__ import annotations

from collections.abc import Iterable

from opscaffold.effects.trace import Event
from opscaffold.findings.model import Position
from opscaffold.rules.base import OpFacts, position
from opscaffold.rules.contracts import written_value
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Module

MOST = 5
"""How many places of one kind are shown."""


def places_of(module: Module, events: Iterable[Event]) -> list[Position]:
    """Where things happen in a function; behind each call, where in the function it calls.

    ``module`` holds the function that was followed.
    """
    found: dict[Position, None] = {}
    for event in events:
        found[position(module, event.node)] = None
        found |= dict.fromkeys(_inside(event))
    return list(found)[:MOST]


def inside(events: Iterable[Event]) -> list[Position]:
    """Where things happen in the functions that a kernel calls."""
    return list(dict.fromkeys(place for event in events for place in _inside(event)))[:MOST]


def declaration(facts: OpFacts) -> Position:
    """Where an op says what it mutates, or else where it is defined."""
    definition = facts.op.definition
    for name in ("mutates_args", "schema"):
        written = written_value(facts.project, definition, name)
        if written is not None:
            return position(*written)
    node = definition.call or definition.operand or definition.statement
    return position(definition.module, node)


def _inside(event: Event) -> list[Position]:
    if event.inside is None:
        return []
    node, names = event.inside
    return [position(names.module, node)] if isinstance(names, ProjectNames) else []
