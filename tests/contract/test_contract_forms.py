"""Deriving one contract from another, kinds, and Python spellings."""

from __future__ import annotations

import pytest

from opscaffold.contract.derive import (
    DerivationError,
    as_inferred,
    functional_of,
    inplace_of,
    mutable_of,
    out_of,
)
from opscaffold.contract.grammar import format_schema, parse_schema, parse_type
from opscaffold.contract.kinds import infer_kind, with_kind_tag
from opscaffold.contract.model import Default, Kind, OpContract, Symbol, Tag
from opscaffold.contract.naming import OutNaming
from opscaffold.contract.pytypes import annotation_text, default_text, return_annotation_text

SCALE = "ns::scale(Tensor x, Tensor y, float alpha=1.0, *, int n=2) -> Tensor"
TWO = "ns::split(Tensor x, int n) -> (Tensor, Tensor)"


def text(contract: OpContract) -> str:
    return format_schema(contract)


def test_the_out_form_ends_in_keyword_only_buffers() -> None:
    out = out_of(parse_schema(SCALE))
    assert text(out) == (
        "ns::scale_out(Tensor x, Tensor y, float alpha=1.0, *, int n=2, Tensor(a4!) out)"
        " -> Tensor(a4!)"
    )
    assert (out.kind, out.tags, infer_kind(out)) == (Kind.OUT, {Tag.OUT}, Kind.OUT)


def test_several_buffers_are_numbered_or_named() -> None:
    two = parse_schema(TWO)
    assert text(out_of(two)) == (
        "ns::split_out(Tensor x, int n, *, Tensor(a2!) out0, Tensor(a3!) out1)"
        " -> (Tensor(a2!), Tensor(a3!))"
    )
    assert out_of(two, ("low", "high")).mutated == ("low", "high")


def test_the_overload_form_keeps_the_name() -> None:
    assert out_of(parse_schema(SCALE), style=OutNaming.OVERLOAD).qualname == "ns::scale.out"


def test_the_inplace_form_returns_its_first_argument() -> None:
    inplace = inplace_of(parse_schema(SCALE))
    assert text(inplace) == (
        "ns::scale_(Tensor(a0!) x, Tensor y, float alpha=1.0, *, int n=2) -> Tensor(a0!)"
    )
    assert (inplace.kind, infer_kind(inplace)) == (Kind.INPLACE, Kind.INPLACE)


def test_the_mutable_form_puts_its_buffers_before_the_first_default() -> None:
    mutable = mutable_of(parse_schema(SCALE))
    assert text(mutable) == (
        "ns::scale_out(Tensor x, Tensor y, Tensor(a2!) out, float alpha=1.0, *, int n=2) -> ()"
    )
    assert (mutable.kind, mutable.tags) == (Kind.MUTABLE, frozenset())
    assert mutable_of(parse_schema(TWO), name="split_into").name == "split_into"


@pytest.mark.parametrize("schema", [SCALE, TWO])
def test_the_out_form_leads_back_to_the_functional_one(schema: str) -> None:
    contract = parse_schema(schema)
    assert functional_of(out_of(contract)) == contract
    assert functional_of(out_of(contract, style=OutNaming.OVERLOAD)) == contract
    names = mutable_of(contract).mutated
    assert functional_of(mutable_of(contract), write_only=names) == contract


def test_the_inplace_form_leads_back_to_the_functional_one() -> None:
    contract = parse_schema(SCALE)
    assert functional_of(inplace_of(contract)) == contract


def test_the_functional_form_of_a_mutable_op_returns_what_was_written() -> None:
    contract = parse_schema("ns::step(Tensor(a!) cache, Tensor(b!) out, Tensor x) -> (Tensor)")
    assert text(functional_of(contract, write_only=("out",))) == (
        "ns::step_functional(Tensor cache, Tensor x) -> (Tensor, Tensor, Tensor)"
    )
    assert functional_of(contract, name="step2").name == "step2"


def test_a_functional_op_is_its_own_functional_form() -> None:
    contract = parse_schema(SCALE)
    assert functional_of(contract) is contract


@pytest.mark.parametrize(
    ("derive", "schema", "words"),
    [
        (out_of, "ns::f(Tensor x) -> Tensor[]", "only a plain Tensor"),
        (out_of, "ns::f(Tensor x) -> (Tensor, int)", "only a plain Tensor"),
        (out_of, "ns::f(Tensor x) -> ()", "nothing that a buffer"),
        (out_of, "ns::f(Tensor out) -> Tensor", "'out' is there already"),
        (out_of, "ns::f(Tensor(a!) x) -> ()", "only a functional op"),
        (out_of, "ns::f(Tensor(a) x) -> Tensor(a)", "shares memory"),
        (out_of, "ns::f_(Tensor x) -> Tensor", "says in-place"),
        (inplace_of, "ns::f(int n, Tensor x) -> Tensor", "first argument"),
        (inplace_of, "ns::f(Tensor? x) -> Tensor", "first argument"),
        (inplace_of, "ns::f(*, Tensor x) -> Tensor", "first argument"),
        (inplace_of, "ns::f() -> Tensor", "first argument"),
        (inplace_of, TWO, "exactly one Tensor"),
        (inplace_of, "ns::f(Tensor(a!) x) -> ()", "only a functional op"),
        (mutable_of, "ns::f(Tensor x) -> int", "only a plain Tensor"),
        (functional_of, "ns::f(Tensor(a!)[] xs) -> ()", "differs by call"),
        (functional_of, "ns::f(Tensor(a!)? x) -> ()", "differs by call"),
    ],
)
def test_what_cannot_be_derived_is_explained(derive: object, schema: str, words: str) -> None:
    with pytest.raises(DerivationError, match=words):
        derive(parse_schema(schema))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a",), "2 returns"),
        (("a", "a"), "already"),
        (("x", "b"), "already"),
        (("a", "1"), "ASCII"),
    ],
)
def test_bad_buffer_names_are_explained(names: tuple[str, ...], words: str) -> None:
    with pytest.raises(DerivationError, match=words):
        out_of(parse_schema(TWO), names)


def test_only_mutated_arguments_can_be_write_only() -> None:
    with pytest.raises(DerivationError, match="does not mutate 'x'"):
        functional_of(parse_schema("ns::f(Tensor x, Tensor(a!) y) -> ()"), write_only=("x",))


def test_the_schema_that_python_code_gives_is_known_beforehand() -> None:
    written = "ns::f(Tensor(q!) x, int[2] k, Tensor! y, int? n=None) -> (Tensor values)"
    assert text(as_inferred(parse_schema(written))) == (
        "ns::f(Tensor(a0!) x, SymInt[] k, Tensor(a2!) y, SymInt? n=None) -> Tensor"
    )


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("f(Tensor x) -> Tensor", Kind.FUNCTIONAL),
        ("f(Tensor(a) x) -> Tensor(a)", Kind.FUNCTIONAL),
        ("f(Tensor(a!) x) -> Tensor(a!)", Kind.INPLACE),
        ("f(Tensor(a0!) x, int n=1) -> Tensor(a0!)", Kind.INPLACE),
        ("f(Tensor(a!) x) -> Tensor", Kind.MUTABLE),
        ("f(Tensor(a!) x) -> ()", Kind.MUTABLE),
        ("f(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)", Kind.MUTABLE),
        ("f(int n, Tensor(a!) x) -> Tensor(a!)", Kind.MUTABLE),
        ("f(Tensor(a!)[] x) -> Tensor(a!)[]", Kind.MUTABLE),
        ("f(Tensor! x) -> Tensor!", Kind.MUTABLE),
        ("f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", Kind.OUT),
        ("f(*, Tensor(a!) o, Tensor(b!) p) -> (Tensor(a!), Tensor(b!))", Kind.OUT),
        ("f(*, Tensor(a!) o, Tensor(b!) p) -> (Tensor(b!), Tensor(a!))", Kind.MUTABLE),
        ("f(Tensor x, *, Tensor(a!) out) -> ()", Kind.MUTABLE),
        ("f(Tensor x, *, Tensor(a!)? out) -> Tensor(a!)?", Kind.MUTABLE),
        ("f(Tensor(b!) c, *, Tensor(a!) out) -> Tensor(a!)", Kind.MUTABLE),
    ],
)
def test_the_kind_is_read_from_the_schema(schema: str, kind: Kind) -> None:
    contract = parse_schema(schema)
    assert infer_kind(contract) is kind
    assert with_kind_tag(contract).kind is kind
    assert with_kind_tag(with_kind_tag(contract)) == with_kind_tag(contract)


@pytest.mark.parametrize(
    ("type_", "annotation"),
    [
        ("Tensor(a!)", "Tensor"),
        ("Tensor?", "Tensor | None"),
        ("Tensor?[]", "list[Tensor | None]"),
        ("SymInt[2]?", "list[int] | None"),
        ("int", "int"),
        ("Scalar", "torch.types.Number"),
        ("ScalarType?", "torch.dtype | None"),
        ("Device", "torch.device"),
    ],
)
def test_annotations_are_spelled(type_: str, annotation: str) -> None:
    assert annotation_text(parse_type(type_)) == annotation


@pytest.mark.parametrize("type_", ["Dict(str, int)", "MemoryFormat", "(int, int)", "complex"])
def test_a_type_without_annotation_is_an_error(type_: str) -> None:
    with pytest.raises(ValueError, match="no annotation"):
        annotation_text(parse_type(type_))


def test_return_annotations_are_spelled() -> None:
    def returns(schema: str) -> str:
        return return_annotation_text(parse_schema(schema).returns)

    assert returns("f() -> ()") == "None"
    assert returns("f() -> Tensor(a!)") == "Tensor"
    assert returns("f() -> (Tensor, int)") == "tuple[Tensor, int]"
    assert returns("f() -> Tensor[]") == "list[Tensor]"


@pytest.mark.parametrize(
    ("type_", "value", "text_"),
    [
        ("float", 1, "1.0"),
        ("float?", 1.5, "1.5"),
        ("int", -3, "-3"),
        ("int", Symbol("Mean"), "1"),
        ("bool", True, "True"),
        ("Tensor?", None, "None"),
        ("str", "it's", '"it\'s"'),
        ("str", 'say "a"', '"say \\"a\\""'),
        ("str", "\t\n\\", '"\\t\\n\\\\"'),
        ("ScalarType", Symbol("float32"), "torch.float32"),
        ("Device", "cuda:0", 'torch.device("cuda:0")'),
    ],
)
def test_defaults_are_spelled(type_: str, value: object, text_: str) -> None:
    assert default_text(Default(value), parse_type(type_)) == text_  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type_", "value"), [("int[2]", (1, 2)), ("MemoryFormat", Symbol("contiguous_format"))]
)
def test_a_default_without_spelling_is_an_error(type_: str, value: object) -> None:
    with pytest.raises(ValueError, match="default"):
        default_text(Default(value), parse_type(type_))  # type: ignore[arg-type]
