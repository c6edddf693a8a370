"""Which rule gives the metadata of an op's outputs: what fits a contract, what was answered."""

from __future__ import annotations

from opscaffold.contract.model import BaseType, Kind, ListType, OpContract, base_name
from opscaffold.scaffold.given import Table
from opscaffold.scaffold.infer import RefusedError
from opscaffold.scaffold.shape_expr import check_expression
from opscaffold.scaffold.spec import FakeMode, FakeSpec


def _plain_tensors(contract: OpContract) -> list[str]:
    """The Tensor arguments that are always given and whose contents may be read."""
    out = contract.kind is Kind.OUT
    return [
        p.name
        for p in contract.parameters
        if isinstance(p.type, BaseType) and p.type.name == "Tensor" and not (out and p.mutated)
    ]


def returns_tensors(contract: OpContract) -> bool:
    """Whether a Tensor, or a list of them, is among the returns."""
    return any(base_name(r.type) == "Tensor" for r in contract.returns)


def needs_fake(contract: OpContract) -> bool:
    """Whether the op's outputs have sizes that a rule has to give."""
    return contract.kind is not Kind.INPLACE and returns_tensors(contract)


def like_choices(contract: OpContract) -> list[str]:
    """The arguments that outputs may be like: Tensors, or lists of them for their first."""
    lists = [
        p.name
        for p in contract.parameters
        if isinstance(p.type, ListType) and isinstance(p.type.of, BaseType) and p.is_tensor_like
    ]
    return _plain_tensors(contract) or lists


def default_shape(contract: OpContract) -> str:
    """Sizes that any op can have: one dimension, as long as an input's or as an int says."""
    tensors = _plain_tensors(contract)
    return f"{tensors[0]}.shape[0]" if tensors else next(iter(_ints(contract)), "1")


def fitting_modes(contract: OpContract) -> list[FakeMode]:
    """The rules that the contract leaves possible, the likeliest first."""
    modes = [FakeMode.SAME] if like_choices(contract) else []
    modes += [FakeMode.BROADCAST] if _plain_tensors(contract) else []
    modes += [FakeMode.EXPRESSION]
    return modes if contract.kind is Kind.OUT else [*modes, FakeMode.DYNAMIC]


def fake_of(table: Table, contract: OpContract) -> FakeSpec:
    """The rule that normal answers choose, or the default. Raises RefusedError."""
    likes = like_choices(contract)
    first = likes[0] if likes else ""
    if not needs_fake(contract):
        return _no_fake(table, contract, first)
    shape = table["fake_shape"].value if "fake_shape" in table else None
    default = FakeMode.SAME if likes and shape is None else FakeMode.EXPRESSION
    if shape is None and "fake" not in table and not likes:
        shape = (default_shape(contract),)
    mode = FakeMode(str(table["fake"].value)) if "fake" in table else default
    like = str(table["fake_like"].value) if "fake_like" in table else first
    if mode is FakeMode.BROADCAST and not _plain_tensors(contract):
        raise RefusedError("there is no Tensor argument to broadcast; say same", "fake")
    if like not in likes and (like or mode in (FakeMode.SAME, FakeMode.BROADCAST)):
        known = f"it is one of {', '.join(likes)}" if likes else "there is none; say expression"
        subject = f"{like} is no" if like else f"fake {mode.value} needs a"
        raise RefusedError(
            f"{subject} Tensor argument that is always given and may be read; {known}",
            "fake_like" if like else "fake",
        )
    if mode is FakeMode.DYNAMIC and contract.kind is Kind.OUT:
        raise RefusedError(
            "the buffers of an out= op have their size before the data is seen; nearest legal "
            "form: a functional op with fake dynamic",
            "fake",
            "kind",
        )
    if mode is not FakeMode.EXPRESSION:
        if shape is not None:
            raise RefusedError(
                f"sizes are given, but fake {mode.value} does not use them; say expression",
                "fake_shape",
                "fake",
            )
        if mode is FakeMode.BROADCAST and "fake_like" in table:
            raise RefusedError(
                "fake broadcast takes all Tensors together; drop fake_like", "fake_like"
            )
        return FakeSpec(mode, "" if mode is FakeMode.BROADCAST else like)
    if not isinstance(shape, tuple):
        raise RefusedError("fake expression needs the size of each dimension", "fake_shape")
    return FakeSpec(mode, like, _shape(shape, contract))


def _ints(contract: OpContract) -> list[str]:
    return [
        p.name
        for p in contract.parameters
        if isinstance(p.type, BaseType) and p.type.name in ("int", "SymInt")
    ]


def _no_fake(table: Table, contract: OpContract, first: str) -> FakeSpec:
    inplace = contract.kind is Kind.INPLACE
    why = "returns its first argument" if inplace else "returns no Tensor"
    for key in ("fake", "fake_like", "fake_shape"):
        allowed = {"fake": FakeMode.SAME.value, "fake_like": first}.get(key) if inplace else None
        if key in table and table[key].value != allowed:
            raise RefusedError(f"the op {why}, so no rule gives its size; drop {key}", key)
    return FakeSpec(FakeMode.SAME, first)


def _shape(shape: tuple[str, ...], contract: OpContract) -> tuple[str, ...]:
    ints = _ints(contract)
    try:
        return tuple(check_expression(text, _plain_tensors(contract), ints) for text in shape)
    except ValueError as error:
        raise RefusedError(str(error), "fake_shape") from None
