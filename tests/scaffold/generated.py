"""Op specs by the hundred, packages rendered from them, and the tools run on those."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from opscaffold.contract.derive import as_inferred
from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.kinds import with_kind_tag
from opscaffold.contract.model import BaseType, Kind, OpContract
from opscaffold.scaffold.render import render_package
from opscaffold.scaffold.spec import FakeMode, FakeSpec, OpSpec, PackageSpec

SAME, BROADCAST, EXPRESSION, DYNAMIC = FakeMode


def op(
    schema: str,
    mode: FakeMode = FakeMode.SAME,
    *,
    like: str | None = None,
    shape: Sequence[str] = (),
    autograd: bool | None = None,
    family: bool = False,
) -> OpSpec:
    """The op of a schema, with the defaults that answers would give."""
    contract = as_inferred(with_kind_tag(parse_schema(schema)))
    if like is None:
        like = "" if mode is FakeMode.BROADCAST else first_tensor(contract)
    if autograd is None:
        autograd = contract.kind is Kind.FUNCTIONAL and "Tensor" in schema.partition("->")[2]
        autograd = autograd and "Tensor" in schema.partition("->")[0]
    return OpSpec(contract, FakeSpec(mode, like, tuple(shape)), autograd, family)


def first_tensor(contract: OpContract) -> str:
    """The first Tensor argument that may be read, or nothing."""
    out = contract.kind is Kind.OUT
    for p in contract.parameters:
        if isinstance(p.type, BaseType) and p.type.name == "Tensor" and not (out and p.mutated):
            return p.name
    return ""


def package(name: str, ops: Sequence[OpSpec], torch_min: tuple[int, int] = (2, 13)) -> PackageSpec:
    """A package of the ops, each moved into its namespace."""
    module = name.replace("-", "_")
    moved = tuple(replace(o, contract=replace(o.contract, namespace=module)) for o in ops)
    return PackageSpec(name, module, module, moved, torch_min, "Ops to test with.")


def matrix() -> Iterator[OpSpec]:
    """Every kind by tensors, numbers, returns, autograd, family and metadata rule."""
    for tensors in (1, 2, 3):
        for numbers in (False, True):
            yield from _of(tensors, numbers=numbers)


def _of(tensors: int, *, numbers: bool) -> Iterator[OpSpec]:
    words = [f"Tensor {name}" for name in "xyz"[:tensors]]
    given = ["float alpha=1.5", "*", "int k=2", "bool flag=True"] if numbers else []
    plain = ", ".join([*words, *given])
    name = f"t{tensors}{'n' if numbers else ''}"
    k = "k" if numbers else "2"
    for mode, short in zip(FakeMode, "sbed", strict=True):
        shape = (
            (f"x.shape[0] * {k}", f"{'xyz'[tensors - 1]}.shape[1]") if mode is EXPRESSION else ()
        )
        for returns in (1, 2):
            back = "Tensor" if returns == 1 else "(Tensor, Tensor)"
            for autograd in (True, False):
                yield op(
                    f"ns::f_{name}_{short}{returns}{'a' if autograd else ''}({plain}) -> {back}",
                    mode,
                    shape=shape,
                    autograd=autograd,
                )
            if mode is DYNAMIC:
                continue
            star = "" if numbers else "*, "
            outs = ["Tensor(a!) out"] if returns == 1 else ["Tensor(a!) lo", "Tensor(b!) hi"]
            aliased = "Tensor(a!)" if returns == 1 else "(Tensor(a!), Tensor(b!))"
            yield op(
                f"ns::o_{name}_{short}{returns}_out({plain}, {star}{', '.join(outs)}) -> {aliased}",
                mode,
                shape=shape,
            )
        if mode in (SAME, BROADCAST):
            yield op(f"ns::fam_{name}_{short}({plain}) -> Tensor", mode, family=True)
            yield op(
                f"ns::fam_{name}_{short}n({plain}) -> Tensor", mode, family=True, autograd=False
            )
    written = ", ".join(["Tensor(a!) x", *words[1:], *given])
    yield op(f"ns::i_{name}_({written}) -> Tensor(a!)")
    yield op(f"ns::m_{name}({written}) -> ()")
    yield op(f"ns::m_{name}_1({written}) -> Tensor")
    yield op(f"ns::m_{name}_2({written}) -> (Tensor, Tensor)")
    if tensors > 1:
        both = ", ".join(["Tensor(a!) x", "Tensor(b!) y", *words[2:], *given])
        yield op(f"ns::m_{name}_all({both}) -> ()")


# Everything beyond the grid: each type of argument and return, and names that get in the way.
UNUSUAL = (
    op("ns::nums(Tensor x, float a=0.5) -> (Tensor, int, float, bool)"),
    op("ns::onlynum(Tensor x) -> int"),
    op("ns::twonum(Tensor x, int k=3) -> (int, bool)"),
    op(
        "ns::lists(Tensor[] xs, Tensor?[] ys, Tensor? b=None, *, float k=2.0) "
        "-> (Tensor, Tensor[])",
        like="xs",
    ),
    op("ns::retlist(Tensor x, Tensor y) -> Tensor[]", BROADCAST),
    op(
        "ns::every(Tensor x, Tensor? b, int n, float f, bool flag, str mode, Scalar s, "
        "ScalarType dt, Device dev, int[] sizes, float[] ws, bool[] bs, Scalar[] ss, "
        "int? on=None, float? of=None, bool? ob=None, str? os=None, ScalarType? odt=None, "
        "Device? odev=None, int[]? osz=None, Scalar? osc=None, *, int kn=1, float? kf=None) "
        "-> Tensor"
    ),
    op(
        'ns::make(int n, ScalarType? dtype=None, Device? device=None, str mode="a") -> Tensor',
        EXPRESSION,
        shape=("n", "2"),
    ),
    op("ns::fill_out(int n, *, Tensor(a!) out) -> Tensor(a!)", EXPRESSION, shape=("n", "2")),
    op("ns::dynnone(int n) -> Tensor", DYNAMIC),
    op("ns::dynlist(Tensor[] xs) -> (Tensor, Tensor[], int)", DYNAMIC, like="xs"),
    op("ns::dynopt(Tensor? x, float a=1.0) -> Tensor", DYNAMIC),
    op("ns::concat(Tensor[] xs, int n) -> Tensor", EXPRESSION, shape=("n",), like="xs"),
    op("ns::anyplace(Tensor?[] xs, int n) -> Tensor", EXPRESSION, shape=("n",), like=""),
    op("ns::mm(Tensor x, Tensor y) -> Tensor", EXPRESSION, shape=("x.shape[0]", "y.shape[1]")),
    op(
        "ns::deep(Tensor x, int k=2) -> Tensor",
        EXPRESSION,
        shape=("x.shape[-1] // k", "x.shape[2]", "x.numel() - 2", "x.ndim % 2 + 1"),
    ),
    op("ns::total(Tensor x) -> Tensor", EXPRESSION, shape=()),
    op("ns::mutkw(Tensor(a!) x, Tensor(b!) y, float a=1.0, *, int k=2) -> ()"),
    op("ns::mutlist(Tensor(a!)[] xs, Tensor y) -> ()", like="y"),
    op("ns::mutlists(Tensor(a!)[] xs) -> ()", like=""),
    op("ns::mutopt(Tensor(a!)? x, Tensor y) -> ()", like="y"),
    op("ns::mutdyn(Tensor(a!) x, Tensor y) -> Tensor", DYNAMIC),
    op(
        "ns::outs(Tensor x, float a=1.0, *, Tensor w, Tensor(a!) lo, Tensor(b!) hi) "
        "-> (Tensor(a!), Tensor(b!))",
        BROADCAST,
    ),
    op(
        "ns::longer_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        EXPRESSION,
        shape=("x.shape[0] + 1",),
    ),
    op(
        "ns::fame(Tensor x, int k=1) -> Tensor",
        EXPRESSION,
        shape=("x.shape[0]", "x.shape[1] * k // k"),
        family=True,
    ),
    op(
        "ns::famy(Tensor x, Tensor y, Tensor? z=None, *, bool b=True) -> Tensor",
        like="y",
        family=True,
    ),
    op(
        "ns::sum(Tensor ctx, int[] inputs, Tensor output, *, float[] keyword_only_inputs, "
        "int total=1) -> Tensor"
    ),
    op(
        "ns::ReLU(Tensor out, Tensor result, Tensor _kernel, Tensor checks, Tensor case, "
        "Tensor grad_out, Tensor self, float value=1.0, float factor=2.0) -> (Tensor, Tensor)"
    ),
    op("ns::mutlistret(Tensor(a!)[] xs) -> Tensor", like="xs"),
    op("ns::mutoptret(Tensor(a!) x, Tensor? y=None) -> (Tensor, Tensor)"),
    op("ns::dtyped(Tensor x, ScalarType d=float32, *, ScalarType e=float64) -> Tensor"),
    op("ns::i_opt_(Tensor(a!) x, Tensor? y=None, int[]? z=None) -> Tensor(a!)"),
    op("ns::_op(Tensor x) -> Tensor", DYNAMIC, family=False),
    op("ns::test_x(Tensor x, bool b=1, float f=1, Device d='cpu') -> Tensor"),
)

_SCALARS = ("int", "float", "bool", "str", "Scalar", "ScalarType", "Device")
_LISTS = ("int[]", "float[]", "bool[]", "Scalar[]")
_DEFAULTS = {"int": "3", "float": "0.25", "bool": "True", "str": '"on"', "Scalar": "2.5"}


def random_ops(seed: int, count: int) -> list[OpSpec]:
    """Legal ops of any kind, with any arguments and names of any length."""
    chance = random.Random(seed)
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
    return op(
        f"ns::{name}({words}) -> {fresh}",
        mode,
        shape=shape if mode is EXPRESSION else (),
        autograd=kind is Kind.FUNCTIONAL and chance.random() < 0.7,
        family=family and chance.random() < 0.4,
    )


CACHES = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def run(
    directory: Path, *arguments: str, python: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in a directory, with nothing of the caller's import path."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    return subprocess.run(
        [python or sys.executable, *arguments],
        cwd=directory,
        env=env | CACHES | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def require(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that succeeded."""
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-8000:]
    return output


def write(spec: PackageSpec, parent: Path) -> Path:
    """Render a package and return its directory."""
    return render_package(spec, parent).path


def pytest_in(
    directory: Path, *arguments: str, python: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a package's tests in one process."""
    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist"]
    return run(directory, "-m", "pytest", "-q", "--tb=short", *plugins, *arguments, python=python)


def run_tests(directory: Path, *, python: Path | None = None) -> None:
    """Run a package's tests. Every one must pass; a skipped one might hide a failure."""
    output = require(pytest_in(directory, python=python))
    summary = next(line for line in reversed(output.splitlines()) if " passed" in line)
    assert not {"skipped", "xfailed", "deselected"} & set(summary.replace(",", "").split())
