"""What reading a signature offers beyond PyTorch's own rules."""

from __future__ import annotations

import ast

import pytest

from opscaffold.contract.grammar import format_schema
from opscaffold.contract.model import Default, Tag
from opscaffold.contract.signature import (
    SignatureError,
    Stage,
    contract_from_signature,
    parse_function,
)


def schema(source: str, **options: object) -> str:
    return format_schema(contract_from_signature(source, qualname="ns::f", **options))  # type: ignore[arg-type]


def refusal(source: str, **options: object) -> SignatureError:
    with pytest.raises(SignatureError) as caught:
        schema(source, **options)
    return caught.value


def test_a_body_and_a_colon_may_be_left_away() -> None:
    expected = "ns::f(Tensor x, float alpha=1.0) -> Tensor"
    for tail in ("", ":", ": ...", ":\n    return x"):
        assert schema(f"  def scale(x: Tensor, alpha: float = 1.0) -> Tensor{tail}") == expected


def test_a_node_of_a_parsed_module_is_read_where_it_stands() -> None:
    tree = ast.parse("import torch\n\n\ndef f(x: torch.Tensor,\n      n: set) -> None: ...\n")
    with pytest.raises(SignatureError) as caught:
        contract_from_signature(tree.body[1], qualname="ns::f")  # type: ignore[arg-type]
    assert (caught.value.line, caught.value.column) == (5, 10)
    assert caught.value.parameter == "n"


@pytest.mark.parametrize(
    "source", ["", "x = 1", "def f(", "def f(): ...\ndef g(): ...", "lambda x: x", "\0", "(" * 500]
)
def test_a_text_without_exactly_one_function_is_refused(source: str) -> None:
    assert refusal(source).remedy


def test_a_renamed_import_is_followed_by_the_resolver() -> None:
    origins = {"T": "torch.Tensor", "Opt": "typing.Optional", "th.device": "torch.device"}
    source = "def f(x: T, y: Opt[T], d: th.device, k: Seq[int]) -> T: ..."
    origins["Seq"] = "collections.abc.Sequence"
    text = schema(source, resolver=lambda node: origins.get(ast.unparse(node)))
    assert text == "ns::f(Tensor x, Tensor? y, Device d, SymInt[] k) -> Tensor"


def test_the_resolver_overrules_how_a_name_is_spelled() -> None:
    error = refusal(
        "def f(x: Tensor) -> None: ...",
        resolver=lambda node: "numpy.ndarray" if ast.unparse(node) == "Tensor" else None,
    )
    assert "numpy" in error.reason
    assert error.stage is Stage.INFER


def test_a_name_nobody_knows_is_unknown_rather_than_refused() -> None:
    assert refusal("def f(x: Mystery) -> None: ...").stage is Stage.UNKNOWN
    assert refusal("def f(x: 'Mystery') -> None: ...").stage is Stage.UNKNOWN
    assert refusal("def f(x: Tensor, e: float = EPS) -> Tensor: ...").stage is Stage.UNKNOWN
    assert refusal("def f(x: Tensor, e: float = eps()) -> Tensor: ...").stage is Stage.UNKNOWN


def test_a_constant_may_be_evaluated_by_the_caller() -> None:
    source = "def f(x: Tensor, e: float = EPS) -> Tensor: ..."
    assert schema(source, evaluate=lambda node: Default(1e-6)) == (
        "ns::f(Tensor x, float e=1e-06) -> Tensor"
    )
    assert refusal(source, evaluate=lambda node: Default(float("inf"))).stage is Stage.REGISTRATION
    assert refusal(source, evaluate=lambda node: None).stage is Stage.UNKNOWN


@pytest.mark.parametrize(
    "default",
    ["9**9**9", "1 << 10**9", "2**1000 * 2**1000 * 2**1000", "((((1<<999)<<999)<<999)<<999)<<999"],
)
def test_arithmetic_without_end_is_not_carried_out(default: str) -> None:
    assert refusal(f"def f(x: Tensor, n: int = {default}) -> Tensor: ...").remedy


@pytest.mark.parametrize("default", ["1 / 0", "1 % 0", "int('x')", "2.0 ** 5000", "1 << -1"])
def test_arithmetic_that_fails_is_refused(default: str) -> None:
    assert refusal(f"def f(x: Tensor, n: float = {default}) -> Tensor: ...").remedy


def test_a_default_inside_a_device_call_is_no_code() -> None:
    assert refusal("def f(x: Tensor, d: device = torch.device(name())) -> Tensor: ...")


def test_what_is_accepted_depends_on_the_release() -> None:
    source = "def f(x: list[Tensor] | None) -> Tensor: ..."
    assert "2.13" in refusal(source).reason
    assert refusal(source).remedy == "annotate list[Tensor], empty where there is none"
    assert schema(source, release=(2, 15)) == "ns::f(Tensor[]? x) -> Tensor"
    tagged = "def f(x: Tensor) -> Tensor: ..."
    old = refusal(tagged, release=(2, 12), tags={Tag.INPLACE}, mutates_args={"x"})
    assert "takes no tags" in old.reason
    assert "no torch.library.custom_op" in refusal(tagged, release=(2, 3)).reason


@pytest.mark.parametrize(
    ("annotation", "remedy"),
    [
        ("tuple[int, int]", "annotate a list of that type"),
        ("tuple[int, str]", "pass its items as arguments of their own"),
        ("Union[int, float]", "torch.types.Number"),
        ("torch.Size", "annotate list[int]"),
        ("torch.nn.Parameter", "annotate Tensor"),
        ("torch.SymInt", "annotate int"),
        ("Literal['a']", "annotate str or int"),
        ("list[int | None]", "annotate list[int] without None in it"),
        ("list", "list[int]"),
        ("List['Tensor']", "drop the quotes around Tensor"),
    ],
)
def test_the_remedy_names_the_nearest_legal_form(annotation: str, remedy: str) -> None:
    assert remedy in refusal(f"def f(x: {annotation}) -> None: ...").remedy


@pytest.mark.parametrize(
    "parameter",
    [f"n: int = {'-' * 3000}1", f"n: int = {'1+' * 3000}1", f"n: {'a.' * 3000}b"],
)
def test_a_signature_nested_without_end_is_refused(parameter: str) -> None:
    assert refusal(f"def f(x: Tensor, {parameter}) -> Tensor: ...").remedy


def test_async_functions_are_refused() -> None:
    assert "async" in refusal("async def f(x: Tensor) -> Tensor: ...").reason


def test_a_qualname_must_have_a_namespace() -> None:
    for name in ("f", "a::b::c", "a::b.c.d", "::f", ""):
        with pytest.raises(ValueError, match="namespace"):
            contract_from_signature("def f(x: Tensor) -> Tensor: ...", qualname=name)


def test_a_future_import_in_the_text_is_seen() -> None:
    _, postponed = parse_function("from __future__ import annotations\ndef f() -> None: ...")
    assert postponed
    assert not parse_function("def f() -> None: ...")[1]
