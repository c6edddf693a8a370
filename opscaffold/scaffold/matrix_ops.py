"""The ops that templates are tried on: a grid over what `new` asks, and what lies beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from opscaffold.contract.derive import as_inferred
from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.kinds import with_kind_tag
from opscaffold.contract.model import BaseType, Kind, OpContract
from opscaffold.scaffold.spec import FakeMode, FakeSpec, KernelLanguage, OpSpec

SAME, BROADCAST, EXPRESSION, DYNAMIC = FakeMode


def op_of(
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
        like = "" if mode is FakeMode.BROADCAST else _first_tensor(contract)
    if autograd is None:
        autograd = contract.kind is Kind.FUNCTIONAL and "Tensor" in schema.partition("->")[2]
        autograd = autograd and "Tensor" in schema.partition("->")[0]
    return OpSpec(contract, FakeSpec(mode, like, tuple(shape)), autograd, family)


def _first_tensor(contract: OpContract) -> str:
    """The first Tensor argument that may be read, or nothing."""
    out = contract.kind is Kind.OUT
    for p in contract.parameters:
        if isinstance(p.type, BaseType) and p.type.name == "Tensor" and not (out and p.mutated):
            return p.name
    return ""


def grid() -> Iterator[OpSpec]:
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
                yield op_of(
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
            yield op_of(
                f"ns::o_{name}_{short}{returns}_out({plain}, {star}{', '.join(outs)}) -> {aliased}",
                mode,
                shape=shape,
            )
        if mode in (SAME, BROADCAST):
            yield op_of(f"ns::fam_{name}_{short}({plain}) -> Tensor", mode, family=True)
            yield op_of(
                f"ns::fam_{name}_{short}n({plain}) -> Tensor", mode, family=True, autograd=False
            )
    written = ", ".join(["Tensor(a!) x", *words[1:], *given])
    yield op_of(f"ns::i_{name}_({written}) -> Tensor(a!)")
    yield op_of(f"ns::m_{name}({written}) -> ()")
    yield op_of(f"ns::m_{name}_1({written}) -> Tensor")
    yield op_of(f"ns::m_{name}_2({written}) -> (Tensor, Tensor)")
    if tensors > 1:
        both = ", ".join(["Tensor(a!) x", "Tensor(b!) y", *words[2:], *given])
        yield op_of(f"ns::m_{name}_all({both}) -> ()")


def in_numpy() -> Iterator[OpSpec]:
    """One op of each kind whose kernel computes with numpy.

    Those of the other languages need what is not everywhere: a GPU for compiled Triton, a build for
    C++.
    """
    for schema, mode, family in (
        ("ns::np_add(Tensor x, Tensor y, float alpha=1.5) -> Tensor", BROADCAST, False),
        ("ns::np_pick(Tensor x, Tensor? y=None) -> (Tensor, Tensor)", DYNAMIC, False),
        ("ns::np_bump_(Tensor(a!) x, Tensor y) -> Tensor(a!)", SAME, False),
        ("ns::np_add_out(Tensor x, Tensor y, *, Tensor(a!) out) -> Tensor(a!)", SAME, False),
        ("ns::np_track(Tensor(a!) x, Tensor y, float alpha=1.5) -> Tensor", SAME, False),
        ("ns::np_fam(Tensor x, Tensor y, Tensor z) -> Tensor", BROADCAST, True),
    ):
        yield replace(op_of(schema, mode, family=family), kernel=KernelLanguage.NUMPY)


# Everything beyond the grid: each type of argument and return, and names that get in the way.
UNUSUAL = (
    op_of("ns::nums(Tensor x, float a=0.5) -> (Tensor, int, float, bool)"),
    op_of("ns::onlynum(Tensor x) -> int"),
    op_of("ns::twonum(Tensor x, int k=3) -> (int, bool)"),
    op_of(
        "ns::lists(Tensor[] xs, Tensor?[] ys, Tensor? b=None, *, float k=2.0) "
        "-> (Tensor, Tensor[])",
        like="xs",
    ),
    op_of("ns::retlist(Tensor x, Tensor y) -> Tensor[]", BROADCAST),
    op_of(
        "ns::every(Tensor x, Tensor? b, int n, float f, bool flag, str mode, Scalar s, "
        "ScalarType dt, Device dev, int[] sizes, float[] ws, bool[] bs, Scalar[] ss, "
        "int? on=None, float? of=None, bool? ob=None, str? os=None, ScalarType? odt=None, "
        "Device? odev=None, int[]? osz=None, Scalar? osc=None, *, int kn=1, float? kf=None) "
        "-> Tensor"
    ),
    op_of(
        'ns::make(int n, ScalarType? dtype=None, Device? device=None, str mode="a") -> Tensor',
        EXPRESSION,
        shape=("n", "2"),
    ),
    op_of("ns::fill_out(int n, *, Tensor(a!) out) -> Tensor(a!)", EXPRESSION, shape=("n", "2")),
    op_of("ns::dynnone(int n) -> Tensor", DYNAMIC),
    op_of("ns::dynlist(Tensor[] xs) -> (Tensor, Tensor[], int)", DYNAMIC, like="xs"),
    op_of("ns::dynopt(Tensor? x, float a=1.0) -> Tensor", DYNAMIC),
    op_of("ns::concat(Tensor[] xs, int n) -> Tensor", EXPRESSION, shape=("n",), like="xs"),
    op_of("ns::anyplace(Tensor?[] xs, int n) -> Tensor", EXPRESSION, shape=("n",), like=""),
    op_of("ns::mm(Tensor x, Tensor y) -> Tensor", EXPRESSION, shape=("x.shape[0]", "y.shape[1]")),
    op_of(
        "ns::deep(Tensor x, int k=2) -> Tensor",
        EXPRESSION,
        shape=("x.shape[-1] // k", "x.shape[2]", "x.numel() - 2", "x.ndim % 2 + 1"),
    ),
    op_of("ns::total(Tensor x) -> Tensor", EXPRESSION, shape=()),
    op_of("ns::mutkw(Tensor(a!) x, Tensor(b!) y, float a=1.0, *, int k=2) -> ()"),
    op_of("ns::mutlist(Tensor(a!)[] xs, Tensor y) -> ()", like="y"),
    op_of("ns::mutlists(Tensor(a!)[] xs) -> ()", like=""),
    op_of("ns::mutopt(Tensor(a!)? x, Tensor y) -> ()", like="y"),
    op_of("ns::mutdyn(Tensor(a!) x, Tensor y) -> Tensor", DYNAMIC),
    op_of(
        "ns::outs(Tensor x, float a=1.0, *, Tensor w, Tensor(a!) lo, Tensor(b!) hi) "
        "-> (Tensor(a!), Tensor(b!))",
        BROADCAST,
    ),
    op_of(
        "ns::longer_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        EXPRESSION,
        shape=("x.shape[0] + 1",),
    ),
    op_of("ns::fame(Tensor x, int k=1) -> Tensor", family=True),
    op_of("ns::famy(Tensor x, Tensor y, Tensor? z=None, *, bool b=True) -> Tensor", family=True),
    op_of(
        "ns::sum(Tensor ctx, int[] inputs, Tensor output, *, float[] keyword_only_inputs, "
        "int total=1) -> Tensor"
    ),
    op_of(
        "ns::ReLU(Tensor out, Tensor result, Tensor _kernel, Tensor checks, Tensor case, "
        "Tensor grad_out, Tensor self, float value=1.0, float factor=2.0) -> (Tensor, Tensor)"
    ),
    op_of("ns::mutlistret(Tensor(a!)[] xs) -> Tensor", like="xs"),
    op_of("ns::mutoptret(Tensor(a!) x, Tensor? y=None) -> (Tensor, Tensor)"),
    op_of("ns::i_opt_(Tensor(a!) x, Tensor? y=None, int[]? z=None) -> Tensor(a!)"),
    op_of("ns::_op(Tensor x) -> Tensor", DYNAMIC, family=False),
    op_of("ns::test_x(Tensor x, bool b=1, float f=1, Device d='cpu') -> Tensor"),
)
