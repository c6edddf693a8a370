"""The schema grammar held against ``torch._C.parse_schema``, PyTorch's own parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscaffold.contract.grammar import SchemaError, format_schema, parse_schema
from opscaffold.contract.lexer import RESERVED_WORDS
from opscaffold.contract.model import (
    Alias,
    BaseType,
    Default,
    GenericType,
    ListType,
    OpContract,
    OptionalType,
    SchemaType,
    Symbol,
)
from opscaffold.contract.schema_types import (
    COMMON_SYMBOLS,
    DEVICE_TYPES,
    DTYPE_SYMBOLS,
    GENERIC_TYPES,
    INT_LIKE,
    SIMPLE_TYPES,
)

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

# What torch keeps of our types: integers of all kinds are one, a size is the argument's own.
_RUNTIME = dict.fromkeys(INT_LIKE, "int") | {
    "Scalar": "number",
    "string": "string",
    "SymBool": "bool",
}
_NATIVE_COUNT = 2584


def native_schemas() -> list[str]:
    torchgen = pytest.importorskip("torchgen")
    yaml = pytest.importorskip("yaml")
    path = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    with path.open(encoding="utf-8") as stream:
        return [entry["func"] for entry in yaml.load(stream, Loader=yaml.CSafeLoader)]


def type_text(type_: SchemaType) -> str:
    """Our type as ``str(torch type)`` says it."""
    if isinstance(type_, OptionalType):
        return f"Optional[{type_text(type_.of)}]"
    if isinstance(type_, ListType):
        return f"List[{type_text(type_.of)}]"
    if isinstance(type_, GenericType):
        items = ", ".join(type_text(a) for a in type_.args)
        name = "Tuple" if type_.name == "tuple" else type_.name
        return f"{name}[{items or '()'}]"
    return _RUNTIME.get(type_.name, type_.name)


def alias_of_torch(info: Any) -> Any:
    if info is None:
        return None
    return frozenset(info.before_set), frozenset(info.after_set), info.is_write


def expected_alias(type_: SchemaType) -> Any:
    """What torch reports for an argument: the outermost annotation, hollow inside a list."""
    if isinstance(type_, OptionalType):
        return expected_alias(type_.of)
    alias: Alias | None = type_.alias
    if alias is None:
        inner = expected_alias(type_.of) if isinstance(type_, ListType) else None
        return None if inner is None else (frozenset(), frozenset(), inner[2])
    before = frozenset(alias.before)
    return before, frozenset(alias.after) or before, alias.write


def expected_default(default: Default, type_: SchemaType) -> Any:
    value = default.value
    if isinstance(type_, ListType) and value is not None and not isinstance(value, tuple):
        value = (value,) * (type_.size or 0)
    return list(value) if isinstance(value, tuple) else value


def assert_agrees(contract: OpContract, text: str) -> None:
    theirs = torch._C.parse_schema(text)
    assert theirs.name == contract.qualname.partition(".")[0]
    assert theirs.overload_name == contract.overload
    assert len(theirs.arguments) == len(contract.parameters)
    for argument, parameter in zip(theirs.arguments, contract.parameters, strict=True):
        assert argument.name == parameter.name
        assert argument.kwarg_only == parameter.kw_only
        assert str(argument.type) == type_text(parameter.type)
        assert alias_of_torch(argument.alias_info) == expected_alias(parameter.type)
        assert argument.has_default_value() == (parameter.default is not None)
        if parameter.default is not None and "Symbol" not in repr(parameter.default):
            device = isinstance(argument.default_value, torch.device)
            value = str(argument.default_value) if device else argument.default_value
            assert value == expected_default(parameter.default, parameter.type)
    assert len(theirs.returns) == len(contract.returns)
    for returned, ours in zip(theirs.returns, contract.returns, strict=True):
        assert (returned.name or None) == ours.name
        assert str(returned.type) == type_text(ours.type)
        assert alias_of_torch(returned.alias_info) == expected_alias(ours.type)


def test_every_native_schema_survives_and_agrees_with_pytorch() -> None:
    schemas = native_schemas()
    assert len(schemas) == _NATIVE_COUNT
    for text in schemas:
        contract = parse_schema(text)
        printed = format_schema(contract)
        assert parse_schema(printed) == contract, text
        assert_agrees(contract, text)
        assert_agrees(contract, printed)


def accepts(text: str) -> bool:
    try:
        torch._C.parse_schema(text)
    except (RuntimeError, ValueError, IndexError):
        return False
    return True


def ours_accepts(text: str) -> bool:
    try:
        parse_schema(text)
    except SchemaError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(SIMPLE_TYPES))
def test_every_type_name_is_one_of_pytorch(name: str) -> None:
    assert accepts(f"f({name} x) -> ()")


@pytest.mark.parametrize("name", sorted(GENERIC_TYPES))
def test_every_generic_type_takes_as_many_types_as_in_pytorch(name: str) -> None:
    for count in range(4):
        types = ", ".join(["Tensor", "int", "str"][:count])
        text = f"f({name}({types}) x) -> ()"
        assert accepts(text) == ours_accepts(text), text


@pytest.mark.parametrize("word", sorted(RESERVED_WORDS | {"lambda", "from", "print", "self"}))
def test_reserved_words_are_those_of_pytorch(word: str) -> None:
    for text in (f"f(int {word}) -> ()", f"{word}(int x) -> ()", f"f.{word}() -> ()"):
        assert accepts(text) == ours_accepts(text), text


def test_symbols_are_those_of_pytorch() -> None:
    dtypes = {n for n in dir(torch) if isinstance(getattr(torch, n), torch.dtype)}
    assert dtypes == DTYPE_SYMBOLS
    for name in sorted(DTYPE_SYMBOLS | COMMON_SYMBOLS | {"Sum", "cpu", "true"}):
        for kind in ("int", "float", "ScalarType", "ScalarType?", "int?", "Layout", "Device"):
            text = f"f({kind} x={name}) -> ()"
            assert accepts(text) == ours_accepts(text), text
    for name in sorted(DEVICE_TYPES | {"gpu", "cuda:1", "cuda:01", "cuda:", ""}):
        text = f'f(Device x="{name}") -> ()'
        assert accepts(text) == ours_accepts(text), text


def _words(text: str) -> list[str]:
    return text.split()


VALUES = _words(
    r"None True False 0 -1 1.5 1e3 1j -2j 'a' [] [0] [1.5] [True] [None] ['a'] [1j] [Mean] "
    r"Mean long float32 foo 9223372036854775807 9223372036854775808 -9223372036854775808 1e-400 "
    r"10000000000000000000000 [0,1] [1,] --1 +1 - 'a\x' '\012' '\12' 1e400 1_0 .5 5. -0.0 [[1]]"
)
TYPES = _words(
    r"int SymInt float complex bool str Scalar ScalarType Layout MemoryFormat Device Generator "
    r"Quantizer Tensor Stream Any t Dict(int,int) (int,int) int[] int[2] SymInt[1] float[] "
    r"float[2] bool[] bool[2] str[] Tensor[] Tensor?[] Scalar[] int[][] int?[] ScalarType[2] "
    r"complex[] int? float? bool? str? Scalar? ScalarType? Device? Tensor? int[]? int[2]? "
    r"Tensor[]? (int,int)? string number DeviceIndex Storage QScheme NoneType"
)


@pytest.mark.parametrize("type_", TYPES)
def test_a_default_is_taken_exactly_where_pytorch_takes_it(type_: str) -> None:
    texts = [f"f({type_} x={value}) -> ()" for value in VALUES]
    if type_ == "complex":
        # PyTorch takes some whole numbers here and not others; we take none of them.
        assert [t for t in texts if ours_accepts(t) and not accepts(t)] == []
        assert ours_accepts("f(complex x=1.5) -> ()")
        assert not accepts("f(complex x=0) -> ()")
    else:
        assert [t for t in texts if accepts(t) != ours_accepts(t)] == []


SHAPES = [
    *("Tensor(a!)[]", "(Tensor(a!))[]", "((Tensor))", "Tensor[](a!)", "Tensor(a!)?[]"),
    *("Tensor(a -> *)", "Tensor(a! -> *)", "Tensor(a|b!)", "Tensor(a!|b)", "Tensor(*)"),
    *("Tensor(*!)", "Tensor(! )", "Tensor(!)", "Tensor(a -> b|c)", "Tensor(a|*)", "Tensor(*|a)"),
    *("Tensor(a -> b!)", "Tensor(a ->)", "Tensor(0!)", "Tensor(a0!)", "Tensor!", "Tensor!?"),
    *("Tensor![]", "Tensor[]!", "Tensor(a!)!", "Tensor!(a!)", "Dict(str, Tensor)(a!)"),
    *("Dict(int,int)!", "Union(Tensor, int)(a!)", "(int,int)(a!)", "Future(t)(a!)", "int(a!)"),
    *("t(a!)", "a.b", "a.b(a!)", "None?", "NoneType?", "Tensor??", "Tensor?[]?", "int[-1]"),
    *("int[x]", "int[0]", "int[007]", "int[][3]", "Tensr", "List(int)", "List[int]", "Tensor.a"),
    *("Tensor[](a!)[](b!)", "Tensor(a!)[](b!)", "Tensor?[](a!)", "Tensor[](a! -> *)?", "()"),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_type_is_taken_exactly_where_pytorch_takes_it(shape: str) -> None:
    for text in (f"f({shape} x) -> ()", f"f() -> {shape}", f"f() -> ({shape}, int)"):
        assert accepts(text) == ours_accepts(text), text


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_printed_is_what_pytorch_reads(shape: str) -> None:
    text = f"ns::f({shape} x) -> {shape}"
    if ours_accepts(text):
        contract = parse_schema(text)
        if "!" not in text.replace("(a!)", "") or "Tensor!" not in text:
            assert_agrees_loosely(contract)


def assert_agrees_loosely(contract: OpContract) -> None:
    theirs = torch._C.parse_schema(format_schema(contract))
    assert [a.name for a in theirs.arguments] == [p.name for p in contract.parameters]
    assert len(theirs.returns) == len(contract.returns)


FORMS = [
    *("f()->()", "f() -> ", "f()", "f", "", "(", "f.a.b() -> ()", "a::b::c() -> ()"),
    *("a.b::c() -> ()", "::c() -> ()", "f.() -> ()", "f.1() -> ()", "1f() -> ()", "f-g() -> ()"),
    *("  f ( ) -> ( ) ", "f() -> () x", "f() -> ();", "f\n(int x)\n-> int", "f() -> int\n"),
    *("\nf() -> int", "f() ->\nint", "f(int x\\\n) -> int", "f(int x # c\n, int y) -> ()"),
    *("f(int\tx) -> ()", "f(int\u00a0x) -> ()", "f(int x, *) -> ()", "f(*) -> ()", "f(...) -> ()"),
    *("f(*, *, int x) -> ()", "f(int x, ...) -> ()", "f(..., int x) -> ()", "f(*, ...) -> ()"),
    *("f() -> ...", "f() -> (Tensor, ...)", "f() -> (int, ..., int)", "f() -> (Tensor x) y"),
    *("f() -> (Tensor)[]", "f() -> ((Tensor))", "f() -> int = 1", "f(int x, int x) -> ()"),
    *("f.default() -> ()", "f.__x() -> ()", "f.__init__() -> ()", "f._x__() -> ()"),
    *("f(str x='a\nb') -> ()", "f(str x='''a\nb''') -> ()", "f(str x='a\\\nb') -> ()"),
    *('f(str x="it\'s") -> ()', "f(str x='a' 'b') -> ()", "f(str x=r'a') -> ()"),
]


@pytest.mark.parametrize("text", FORMS)
def test_a_schema_is_taken_exactly_where_pytorch_takes_it(text: str) -> None:
    assert accepts(text) == ours_accepts(text)


@given(st.text(st.characters(min_codepoint=1, max_codepoint=0x2FF), max_size=12))
@settings(max_examples=60, deadline=None)
def test_pytorch_reads_our_strings_back(text: str) -> None:
    from opscaffold.contract.literals import write_default

    schema = torch._C.parse_schema(f"f(str x={write_default(text)}) -> ()")
    assert schema.arguments[0].default_value == text


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False))
@settings(max_examples=60, deadline=None)
def test_pytorch_reads_our_floats_back(value: float) -> None:
    from opscaffold.contract.literals import write_default

    schema = torch._C.parse_schema(f"f(float x={write_default(value)}) -> ()")
    assert schema.arguments[0].default_value == value


def test_a_symbol_is_written_bare() -> None:
    contract = parse_schema("f(ScalarType x=long) -> ()")
    assert contract.parameters[0].default == Default(Symbol("long"))
    assert contract.parameters[0].type == BaseType("ScalarType")
    assert torch._C.parse_schema(format_schema(contract)).arguments[0].default_value == 4
