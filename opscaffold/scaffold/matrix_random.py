"""Legal ops of any kind by chance, the same ones for the same seed."""

from __future__ import annotations

import random

from opscaffold.contract.model import Kind
from opscaffold.scaffold.matrix_ops import BROADCAST, DYNAMIC, EXPRESSION, SAME, op_of
from opscaffold.scaffold.spec import FakeMode, OpSpec

_SCALARS = ("int", "float", "bool", "str", "Scalar", "ScalarType", "Device")
_LISTS = ("int[]", "float[]", "bool[]", "Scalar[]")
_DEFAULTS = {"int": "3", "float": "0.25", "bool": "True", "str": '"on"', "Scalar": "2.5"}


def random_ops(seed: int, count: int) -> list[OpSpec]:
    """Legal ops of any kind, with any arguments and names of any length."""
    chance = random.Random(seed)  # noqa: S311 -- no secret
    return [_random_op(chance, number) for number in range(count)]


def _random_name(chance: random.Random) -> str:
    first = chance.choice("abcdefgXYZ_")
    length = chance.choice([0, 1, 3, 8, 15, 30])
    rest = "".join(chance.choice("abcxyzAB_0129") for _ in range(length))
    return f"{first}{rest}{chance.choice('abc')}".replace("__", "_a")


def _random_op(chance: random.Random, number: int) -> OpSpec:
    kind = chance.choice([Kind.FUNCTIONAL, Kind.FUNCTIONAL, *Kind])
    names: list[str] = []
    while len(names) < 16:
        name = _random_name(chance)
        if name.lower() not in [n.lower() for n in names]:
            names.append(name)
    unused = iter(names)
    tensors = [f"Tensor {next(unused)}" for _ in range(chance.randint(1, 3))]
    first = tensors[0].split()[1]
    if chance.random() < 0.3:
        tensors.append(f"Tensor[] {next(unused)}")
    rest: list[str] = []
    for _ in range(chance.randint(0, 4)):
        type_ = chance.choice([*_SCALARS, *_LISTS, "Tensor?"])
        optional = chance.random() < 0.3 and type_ not in ("Tensor?", "Scalar[]")
        rest.append(f"{type_}{'?' * optional} {next(unused)}")
    defaulted: list[str] = []
    for _ in range(chance.randint(0, 3)):
        type_ = chance.choice(sorted(_DEFAULTS))
        defaulted.append(f"{type_} {next(unused)}={_DEFAULTS[type_]}")
    star = ["*"] if defaulted and chance.random() < 0.4 else []
    returns = chance.randint(1, 3)
    fresh = "Tensor" if returns == 1 else f"({', '.join(['Tensor'] * returns)})"
    mode = chance.choice([*FakeMode])
    name = f"{_random_name(chance)}{number}"
    shape = (f"{first}.shape[0] + 1", f"2 * {first}.numel()")
    if kind is Kind.OUT:
        mode = SAME if mode is DYNAMIC else mode
        outs = [f"Tensor({'abc'[n]}!) {next(unused)}" for n in range(returns)]
        back = ", ".join(f"Tensor({'abc'[n]}!)" for n in range(returns))
        fresh = back if returns == 1 else f"({back})"
        defaulted = [*star, *defaulted, *([] if star else ["*"]), *outs]
        star = []
    elif kind is not Kind.FUNCTIONAL:
        tensors[0] = f"Tensor(a!) {first}"
        if kind is Kind.INPLACE:
            name, mode, fresh = f"{name}_", SAME, "Tensor(a!)"
        elif chance.random() < 0.5:
            mode, fresh = SAME, "()"
    words = ", ".join([*tensors, *rest, *star, *defaulted])
    family = kind is Kind.FUNCTIONAL and returns == 1 and mode in (SAME, BROADCAST)
    return op_of(
        f"ns::{name}({words}) -> {fresh}",
        mode,
        shape=shape if mode is EXPRESSION else (),
        autograd=kind is Kind.FUNCTIONAL and chance.random() < 0.7,
        family=family and chance.random() < 0.4,
    )
