"""Calls to try an op with, made up from its schema, as Python source.

Sizes are all alike and even, so that most ops take one of the calls. Which tensors hold indices
or masks is told by their names: a schema does not say.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from opscaffold.contract.model import (
    BaseType,
    ListType,
    OpContract,
    OptionalType,
    Parameter,
    SchemaType,
)

# More would be no help: what these do not fit needs a person.
_MOST = 32
_SHAPES = ("4, 4", "4", "2, 4, 4")
_INDEX = re.compile(
    r"(^|_)(idx|index|indices|indexes|ids?|offsets?|slots?|lens?|lengths?|pos)(_|$)"
)
_MASK = re.compile(r"(^|_)(mask|keep|where|cond|condition|valid)s?(_|$)")
_PLAIN = {
    "bool": ("False",),
    "float": ("0.5",),
    "int": ("1", "0", "2"),
    "SymInt": ("1", "0", "2"),
    "number": ("1.5",),
    "Scalar": ("1.5",),
    "ScalarType": ("torch.float32",),
    "Device": ('torch.device("cpu")',),
}
_LISTED = {"int": "4", "SymInt": "4", "float": "0.5", "bool": "True"}


def sample_calls(contract: OpContract) -> list[str]:
    """Return calls as ``call(floats(4, 4), 1)``, the likelier ones first.

    Arguments with a default are left out. Empty where a value for one cannot be made up.
    """
    needed = [p for p in contract.parameters if p.default is None]
    options = [_values(p) for p in needed]
    if not all(options):
        return []
    found = dict.fromkeys(_written(needed, values) for values in _combinations(needed, options))
    return list(itertools.islice(found, _MOST))


def _combinations(
    needed: Sequence[Parameter], options: Sequence[Sequence[str]]
) -> Iterator[Sequence[str]]:
    """Values for all arguments: tensors of one shape, then of several; numbers vary last.

    Where no name tells of indices, the last tensor may hold them all the same, or a mask.
    """
    tensors = [i for i, p in enumerate(needed) if _has_shape(p)]
    last = tensors[-1] if len(tensors) > 1 else None
    plain = list(_shaped(needed, options, tensors))
    if last is None or any(not text.startswith("floats") for text in options[last]):
        yield from plain
        return
    yield from plain[: _MOST // 2]
    for maker in ("indices", "mask"):
        for values in plain[: _MOST // 4]:
            yield [
                value.replace("floats", maker) if index == last else value
                for index, value in enumerate(values)
            ]


def _shaped(
    needed: Sequence[Parameter], options: Sequence[Sequence[str]], tensors: Sequence[int]
) -> Iterator[Sequence[str]]:
    """Values for all arguments, by the shapes of tensors and the values of others."""
    others = [i for i in range(len(needed)) if i not in tensors]
    shapes = sorted(
        itertools.product(range(len(_SHAPES)), repeat=len(tensors)),
        key=lambda chosen: (len(set(chosen)) > 1, max(chosen, default=0) > 1, chosen),
    )
    for numbers in _numbers([options[i] for i in others]):
        for chosen in shapes:
            values = [""] * len(needed)
            for index, value in zip(others, numbers, strict=True):
                values[index] = value
            for index, shape in zip(tensors, chosen, strict=True):
                values[index] = options[index][shape]
            yield values


def _numbers(options: Sequence[Sequence[str]]) -> list[list[str]]:
    """The first of each, then the next of each at a time."""
    most = max((len(each) for each in options), default=1)
    return [[each[min(n, len(each) - 1)] for each in options] for n in range(most)]


def _has_shape(parameter: Parameter) -> bool:
    return parameter.is_tensor_like and not isinstance(parameter.type, OptionalType)


def _values(parameter: Parameter) -> Sequence[str]:
    """Values for one argument: for a tensor one for each shape. Empty where none is known."""
    type_ = parameter.type
    if isinstance(type_, OptionalType):
        return ("None",)
    if isinstance(type_, ListType):
        return _listed(type_, parameter.name)
    if type_.name == "Tensor":
        return [f"{_maker(parameter.name)}({shape})" for shape in _SHAPES]
    return _PLAIN.get(type_.name, ())


def _listed(type_: ListType, name: str) -> Sequence[str]:
    of: SchemaType = type_.of
    if isinstance(of, OptionalType):
        of = of.of
    if not isinstance(of, BaseType):
        return ()
    count = type_.size or 2
    if of.name == "Tensor":
        each = [f"{_maker(name)}({shape})" for shape in _SHAPES]
        return [f"[{', '.join([text] * count)}]" for text in each]
    plain = _LISTED.get(of.name)
    return () if plain is None else (f"[{', '.join([plain] * count)}]",)


def _maker(name: str) -> str:
    if _MASK.search(name):
        return "mask"
    return "indices" if _INDEX.search(name) else "floats"


def _written(needed: Sequence[Parameter], values: Sequence[str]) -> str:
    words = [
        f"{parameter.name}={value}" if parameter.kw_only else value
        for parameter, value in zip(needed, values, strict=True)
    ]
    return f"call({', '.join(words)})"
