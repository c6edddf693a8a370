"""Schema strings in and out, without torch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscaffold.contract.grammar import (
    SchemaError,
    format_schema,
    format_type,
    parse_schema,
    parse_type,
)
from opscaffold.contract.lexer import RESERVED_WORDS
from opscaffold.contract.literals import check_default
from opscaffold.contract.model import (
    Alias,
    BaseType,
    Default,
    GenericType,
    Kind,
    ListType,
    OpContract,
    OptionalType,
    Parameter,
    Return,
    SchemaType,
    Symbol,
    Tag,
    base_name,
)
from opscaffold.contract.schema_types import DTYPE_SYMBOLS

TENSOR = BaseType("Tensor")
WRITTEN = Alias(("a",), write=True)


def test_a_full_schema_is_taken_apart() -> None:
    contract = parse_schema(
        "mylib::top.values(Tensor x, int[2]? k=None, *, bool sorted=True, Tensor(a!) values) "
        "-> (Tensor(a!) values, Tensor indices)"
    )
    assert contract == OpContract(
        namespace="mylib",
        name="top",
        overload="values",
        parameters=(
            Parameter("x", TENSOR),
            Parameter("k", OptionalType(ListType(BaseType("int"), 2)), Default(None)),
            Parameter("sorted", BaseType("bool"), Default(True), kw_only=True),
            Parameter("values", BaseType("Tensor", WRITTEN), kw_only=True),
        ),
        returns=(Return(BaseType("Tensor", WRITTEN), "values"), Return(TENSOR, "indices")),
    )
    assert contract.qualname == "mylib::top.values"
    assert contract.mutated == ("values",)


def test_a_bare_signature_has_no_name() -> None:
    contract = parse_schema("(Tensor x) -> Tensor")
    assert contract.qualname == ""
    assert format_schema(contract) == "(Tensor x) -> Tensor"


def test_namespace_and_tags_may_be_given_beside_the_text() -> None:
    contract = parse_schema("f(Tensor x) -> ()", namespace="ns", tags=frozenset({Tag.OUT}))
    assert (contract.qualname, contract.kind) == ("ns::f", Kind.OUT)
    assert parse_schema("a::f() -> ()", namespace="ns").namespace == "a"
    assert format_schema(contract, qualified=False) == "(Tensor x) -> ()"


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("Tensor(a!)", BaseType("Tensor", WRITTEN)),
        ("Tensor(a0!)", BaseType("Tensor", Alias(("a0",), write=True))),
        ("Tensor(a -> *)", BaseType("Tensor", Alias(("a",), after=("*",)))),
        ("Tensor(a|b)", BaseType("Tensor", Alias(("a", "b")))),
        ("Tensor(a|b! -> c)", BaseType("Tensor", Alias(("a", "b"), write=True, after=("c",)))),
        ("Tensor(*)", BaseType("Tensor", Alias(("*",)))),
        ("Tensor!", BaseType("Tensor", Alias((), write=True))),
        ("Tensor(a!)[]", ListType(BaseType("Tensor", WRITTEN))),
        ("Tensor[](a!)", ListType(TENSOR, alias=WRITTEN)),
        ("Tensor(a!)?", OptionalType(BaseType("Tensor", WRITTEN))),
        ("Tensor(a!)?[]", ListType(OptionalType(BaseType("Tensor", WRITTEN)))),
        ("int[3]", ListType(BaseType("int"), 3)),
        ("int[][3]", ListType(ListType(BaseType("int")), 3)),
        ("Dict(str, Tensor[])", GenericType("Dict", None, (BaseType("str"), ListType(TENSOR)))),
        ("Dict(int, int)(a!)", GenericType("Dict", WRITTEN, (BaseType("int"), BaseType("int")))),
        ("(Tensor, int)[]", ListType(GenericType("tuple", args=(TENSOR, BaseType("int"))))),
        ("()", GenericType("tuple")),
        ("Union(int, float)", GenericType("Union", None, (BaseType("int"), BaseType("float")))),
        ("__torch__.torch.classes.a.B", BaseType("__torch__.torch.classes.a.B")),
        ("NoneType", BaseType("NoneType")),
        ("t[]", ListType(BaseType("t"))),
    ],
)
def test_a_type_is_read_and_written_the_same(text: str, type_: SchemaType) -> None:
    assert parse_type(text) == type_
    assert format_type(type_) == text


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("Tensor?(a!)[]", "Tensor(a!)?[]"),
        ("Tensor?(a!)", "Tensor(a!)?"),
        ("Tensor[]?(a!)", "Tensor[](a!)?"),
        ("Tensor??", "Tensor?"),
        ("Tensor ( a ! )", "Tensor(a!)"),
        ("None", "NoneType"),
    ],
)
def test_other_spellings_of_a_type_become_the_one_that_pytorch_reads(
    written: str, canonical: str
) -> None:
    assert format_type(parse_type(written)) == canonical


def test_an_alias_held_by_an_optional_is_written_on_its_element() -> None:
    assert format_type(OptionalType(TENSOR, WRITTEN)) == "Tensor(a!)?"


def test_the_element_of_a_generic_type_is_its_name() -> None:
    assert base_name(parse_type("Dict(str, Tensor)?")) == "Dict"
    assert not Parameter("d", parse_type("Dict(str, Tensor)")).is_tensor_like


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("int", "-1", -1),
        ("int", "9223372036854775807", 2**63 - 1),
        ("int", "- 3", -3),
        ("float", "1e-05", 1e-05),
        ("float", ".5", 0.5),
        ("float", "5.", 5.0),
        ("float", "10000000000000000000", 1e19),
        ("complex", "1.5j", 1.5j),
        ("bool", "False", False),
        ("str", '"linear"', "linear"),
        ("str", "'linear'", "linear"),
        ("str", r"'a\n\t\\\"\'\101b'", "a\n\t\\\"'Ab"),
        ("str", '"""a\nb"""', "a\nb"),
        ("str", '""', ""),
        ("str", '"a#b"', "a#b"),
        ("str?", "None", None),
        ("Tensor?", "None", None),
        ("int", "Mean", Symbol("Mean")),
        ("ScalarType", "float32", Symbol("float32")),
        ("ScalarType?", "bfloat16", Symbol("bfloat16")),
        ("MemoryFormat", "contiguous_format", Symbol("contiguous_format")),
        ("Device", '"cuda:0"', "cuda:0"),
        ("int[2]", "[0, 1]", (0, 1)),
        ("int[2]", "0", 0),
        ("int[]", "[]", ()),
        ("int[]", "[Mean, -2]", (Symbol("Mean"), -2)),
        ("float[]", "[1.0, 2]", (1.0, 2)),
        ("bool[3]", "[True,False,True]", (True, False, True)),
        ("int[]?", "None", None),
    ],
)
def test_every_form_of_default_is_read(type_: str, text: str, value: object) -> None:
    contract = parse_schema(f"f({type_} x={text}) -> ()")
    default = contract.parameters[0].default
    assert default is not None
    assert repr(default.value) == repr(value)
    assert parse_schema(format_schema(contract)) == contract


def test_no_default_differs_from_a_default_of_none() -> None:
    assert parse_schema("f(Tensor? x) -> ()").parameters[0].default is None
    assert parse_schema("f(Tensor? x=None) -> ()").parameters[0].default == Default(None)


@pytest.mark.parametrize(
    "text",
    [
        "f() -> ()",
        "f() -> ...",
        "f(...) -> (Tensor, ...)",
        "f(int x, *, int y, ...) -> ()",
        "f() -> Tensor values",
        "f() -> ((Tensor))",
        "f() -> ((Tensor, int))",
        "f() -> (Tensor, int)[]",
        "f() -> ((Tensor, int), int)",
        "f() -> ((Tensor, int)[])",
        "f() -> Dict(str, Tensor) d",
    ],
)
def test_returns_and_varargs_survive(text: str) -> None:
    if text == "f() -> (Tensor, int)[]":
        # PyTorch reads the parenthesis as the list of returns.
        with pytest.raises(SchemaError):
            parse_schema(text)
    else:
        assert format_schema(parse_schema(text)) == text


def test_white_space_comments_and_lines_inside_parentheses_are_free() -> None:
    text = "\n ns :: f . o(Tensor x, # first\n\t int y\\\n) -> (\r\n)  # end\n"
    assert format_schema(parse_schema(text)) == "ns::f.o(Tensor x, int y) -> ()"


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "name of an op"),
        ("f", 2, "the arguments"),
        ("f(Tensor x)", 12, "returns"),
        ("f(Tensr x) -> Tensor", 3, "did you mean 'Tensor'"),
        ("f(Tensor x) -> Tenso", 16, "did you mean 'Tensor'"),
        ("f(Tensor) -> Tensor", 9, "name of an argument"),
        ("f(Tensor x,) -> Tensor", 12, "Expected a type"),
        ("f(Tensor x Tensor y) -> ()", 12, "','"),
        ("f(int class) -> ()", 7, "reserved word"),
        ("class(int x) -> ()", 1, "reserved word"),
        ("a::b::c() -> ()", 5, "'('"),
        ("a.b.c() -> ()", 4, "'('"),
        ("f.default() -> ()", 3, "keeps the overload name"),
        ("f.__x() -> ()", 3, "keeps the overload name"),
        ("1f() -> ()", 1, "name of an op"),
        ("f() -> () x", 11, "the end"),
        ("f() -> ();", 10, "cannot contain ';'"),
        ("f(int é) -> ()", 7, "cannot contain 'é'"),
        ("f() ->\nint", 7, "break its line"),
        ("f(int x=) -> ()", 9, "default value"),
        ("f(int x=2**3) -> ()", 10, "','"),
        ("f(int x=9223372036854775808) -> ()", 9, "64 bits"),
        ("f(int x=--1) -> ()", 10, "number behind '-'"),
        ("f(float x=inf) -> ()", 11, "no default that PyTorch knows"),
        ("f(float x=1e400) -> ()", 11, "range of a float"),
        ("f(float x=1e-310) -> ()", 11, "range of a float"),
        ("f(float x=1e-999) -> ()", 11, "range of a float"),
        ("f(Tensor x=0) -> ()", 12, "only default to None"),
        ("f(int[] x=None) -> ()", 11, "Expected a list"),
        ("f(int[] x=[1,]) -> ()", 14, "Expected a default value"),
        ("f(int[] x=[1.5]) -> ()", 12, "cannot stand in a list of int"),
        ("f(int[]? x=[1]) -> ()", 12, "only default to None"),
        ("f(Tensor[] x=[]) -> ()", 14, "no default for a list"),
        ("f(Any x=None) -> ()", 9, "no default for an argument"),
        ('f(Device x="gpu") -> ()', 12, "cuda:0"),
        ("f(str x='a) -> ()", 9, "not closed"),
        (r"f(str x='a\q') -> ()", 11, "no escape"),
        ("f(Tensor(a!|b) x) -> ()", 12, "alias annotation"),
        ("f(Tensor(0!) x) -> ()", 10, "alias set"),
        ("f(Tensor(a!)?(b!) x) -> ()", 14, "second alias"),
        ("f(int[x] y) -> ()", 7, "size of a list"),
        ("f(int[-1] y) -> ()", 7, "size of a list"),
        ("f(Dict(int) x) -> ()", 3, "takes 2 types"),
        ("f(None? x) -> ()", 7, "cannot be Optional"),
        ("f(..., int x) -> ()", 8, "last argument"),
        ("f() -> (int, ..., int)", 19, "last return"),
    ],
)
def test_an_error_points_at_the_column(text: str, column: int, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert (caught.value.column, caught.value.text) == (column, text)
    assert words in caught.value.reason
    message = str(caught.value).split("\n")
    assert message[-1].index("^") == 2 + column - 1 - (text.rfind("\n", 0, column - 1) + 1)


def test_the_caret_stands_under_the_line_at_fault() -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema("f(Tensor x,\n\tTensr y) -> ()")
    assert str(caught.value).split("\n")[1:] == ["  \tTensr y) -> ()", "  \t^"]


@pytest.mark.parametrize("text", ["f(" + "(" * 5000, "f(int" + "[]" * 5000 + " x) -> ()"])
def test_nesting_without_end_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="deep"):
        parse_schema(text)


@pytest.mark.parametrize(
    ("value", "type_", "words"),
    [
        (float("inf"), BaseType("float"), "no spelling"),
        (float("nan"), BaseType("float"), "no spelling"),
        (2**63, BaseType("int"), "64 bits"),
        (5e-324, BaseType("float"), "too small"),
        (1 + 2j, BaseType("complex"), "complex"),
        (((1,),), ListType(BaseType("int")), "list of lists"),
        (None, ListType(BaseType("int")), "Expected a list"),
        (Symbol("nope"), BaseType("int"), "no default"),
        (10**400, BaseType("float"), "too large"),
    ],
)
def test_a_default_that_no_schema_holds_is_explained(
    value: object, type_: SchemaType, words: str
) -> None:
    reason = check_default(value, type_)  # type: ignore[arg-type]
    assert reason is not None
    assert words in reason


NAMES = st.from_regex(r"\A[a-z_][a-z0-9_]{0,8}\Z").filter(
    lambda n: n not in RESERVED_WORDS and n != "default" and not n.startswith("__")
)
ALIASES = st.one_of(
    st.just(Alias((), write=True)),
    st.builds(
        Alias,
        st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple),
        st.booleans(),
        st.one_of(st.just(()), st.just(("*",)), st.lists(NAMES, min_size=1, max_size=2).map(tuple)),
    ),
)
MAYBE_ALIAS = st.one_of(st.none(), ALIASES)
BASES = st.builds(
    BaseType, st.sampled_from(["Tensor", "int", "SymInt", "float", "str", "Device"]), MAYBE_ALIAS
)


def _containers(inner: st.SearchStrategy[SchemaType]) -> st.SearchStrategy[SchemaType]:
    optional = inner.filter(lambda t: not isinstance(t, OptionalType)).map(OptionalType)
    lists = st.builds(ListType, inner, st.one_of(st.none(), st.integers(0, 9)), MAYBE_ALIAS)
    tuples = st.lists(inner, max_size=3).map(lambda items: GenericType("tuple", args=tuple(items)))
    dicts = st.builds(lambda k, v, a: GenericType("Dict", a, (k, v)), inner, inner, MAYBE_ALIAS)
    return st.one_of(optional, lists, tuples, dicts)


TYPES = st.recursive(BASES, _containers, max_leaves=4)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
WITH_DEFAULT: st.SearchStrategy[tuple[SchemaType, Default]] = st.one_of(
    st.tuples(st.just(BaseType("int")), INTS.map(Default)),
    st.tuples(st.just(BaseType("float")), FLOATS.map(Default)),
    st.tuples(st.just(BaseType("complex")), FLOATS.map(lambda f: Default(complex(0.0, f)))),
    st.tuples(st.just(BaseType("str")), TEXTS.map(Default)),
    st.tuples(st.just(BaseType("bool")), st.booleans().map(Default)),
    st.tuples(st.just(OptionalType(TENSOR)), st.just(Default(None))),
    st.tuples(
        st.just(BaseType("ScalarType")),
        st.sampled_from(sorted(DTYPE_SYMBOLS)).map(lambda n: Default(Symbol(n))),
    ),
    st.tuples(
        st.just(ListType(BaseType("int"), 2)),
        st.lists(INTS, max_size=3).map(lambda v: Default(tuple(v))),
    ),
    st.tuples(
        st.just(ListType(BaseType("float"))),
        st.lists(FLOATS, max_size=3).map(lambda v: Default(tuple(v))),
    ),
)


@st.composite
def contracts(draw: st.DrawFn) -> OpContract:
    names = draw(st.lists(NAMES, max_size=5, unique=True))
    first_keyword = draw(st.integers(0, len(names)))
    parameters = []
    for index, name in enumerate(names):
        type_, default = draw(st.one_of(WITH_DEFAULT, st.tuples(TYPES, st.none())))
        parameters.append(Parameter(name, type_, default, index >= first_keyword))
    returns = draw(
        st.lists(st.builds(Return, TYPES, st.one_of(st.none(), NAMES)), max_size=3).map(tuple)
    )
    return OpContract(
        namespace=draw(st.one_of(st.just(""), NAMES)),
        name=draw(NAMES),
        parameters=tuple(parameters),
        returns=returns,
        overload=draw(st.one_of(st.just(""), NAMES)),
        vararg=draw(st.booleans()),
        varret=draw(st.booleans()),
    )


@given(contracts())
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_back(contract: OpContract) -> None:
    assert parse_schema(format_schema(contract)) == contract


SCHEMA = (
    'ns::f.o(Tensor(a!)[] x, int[2] n=[1, 2], *, str s="a\\n", Tensor? y=None) -> (Tensor(a!)[])'
)


@given(st.text(max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    _read_or_refused(text)


@given(
    st.integers(0, len(SCHEMA)),
    st.integers(0, 6),
    st.text("()[]!?*|->.:,=\"'\\ \nTensorint0123456789ej#", max_size=6),
)
@settings(max_examples=400, deadline=None)
def test_a_damaged_schema_is_read_or_refused(at: int, cut: int, put: str) -> None:
    _read_or_refused(SCHEMA[:at] + put + SCHEMA[at + cut :])


def _read_or_refused(text: str) -> None:
    refusal: SchemaError | None = None
    try:
        contract = parse_schema(text)
    except SchemaError as error:
        refusal = error
    if refusal is None:
        assert parse_schema(format_schema(contract)) == contract
    else:
        assert 1 <= refusal.column <= len(text) + 1
        assert refusal.text == text
