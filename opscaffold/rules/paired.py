"""Ops with several Optional buffers that are given together or not at all."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from opscaffold.effects.buffers import BufferUse
from opscaffold.effects.paired import PairedUse, use_of_pair
from opscaffold.effects.trace import FunctionNode
from opscaffold.rules.base import OpFacts
from opscaffold.rules.outputs import Obstacle, last_return, obstacle_in_memory


def paired_outputs(facts: OpFacts, uses: Mapping[str, BufferUse]) -> PairedUse | None:
    """The buffers of an op as a pair (or more), where a call with only some of them raises.

    ``uses`` are the op's outputs. None where they are independent, or a list is among them.
    """
    if facts.kernel is None or any(use.argument.is_list for use in uses.values()):
        return None
    pair = use_of_pair(facts.kernel, facts.arguments, list(uses), facts.names)
    return None if pair is None or pair.mixed else pair


def obstacle_to_paired_split(
    function: FunctionNode | ast.Lambda, pair: PairedUse, declared: frozenset[str] = frozenset()
) -> Obstacle | None:
    """What keeps a kernel from being split, or None where its halves are sound.

    ``declared`` are the arguments that the op says it mutates.
    """
    said = listed(pair.names)
    if pair.order is None:
        return Obstacle(
            last_return(pair.uses[0], function),
            f"given {said}, it returns something other than these, each once and in one order",
            f"return {said} where they are given, or write a functional op, and a mutable op that "
            "fills them and returns nothing",
        )
    known = declared | frozenset(pair.names)
    for use in pair.uses:
        # What is returned without buffers is looked at for all of them at once.
        obstacle = obstacle_in_memory(function, use, known, fresh=pair.separate)
        if obstacle is not None:
            return obstacle
    return None


def listed(names: tuple[str, ...]) -> str:
    """``a``, ``b`` and ``c``."""
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
