"""One call that a search may try: for each argument what to pass, tensors in relation to a shape.

All tensors of a point are told by one leading shape: "its last dimension", "a matrix it can be
multiplied with". So a point can be moved to another rank or size as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from opscaffold.verify.samples.recipes import CONTIGUOUS, Recipe, Shape

Related = Callable[[Shape], Shape]

_NEW = (5, 2)


def _need(shape: Shape, rank: int) -> Shape:
    if len(shape) < rank:
        raise ValueError("the leading shape has too few dimensions")
    return shape


RELATIONS: dict[str, Related] = {
    "same": lambda s: s,
    "columns": lambda s: (_need(s, 1)[-1], _NEW[0]),
    "rows": lambda s: (_NEW[0], _need(s, 1)[-1]),
    "last": lambda s: (_need(s, 1)[-1],),
    "first": lambda s: (_need(s, 1)[0],),
    "but last": lambda s: _need(s, 2)[:-1],
    "but first": lambda s: _need(s, 2)[1:],
    "vector": lambda _: (_NEW[0],),
    "0-d": lambda _: (),
    "longer": lambda s: (_NEW[0], *_need(s, 2)[1:]),
    "one": lambda _: (1,),
    "kept": lambda s: (*_need(s, 2)[:-1], 1),
    "second": lambda s: (_need(s, 3)[1],),
    "square": lambda s: (_need(s, 1)[-1], s[-1]),
    "table": lambda _: _NEW,
    "product": lambda s: (*_need(s, 2)[:-1], _NEW[0]),
    "wider": lambda s: (_need(s, 2)[0], _NEW[0], *s[2:]),
    "first two": lambda s: _need(s, 3)[:2],
    "swapped": lambda s: (*_need(s, 2)[:-2], s[-1], s[-2]),
    "filters": lambda s: (_NEW[0], _need(s, 3)[1], *(2 for _ in s[2:])),
    "batch product": lambda s: (*_need(s, 3)[:-2], s[-1], _NEW[0]),
    "stacked": lambda s: (2, *s),
    "squared": lambda s: (_need(s, 2)[0], s[0]),
    "half": lambda s: (*_need(s, 1)[:-1], s[-1] // 2),
    "double": lambda s: (*_need(s, 1)[:-1], 2 * s[-1]),
}
"""The likely ones first."""

LEADS: tuple[Shape, ...] = ((4, 3), (4,), (2, 4, 3), (2, 4, 3, 6), ())


@dataclass(frozen=True)
class Given:
    """A tensor by its relation to the leading shape, or by a shape of its own."""

    relation: str = "same"
    dtype: torch.dtype = torch.float32
    number: int = 0
    layout: str = CONTIGUOUS
    index: bool = False
    shape: Shape | None = None

    def shape_in(self, lead: Shape) -> Shape:
        """The shape. Raises ValueError where the leading shape has too few dimensions."""
        return self.shape if self.shape is not None else RELATIONS[self.relation](lead)

    def recipe(self, lead: Shape, below: int) -> Recipe:
        """The tensor to make. Raises ValueError as ``shape_in`` does."""
        bound = below if self.index else None
        return Recipe(self.shape_in(lead), self.dtype, self.number, self.layout, bound)


@dataclass(frozen=True)
class Several:
    """A list of tensors, or of tensors and Nones."""

    items: tuple[Given | None, ...]


@dataclass(frozen=True)
class Omitted:
    """An argument that is left to its default."""


@dataclass(frozen=True)
class Point:
    """One call. Equal points are the same call."""

    lead: Shape
    values: tuple[tuple[str, Any], ...]

    def get(self, name: str) -> Any:
        """What is passed for an argument."""
        return dict(self.values)[name]

    def with_value(self, name: str, value: Any) -> Point:
        """The same call, but for one argument."""
        return replace(
            self,
            values=tuple((each, value if each == name else old) for each, old in self.values),
        )

    def with_lead(self, lead: Shape) -> Point:
        """The same call about another leading shape; shapes of their own are for the old one."""
        return replace(self.mapped(lambda _, given: replace(given, shape=None)), lead=lead)

    def tensors(self) -> dict[str, tuple[Given, ...]]:
        """The tensors that are passed, by argument."""
        found: dict[str, tuple[Given, ...]] = {}
        for name, value in self.values:
            if isinstance(value, Given):
                found[name] = (value,)
            elif isinstance(value, Several):
                found[name] = tuple(item for item in value.items if item is not None)
        return found

    def mapped(self, change: Callable[[str, Given], Given]) -> Point:
        """The same call with each tensor changed."""
        values: list[tuple[str, Any]] = []
        for name, value in self.values:
            if isinstance(value, Given):
                value = change(name, value)
            elif isinstance(value, Several):
                value = Several(tuple(i and change(name, i) for i in value.items))
            values.append((name, value))
        return replace(self, values=tuple(values))

    def recipes(self) -> Mapping[str, Any]:
        """What to pass, by argument, with Recipes for tensors. Raises ValueError as Given does."""
        sizes = [
            size
            for each in self.tensors().values()
            for given in each
            if not given.index
            for size in given.shape_in(self.lead)
            if size > 0
        ]
        below = min(sizes, default=1)
        found: dict[str, Any] = {}
        for name, value in self.values:
            if isinstance(value, Omitted):
                continue
            if isinstance(value, Given):
                value = value.recipe(self.lead, below)
            elif isinstance(value, Several):
                value = [item and item.recipe(self.lead, below) for item in value.items]
            elif isinstance(value, tuple):
                value = list(value)
            found[name] = value
        return found
