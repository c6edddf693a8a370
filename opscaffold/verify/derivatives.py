"""An op as a function in double precision, and its derivatives as differences of values.

A difference shows a wrong formula only where it can be trusted: the function must be smooth there
and computed with enough digits. Both are asked before anything is claimed: the point is moved at
random off the corners that samples like to sit on, and steps of two sizes must agree.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from opscaffold.verify.checks.base import SEED, quiet
from opscaffold.verify.op import Op, results
from opscaffold.verify.sample import Sample, tensors_in

Function = Callable[..., tuple[Tensor, ...]]

Steps = tuple[tuple[float, float], ...]
DOUBLE_STEPS: Steps = ((1e-6, 1e-4), (1e-5, 1e-3), (3e-4, 3e-3), (3e-3, 3e-2))
# Smaller ones are lost in rounding, and then agree on nothing at all.
SINGLE_STEPS: Steps = ((1e-3, 1e-2), (3e-3, 3e-2))
_MOVES = (0.05, 0.05, 0.002, 0.05)
_AGREE = 2e-3


@dataclass(frozen=True)
class Slots:
    """A call with holes where its differentiable tensors were."""

    op: Op
    sample: Sample
    names: tuple[str, ...]
    """The name of each input: ``x``, or ``xs[0]`` in a list."""
    inputs: tuple[Tensor, ...]

    def filled(self, inputs: Sequence[Tensor]) -> Sample:
        """The call with these tensors in the holes; all else is new memory."""
        left = iter(inputs)
        fresh = self.sample.fresh()
        return replace(
            fresh,
            args=tuple(_filled(value, left) for value in fresh.args),
            kwargs={name: _filled(value, left) for name, value in fresh.kwargs.items()},
        )

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The returns that can be differentiated, of a call that is seeded alike each time."""
        return differentiable(self.returned(self.filled(inputs)))

    def returned(self, sample: Sample) -> list[Any]:
        """What the op returns on the tensors of this very sample, in the grad mode there is."""
        torch.manual_seed(SEED)
        with quiet():
            return results(self.op.overload(*sample.args, **sample.kwargs))

    def leaves(self) -> tuple[Tensor, ...]:
        """Copies of the inputs that require grad."""
        return tuple(each.detach().clone().requires_grad_() for each in self.inputs)


@dataclass(frozen=True)
class _Hole:
    """Marks where a tensor was."""


def slots(op: Op, sample: Sample, only: frozenset[str], *, double: bool = True) -> Slots | None:
    """Cut the floating-point tensors out of a sample, those of parameters in ``only`` if any.

    None where there are none. In double precision each floating-point tensor and dtype is taken
    along, whether it is cut out or not.
    """
    names: list[str] = []
    inputs: list[Tensor] = []

    def cut(value: Any, name: str, wanted: bool) -> Any:
        if isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex()):
            plain = value.detach().clone()
            plain = plain.to(_double(value.dtype)) if double else plain
            if not wanted:
                return plain
            names.append(name)
            inputs.append(plain)
            return _Hole()
        if isinstance(value, (list, tuple)):
            cuts = [cut(item, f"{name}[{n}]", wanted) for n, item in enumerate(value)]
            return type(value)(cuts)
        return _double(value) if double and isinstance(value, torch.dtype) else value

    positional = [p.name for p in op.contract.parameters if not p.kw_only]
    args = tuple(
        cut(value, name, not only or name in only)
        for name, value in zip(positional, sample.args, strict=False)
    )
    kwargs = {n: cut(value, n, not only or n in only) for n, value in sample.kwargs.items()}
    if not inputs:
        return None
    holed = replace(sample, args=args, kwargs=kwargs, grad_mode=True, inference=False)
    return Slots(op, holed, tuple(names), tuple(inputs))


def _double(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def _filled(value: Any, left: Iterator[Tensor]) -> Any:
    if isinstance(value, _Hole):
        return next(left)
    if isinstance(value, (list, tuple)):
        return type(value)([_filled(item, left) for item in value])
    return value


def differentiable(returned: Sequence[Any]) -> tuple[Tensor, ...]:
    """The floating-point tensors among what a call returned."""
    found = tensors_in(list(returned))
    return tuple(each for each in found if each.is_floating_point() or each.is_complex())


@dataclass(frozen=True)
class Mismatch:
    """A derivative in one direction of one input, by the formula and by differences."""

    index: int
    formula: float
    difference: float

    @property
    def told(self) -> str:
        """Both numbers, for a message."""
        return f"{self.formula:.5g} in a random direction, and {self.difference:.5g} by differences"


class Agreement(enum.Enum):
    """What comes of comparing a derivative with differences, where they do not depart."""

    AGREES = "agrees"
    UNKNOWN = "unknown"
    """Differences cannot be trusted: the function is not smooth, or has too few digits."""


def disprove(
    function: Function, inputs: Sequence[Tensor], steps: Steps = DOUBLE_STEPS
) -> Mismatch | Agreement:
    """Compare reverse-mode derivatives with differences, at points near by.

    A Mismatch where they depart at two points and agree at none. Raises what the function raises
    in its backward.
    """
    seen: list[Mismatch] = []
    for number, move in enumerate(_MOVES):
        generator = torch.Generator().manual_seed(number)
        near = [moved(each, move, generator) for each in inputs]
        found = _compared(function, near, generator, steps)
        if found is Agreement.AGREES:
            return found
        if isinstance(found, Mismatch):
            seen.append(found)
        if len(seen) == 2:
            break
    return seen[0] if seen else Agreement.UNKNOWN


def _compared(
    function: Function, inputs: Sequence[Tensor], generator: torch.Generator, steps: Steps
) -> Mismatch | Agreement:
    """What holds at this point, for all inputs."""
    try:
        values = function(*inputs)
    except Exception:  # noqa: BLE001 -- the op does not take this point
        return Agreement.UNKNOWN
    weights = [noise(value, generator) for value in values]
    formula = _gradients(function, inputs, weights)
    known = False
    for index, value in enumerate(inputs):
        if value.numel() == 0:
            continue
        direction = noise(value, generator)

        def along(step: float, at: int = index, v: Tensor = direction) -> float:
            shifted = [x + step * v if n == at else x for n, x in enumerate(inputs)]
            return weighted(function(*shifted), weights)

        numeric = difference(along, steps)
        if numeric is None:
            continue
        known = True
        analytic = float((formula[index].conj() * direction).real.sum())
        scale = max(abs(numeric), abs(analytic))
        if abs(numeric - analytic) > 5 * _AGREE * scale + 1e-6:
            return Mismatch(index, analytic, numeric)
    return Agreement.AGREES if known else Agreement.UNKNOWN


def difference(along: Callable[[float], float], steps: Steps = DOUBLE_STEPS) -> float | None:
    """The derivative of a function of one number at 0; None where steps do not agree on it."""
    for small, large in steps:
        try:
            one, other = ((along(step) - along(-step)) / (2 * step) for step in (small, large))
        except Exception:  # noqa: BLE001, S112 -- the op does not take the point next to it
            continue
        if abs(one - other) <= _AGREE * max(abs(one), abs(other)) + 1e-9:
            return one
    return None


def _gradients(
    function: Function, inputs: Sequence[Tensor], weights: Sequence[Tensor]
) -> list[Tensor]:
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    with torch.enable_grad():
        values = function(*leaves)
        pairs = [
            (value, weight)
            for value, weight in zip(values, weights, strict=True)
            if value.requires_grad
        ]
        if not pairs:
            return [torch.zeros_like(each) for each in inputs]
        found = torch.autograd.grad(
            [value for value, _ in pairs],
            leaves,
            [weight.to(value.dtype) for value, weight in pairs],
            allow_unused=True,
        )
    return [
        torch.zeros_like(leaf) if gradient is None else gradient.detach()
        for leaf, gradient in zip(leaves, found, strict=True)
    ]


def weighted(values: Sequence[Tensor], weights: Sequence[Tensor]) -> float:
    """A sum of all elements with weights: one number that any wrong element changes."""
    total = 0.0
    for value, weight in zip(values, weights, strict=True):
        wide = value.detach().to(weight.dtype)
        total += float((wide * weight.conj()).real.sum())
    return total


def moved(tensor: Tensor, move: float, generator: torch.Generator) -> Tensor:
    """A tensor near by, off the corners that round numbers are on."""
    if tensor.numel() == 0:
        return tensor
    scale = max(float(tensor.abs().mean()), 0.1)
    shift = noise(tensor, generator)
    return tensor + move * scale * torch.sgn(shift) * shift.abs().clamp(max=1)


def noise(like: Tensor, generator: torch.Generator) -> Tensor:
    """Normally distributed numbers in a tensor's shape."""
    dtype = _double(like.dtype)
    return torch.randn(like.shape, dtype=dtype, generator=generator).to(like.device)
