"""Forward-mode differentiation is right, or refused; for most ops it is neither (FACTS S7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from opscaffold.contract.model import Kind
from opscaffold.findings.promises import FORWARD_MODE_SILENT, WRONG_TANGENT
from opscaffold.verify.checks.base import Bench, Check, Cost, Observation, quiet
from opscaffold.verify.checks.gradients import marked
from opscaffold.verify.derivatives import Slots, difference, moved, noise, slots, weighted
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample
from opscaffold.verify.variants import pattern

MOST_POINTS = 3
_TOLERANCE = 1e-2

Pushed = tuple[list[Tensor], list[Tensor | None]]
"""What a call returns, and its tangents."""
Way = Callable[[Slots, Sequence[Tensor], int, Tensor], Pushed]

# PyTorch gives these no types.
_make_dual: Any = forward_ad.make_dual
_unpack_dual: Any = forward_ad.unpack_dual
_func_jvp: Any = torch.func.jvp


def run(op: Op, samples: Sequence[Sample], bench: Bench) -> Iterator[Observation]:
    """Push a random tangent through the op, in both ways that PyTorch has."""
    only = marked(op, samples)
    seen: set[object] = set()
    for sample in samples:
        each = None if sample.inference else slots(op, sample, only)
        if each is None or pattern(op, sample) in seen or len(seen) == MOST_POINTS:
            continue
        if not any(x.numel() for x in each.inputs):
            continue
        seen.add(pattern(op, sample))
        with quiet():
            yield from _pushed(op, each, sample)


def _pushed(op: Op, call: Slots, sample: Sample) -> Iterator[Observation]:
    generator = torch.Generator().manual_seed(0)
    points = [moved(x, 0.05, generator) for x in call.inputs]
    for index, name in enumerate(call.names):
        direction = noise(points[index], generator)
        for way in (_dual, _jvp):
            pushed = _unless_refused(way, call, points, index, direction)
            if pushed is None:
                continue
            values, tangents = pushed
            weights = [noise(value, generator) for value in values]
            numeric = difference(
                lambda step, i=index, v=direction, w=weights: weighted(  # type: ignore[misc]
                    _shifted(call, points, i, step * v), w
                )
            )
            if numeric is None:
                continue
            given = [
                torch.zeros_like(v) if t is None else t
                for v, t in zip(values, tangents, strict=True)
            ]
            found = weighted(given, weights)
            if abs(found - numeric) <= _TOLERANCE * max(abs(numeric), abs(found)) + 1e-6:
                continue
            if any(bool(t.any()) for t in given) or (way is _dual and _formula(op, tangents)):
                message = (
                    f"the tangent by {name} is {found:.5g} in a random direction, "
                    f"and {numeric:.5g} by differences"
                )
                yield Observation(WRONG_TANGENT, message, sample, name)
            else:
                message = f"forward-mode differentiation by {name} gives no tangent and no error"
                yield Observation(FORWARD_MODE_SILENT, message, sample)
            break


def _unless_refused(
    way: Way, call: Slots, points: Sequence[Tensor], index: int, direction: Tensor
) -> Pushed | None:
    try:
        return way(call, points, index, direction)
    except Exception:  # noqa: BLE001 -- kernels and torch raise what they like
        return None


def _formula(op: Op, tangents: Sequence[Tensor | None]) -> bool:
    """Whether tangents were computed, by a formula of the author's own."""
    return op.definition is None and any(each is not None for each in tangents)


def _shifted(
    call: Slots, points: Sequence[Tensor], index: int, shift: Tensor
) -> tuple[Tensor, ...]:
    with torch.no_grad():
        return call(*[x + shift if n == index else x for n, x in enumerate(points)])


def _dual(call: Slots, points: Sequence[Tensor], index: int, direction: Tensor) -> Pushed:
    """By torch.autograd.forward_ad."""
    with torch.no_grad(), forward_ad.dual_level():
        given = [
            _make_dual(x.clone(), direction) if n == index else x.clone()
            for n, x in enumerate(points)
        ]
        # forward_ad follows no op while grad mode is off.
        with torch.enable_grad():
            pairs = [_unpack_dual(value) for value in call(*given)]
        return (
            [pair.primal.detach() for pair in pairs],
            [None if pair.tangent is None else pair.tangent.detach() for pair in pairs],
        )


def _jvp(call: Slots, points: Sequence[Tensor], index: int, direction: Tensor) -> Pushed:
    """By torch.func.jvp."""

    def at(x: Tensor) -> tuple[Tensor, ...]:
        return call(*[x if n == index else y.clone() for n, y in enumerate(points)])

    values, tangents = _func_jvp(at, (points[index].clone(),), (direction,))
    return [value.detach() for value in values], [each.detach() for each in tangents]


CHECK = Check("forward mode", Cost.GRADIENTS, run, lambda op: op.kind is Kind.FUNCTIONAL)
