"""The cells that templates are tried on: one op each, and the packages that hold them.

``leaves`` are the ends of PyTorch's decision tree with the default answers. ``covering`` is a
choice of the ops in ``matrix_ops`` in which every two answers meet that meet in any of them, and
every type of argument and return stands. ``everything`` is all of them, and some made by chance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from opscaffold.contract.decision import OUTCOMES
from opscaffold.contract.model import Kind, SchemaType
from opscaffold.contract.printer import format_schema, format_type
from opscaffold.contract.pytypes import strip_alias
from opscaffold.contract.releases import FIRST_WITH_TAGS, Version
from opscaffold.scaffold.answers import build, with_defaults
from opscaffold.scaffold.given import Answers, Given
from opscaffold.scaffold.matrix_ops import UNUSUAL, grid, in_numpy
from opscaffold.scaffold.matrix_random import random_ops
from opscaffold.scaffold.questions import kind_word
from opscaffold.scaffold.spec import OpSpec, PackageSpec, Registration

UNTAGGED: Version = (2, 12)
"""The newest torch without tags: its in-place and out= ops are other programs."""
MOST = 10
"""Ops in one package: fewer cost more starts of Python, more blur what is at fault."""
_BY_CHANCE = 60


@dataclass(frozen=True, slots=True)
class Cell:
    """One op or family, for one oldest torch, registered in one way."""

    op: OpSpec
    torch_min: Version = FIRST_WITH_TAGS
    registration: Registration = Registration.CUSTOM_OP

    @property
    def name(self) -> str:
        """A name of its own: the op's, with torch release and registration where unusual."""
        name = self.op.contract.name
        if self.torch_min != FIRST_WITH_TAGS:
            name += f"@{_release(self.torch_min)}"
        if self.registration is not Registration.CUSTOM_OP:
            name += f"@{self.registration.value}"
        return name

    @property
    def file(self) -> str:
        """The stem of the files that are the op's alone, in the templates brought along."""
        return self.op.contract.name.lower()

    @property
    def schema(self) -> str:
        """The op's schema, without a namespace."""
        return format_schema(replace(self.op.contract, namespace=""))

    def answers(self) -> dict[str, str]:
        """What ``new`` would be told, one word an answer."""
        contract = self.op.contract
        buffers = contract.kind is Kind.OUT
        read = [p for p in contract.parameters if not (buffers and p.mutated)]
        tensors = sum(p.is_tensor_like for p in read)
        return {
            "kind": "family" if self.op.family else kind_word(contract.kind),
            "tensors": str(min(tensors, 3)),
            "numbers": "yes" if tensors < len(read) else "no",
            "returns": str(len(contract.returns)),
            "sizes": self.op.fake.mode.value,
            "autograd": "yes" if self.op.autograd else "no",
            "kernel": self.op.kernel.value,
            "torch": _release(self.torch_min),
            "registration": self.registration.value,
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that share one package, and so the cost of starting the tools."""

    name: str
    cells: tuple[Cell, ...]

    @property
    def spec(self) -> PackageSpec:
        """The package, named as the group."""
        module = self.name.replace("-", "_")
        ops = tuple(
            replace(c.op, contract=replace(c.op.contract, namespace=module)) for c in self.cells
        )
        first, description = self.cells[0], "Ops to try templates on."
        return PackageSpec(
            self.name, module, module, ops, first.torch_min, description, first.registration
        )


def leaves() -> tuple[Cell, ...]:
    """What ``new --defaults --kind`` makes at each end of the decision tree."""
    kinds = [outcome.kind for outcome in OUTCOMES.values() if outcome.kind is not None]
    tables = tuple({"kind": Given(kind_word(kind))} for kind in kinds)
    return tuple(Cell(op) for op in build(with_defaults(Answers({}, tables))).ops)


def covering() -> tuple[Cell, ...]:
    """The fewest that a greedy choice finds: the cell with most that is new, again and again."""
    pool = {cell: frozenset(features(cell)) for cell in _pool()}
    open_ = frozenset().union(*pool.values())
    chosen: list[Cell] = []
    while open_:
        best = max(pool, key=lambda cell: len(pool[cell] & open_))
        chosen.append(best)
        open_ -= pool[best]
    return tuple(chosen)


def everything() -> tuple[Cell, ...]:
    """The leaves, all that ``covering`` chooses from, and ops made by chance."""
    by_chance = [Cell(op) for op in random_ops(seed=3, count=_BY_CHANCE)]
    return (*leaves(), *_pool(), *by_chance)


def features(cell: Cell) -> Iterator[tuple[str, ...]]:
    """What a cell covers: every two of its answers, and each type with how it is used."""
    told = [f"{key}={value}" for key, value in cell.answers().items()]
    yield from itertools.combinations(told, 2)
    for parameter in cell.op.contract.parameters:
        type_ = _written(parameter.type)
        yield ("argument", type_)
        for use, holds in (
            ("written", parameter.mutated),
            ("keyword-only", parameter.kw_only),
            ("default", parameter.default is not None),
        ):
            if holds:
                yield ("argument", type_, use)
    for returned in cell.op.contract.returns:
        yield ("return", _written(returned.type))


def matrix(*, full: bool = False) -> tuple[Group, ...]:
    """The packages of a run: leaves and covering choice, or everything."""
    if full:
        return groups("full", everything())
    return (*groups("leaves", leaves()), *groups("covering", covering()))


def groups(prefix: str, cells: Iterable[Cell], most: int = MOST) -> tuple[Group, ...]:
    """The cells in packages of one torch release and one registration each."""
    alike: dict[tuple[Version, Registration], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((cell.torch_min, cell.registration), []).append(cell)
    parts = [p for same in alike.values() for p in _parted(same, most)]
    if len(parts) == 1:
        return (Group(prefix, tuple(parts[0])),)
    return tuple(Group(f"{prefix}-{n}", tuple(part)) for n, part in enumerate(parts, 1))


def _parted(cells: Sequence[Cell], most: int) -> Iterator[Sequence[Cell]]:
    """Parts of like size."""
    count = -(-len(cells) // most)
    yield from (cells[number::count] for number in range(count))


def _pool() -> Iterator[Cell]:
    for op in (*grid(), *UNUSUAL, *in_numpy()):
        for way in Registration:
            yield Cell(op, registration=way)
            if op.family or op.contract.tags:
                yield Cell(op, UNTAGGED, way)


def _written(type_: SchemaType) -> str:
    return format_type(strip_alias(type_))


def _release(version: Version) -> str:
    return ".".join(map(str, version))
