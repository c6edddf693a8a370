"""What a kernel writes: arguments, buffers and fresh returns, each another multiple."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opscaffold.contract.model import OpContract, Return
from opscaffold.scaffold.arguments import Shape, arguments_of, returns_list, returns_tensor

# How many tensors the placeholder puts in a list that it returns.
LIST_LENGTH = 2
# The first output is twice the sum, so that writing it is never a no-op.
FIRST_MULTIPLE = 2


@dataclass(frozen=True, slots=True)
class Target:
    """One output: a mutated argument, a buffer or a fresh return, by the name it has in code."""

    name: str
    multiple: int
    shape: Shape = Shape.PLAIN

    def multiples(self) -> list[int]:
        """The multiple of each tensor that is returned under the name."""
        count = LIST_LENGTH if self.shape is Shape.LIST else 1
        return [self.multiple + n for n in range(count)]


def mutated_targets(contract: OpContract, first: int = FIRST_MULTIPLE) -> list[Target]:
    """The mutated arguments of a contract as targets."""
    written = [a for a in arguments_of(contract) if a.parameter.mutated]
    return [Target(a.name, first + n, a.shape) for n, a in enumerate(written)]


def fresh_targets(returns: Sequence[Return], names: Sequence[str], first: int) -> list[Target]:
    """The tensors returned, by the given names; a list takes several multiples."""
    found: list[Target] = []
    for name, returned in zip(names, returns, strict=True):
        if not returns_tensor(returned):
            continue
        found.append(Target(name, first, Shape.LIST if returns_list(returned) else Shape.PLAIN))
        first += LIST_LENGTH if returns_list(returned) else 1
    return found
