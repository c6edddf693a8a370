"""Which op of a repaired program answers a call of the old one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opscaffold.contract.model import Kind, OpContract


@dataclass(frozen=True)
class Pair:
    """The op that answers a call, and what it is passed, by parameter."""

    contract: OpContract
    arguments: Mapping[str, Any]


def heirs(old: OpContract, new: Iterable[OpContract]) -> list[OpContract]:
    """The ops that may have come of an old one: it, and those named after it, best first.

    ``foo`` can become ``foo_out``, ``foo.out`` or ``foo_``, and ``foo.out`` can become
    ``foo_out``.
    """
    found = [
        each
        for each in new
        if each.namespace == old.namespace
        and (each.name == old.name or each.name.startswith(f"{old.name}_"))
    ]
    return sorted(found, key=lambda each: (each.qualname != old.qualname, each.qualname))


def pair(
    old: OpContract, arguments: Mapping[str, Any], candidates: Sequence[OpContract]
) -> Pair | None:
    """The first candidate that can take the call, with the arguments it takes; None if none can.

    What a candidate has no parameter for may be left out where it says nothing any more: a buffer
    that is None, an argument at its default, or a flag that chose between two halves: true for
    the one that writes, false for the other.
    """
    for candidate in candidates:
        known = {parameter.name for parameter in candidate.parameters}
        dropped = {name: value for name, value in arguments.items() if name not in known}
        needed = {p.name for p in candidate.parameters if p.default is None}
        if needed <= arguments.keys() and all(
            _says_nothing(old, candidate, name, value) for name, value in dropped.items()
        ):
            return Pair(candidate, {n: v for n, v in arguments.items() if n in known})
    return None


def _says_nothing(old: OpContract, candidate: OpContract, name: str, value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, bool):
        writes = candidate.kind is not Kind.FUNCTIONAL
        return value is writes
    parameter = next(p for p in old.parameters if p.name == name)
    if parameter.default is None or not isinstance(value, (int, float, str)):
        return False
    return parameter.default.value == value
