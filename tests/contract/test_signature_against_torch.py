"""The rules for signatures held row by row against ``infer_schema`` and ``custom_op``."""

from __future__ import annotations

import collections.abc as cabc
import enum
import itertools
import math
import typing
from collections.abc import Collection
from typing import Any

import pytest

from opscaffold.contract.annotations import ATOMS, REJECTED
from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.model import OpContract, Tag
from opscaffold.contract.signature import SignatureError, Stage, contract_from_signature

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")


class Color(enum.Enum):
    RED = 1


_COUNTER = itertools.count()
_NAMESPACE: dict[str, Any] = {
    **{n: getattr(typing, n) for n in typing.__all__},
    "Tensor": torch.Tensor,
    "Number": torch.types.Number,
    "abc": cabc,
    "cabc": cabc,
    "collections": __import__("collections.abc"),
    "device": torch.device,
    "dtype": torch.dtype,
    "enum": enum,
    "math": math,
    "nn": torch.nn,
    "np": __import__("numpy"),
    "torch": torch,
    "typing": typing,
    "t": typing,
    "Color": Color,
}
_TAGS = {Tag.INPLACE: torch.Tag.inplace, Tag.OUT: torch.Tag.out}


def by_torch(
    source: str, mutates: Collection[str] | str, tags: Collection[Tag]
) -> tuple[Stage | None, str]:
    """What PyTorch says: who refuses the signature (None: nobody), and the schema."""
    namespace = dict(_NAMESPACE)
    exec(compile(source, "<signature>", "exec", dont_inherit=True), namespace)
    function = namespace["f"]
    given = [_TAGS[t] for t in tags]
    try:
        schema = torch.library.infer_schema(function, mutates_args=mutates, tags=given)
    except (ValueError, AssertionError):
        return Stage.INFER, ""
    name = f"opscaffold_signature::f{next(_COUNTER)}"
    try:
        torch.library.custom_op(name, function, mutates_args=mutates, tags=given)
    except (RuntimeError, IndexError, NotImplementedError, UnicodeDecodeError):
        return Stage.REGISTRATION, schema
    return None, schema


def by_us(
    source: str, mutates: Collection[str] | str, tags: Collection[Tag]
) -> tuple[Stage | None, OpContract | None]:
    try:
        contract = contract_from_signature(
            source, qualname="ns::f", mutates_args=mutates, tags=tags
        )
    except SignatureError as error:
        return (error.stage if error.reason and error.remedy else None), None
    return None, contract


def assert_same(
    source: str,
    stage: Stage | None,
    mutates: Collection[str] | str = (),
    tags: Collection[Tag] = (),
) -> None:
    theirs, schema = by_torch(source, mutates, tags)
    ours, contract = by_us(source, mutates, tags)
    assert (ours, theirs) == (stage, stage)
    if stage is None:
        expected = parse_schema(schema)
        assert contract is not None
        assert (contract.parameters, contract.returns) == (expected.parameters, expected.returns)


ACCEPTED_PARAMETERS = [
    *("Tensor", "int", "float", "bool", "str", "Text", "Number", "torch.types.Number", "dtype"),
    *("torch.dtype", "device", "torch.device", "torch.Tensor", "torch.Generator"),
    *("Union[int,float,bool]", "int|float|bool", "bool|int|float", "int|float|bool|None"),
    *("Optional[Tensor]", "Optional[int]", "Optional[float]", "Optional[bool]", "Optional[str]"),
    *("Optional[Number]", "Union[Number,None]", "Optional[torch.dtype]", "Optional[device]"),
    *("Tensor|None", "None|int", "'Tensor | None'", "'Optional[Tensor]'", "typing.Optional[int]"),
    *("t.Optional[Tensor]", "Union[int,None]", "Union[None,Tensor]", "Optional[Optional[int]]"),
    *("Tensor|None|None", "Union[Tensor]", "list[Tensor]", "List[Tensor]", "Sequence[Tensor]"),
    *("cabc.Sequence[Tensor]", "collections.abc.Sequence[int]", "typing.Sequence[bool]"),
    *("list[int]", "list[float]", "list[bool]", "list[Number]", "list[int|float|bool]"),
    *("list[Tensor|None]", "List[Optional[Tensor]]", "Sequence[Tensor|None]", "list[int]|None"),
    *("Optional[Sequence[int]]", "Sequence[float]|None", "cabc.Sequence[bool]|None"),
    *("list['Tensor']", "cabc.Sequence['Tensor']", "'list[int]'", "'torch.Tensor'"),
]
REFUSED_PARAMETERS = [
    *("dict", "dict[str,int]", "Dict[str,Tensor]", "Any", "object", "tuple", "tuple[int,int]"),
    *("tuple[int,...]", "Tuple[int,int]", "list", "List", "Sequence", "Optional", "Union"),
    *("list[Tensor]|None", "Optional[List[Tensor]]", "Optional[list[Tensor|None]]", "list[str]"),
    *("list[Number]|None", "list[torch.dtype]", "list[device]", "list[list[int]]"),
    *("list[Optional[int]]", "Union[int,float]", "int|float", "bool|int", "int|str", "complex"),
    *("bytes", "torch.SymInt", "torch.SymFloat", "torch.SymBool", "Optional[torch.SymInt]"),
    *("torch.Size", "torch.layout", "torch.memory_format", "torch.nn.Parameter", "nn.Module"),
    *("torch.FloatTensor", "torch.LongTensor", "np.ndarray", "Annotated[Tensor,1]"),
    *("Annotated[Tensor,'x']", "Literal['a','b']", "Final[int]", "ClassVar[int]"),
    *("Iterable[int]", "cabc.Iterable[int]", "MutableSequence[int]", "Collection[int]"),
    *("Callable", "Callable[[int],int]", "None", "'None'", "set[int]", "torch.ScriptObject"),
    *("Optional[torch.Generator]", "list[torch.Generator]", "Any|None", "Mapping[str,int]"),
    *("'list[\"Tensor\"]'", "List['Tensor']", "Optional['Tensor']", "Sequence['Tensor']"),
    *("Optional[tuple[int,int]]", "Union[Tensor,list[Tensor]]", "Iterator[int]", "NoReturn"),
    *("list[tuple[int,int]]",),
]


@pytest.mark.parametrize("annotation", ACCEPTED_PARAMETERS)
def test_a_parameter_type_that_pytorch_takes_is_taken(annotation: str) -> None:
    assert_same(f"def f(x: Tensor, a: {annotation}) -> Tensor: ...", None)


@pytest.mark.parametrize("annotation", REFUSED_PARAMETERS)
def test_a_parameter_type_that_pytorch_refuses_is_refused(annotation: str) -> None:
    assert_same(f"def f(x: Tensor, a: {annotation}) -> Tensor: ...", Stage.INFER)


def test_every_row_of_the_tables_is_held_against_pytorch() -> None:
    heads = {a.strip("'").split("[")[0].split("|")[0] for a in REFUSED_PARAMETERS}
    names = {h.rpartition(".")[2] for h in heads}
    # No spelling of a bare type variable is looked up by its name.
    assert set(REJECTED) - names <= {"TypeVar"}
    accepted = {a.rpartition(".")[2] for a in ACCEPTED_PARAMETERS}
    assert set(ATOMS) <= accepted


@pytest.mark.parametrize(
    "annotation",
    [
        *("Tensor", "None", "'Tensor'", "'None'", "int", "float", "bool", "Number"),
        *("list[Tensor]", "List[Tensor]", "list['Tensor']", "tuple[Tensor]", "tuple[()]", "Tuple"),
        *("tuple[Tensor,Tensor]", "Tuple[Tensor,int]", "tuple[int,bool,float,Number]"),
        *("tuple[list[Tensor],List[Tensor]]", "tuple['Tensor','Tensor']", "Union[Tensor,Tensor]"),
        *("torch.Generator", "tuple[Tensor, list[Tensor]]", "int|float|bool"),
    ],
)
def test_a_return_type_that_pytorch_takes_is_taken(annotation: str) -> None:
    assert_same(f"def f(x: Tensor) -> {annotation}: ...", None)


@pytest.mark.parametrize(
    "annotation",
    [
        *("Optional[Tensor]", "Tensor|None", "str", "dict[str,Tensor]", "Sequence[Tensor]", "Any"),
        *("tuple[Tensor,...]", "tuple", "list[int]", "tuple[Tensor,None]", "torch.dtype", "device"),
        *("list[Tensor|None]", "tuple[Tensor,Optional[Tensor]]", "tuple[tuple[int,int],int]"),
        *("torch.SymInt", "NoReturn", "Iterator[Tensor]", "Annotated[Tensor,1]"),
        *("Tuple['Tensor','Tensor']", "tuple[str]"),
    ],
)
def test_a_return_type_that_pytorch_refuses_is_refused(annotation: str) -> None:
    assert_same(f"def f(x: Tensor) -> {annotation}: ...", Stage.INFER)


@pytest.mark.parametrize(
    ("annotation", "stage"),
    [
        ("Tensor|None", None),
        ("list[Tensor]", None),
        ("'Tensor'", Stage.INFER),
        ("list['Tensor']", Stage.INFER),
    ],
)
def test_postponed_annotations_are_evaluated_once(annotation: str, stage: Stage | None) -> None:
    head = "from __future__ import annotations\n"
    assert_same(f"{head}def f(x: {annotation}) -> Tensor: ...", stage)
    assert_same(f"{head}def f(x: Tensor) -> tuple['Tensor', 'Tensor']: ...", Stage.INFER)


ACCEPTED_DEFAULTS = [
    *("int = 3", "int = -1", "int = True", "int = 2.5", "int = None", "int = 2**63 - 1"),
    *("int = -2**63", "int = 1 << 4", "int = ~3", "float = 1e-5", "float = 1", "float = math.pi"),
    *("float = -0.0", "float = 10**19", "float = 3 / 4", "bool = False", "bool = not True"),
    *("bool = 3", "str = 'a'", "str = ''", 'str = "it\'s"', "str = 'ünï'", "str = '#'"),
    *("str = None", "Tensor = None", "Optional[Tensor] = None", "Tensor|None = None"),
    *("Optional[list[int]] = None", "dtype = torch.float32", "dtype = torch.long", "dtype = 6"),
    *("dtype = torch.half", "Optional[dtype] = torch.int", "dtype = None", "device = 'cpu'"),
    *("device = torch.device('cpu')", "device = torch.device('cuda', 1)", "Number = 2.5"),
    *("Number = True", "Optional[device] = None", "Optional[float] = 1.5", "str = 'a' 'b'"),
    *("float = float('2.5')", "int = int('7')"),
]
REFUSED_DEFAULTS = [
    *("list[int] = [1, 2]", "Optional[list[int]] = ()", "list[int] = (1, 2)", "float = 1j"),
    *("str = b'a'", "list[Tensor] = []"),
]
UNREGISTERED_DEFAULTS = [
    *("float = float('inf')", "float = -math.inf", "float = float('nan')", "float = torch.inf"),
    *(
        "Optional[float] = math.nan",
        "float = 1e400",
        "float = 1e-310",
        "int = 2**63",
        "int = 2**70",
    ),
    *("list[int] = None", "list[Tensor] = None", "list[Tensor|None] = None", "list[int] = 3"),
    *(
        "str = 'a\"b'",
        "str = 'a\\nb'",
        "Tensor = 3",
        "device = None",
        "device = 0",
        "device = 'gpu'",
    ),
    *("int = torch.float32", "torch.Generator = None", "int = 2**70", "device = 'gpu'"),
]


@pytest.mark.parametrize("parameter", ACCEPTED_DEFAULTS)
def test_a_default_that_pytorch_takes_is_taken(parameter: str) -> None:
    assert_same(f"def f(x: Tensor, a: {parameter}) -> Tensor: ...", None)


@pytest.mark.parametrize("parameter", REFUSED_DEFAULTS)
def test_a_default_that_infer_schema_refuses_is_refused(parameter: str) -> None:
    assert_same(f"def f(x: Tensor, a: {parameter}) -> Tensor: ...", Stage.INFER)


@pytest.mark.parametrize("parameter", UNREGISTERED_DEFAULTS)
def test_a_default_that_only_registration_refuses_is_refused(parameter: str) -> None:
    assert_same(f"def f(x: Tensor, a: {parameter}) -> Tensor: ...", Stage.REGISTRATION)


def test_a_backslash_in_a_default_is_refused_because_pytorch_changes_the_text() -> None:
    source = r"def f(x: Tensor, a: str = 'a\\tb') -> Tensor: ..."
    theirs, schema = by_torch(source, (), ())
    assert theirs is None
    assert torch._C.parse_schema(f"f{schema}").arguments[1].default_value == "a\tb"
    assert by_us(source, (), ())[0] is Stage.REGISTRATION


@pytest.mark.parametrize(
    "name", ["from_", "self", "out", "lambda_", "inf", "int", "Tensor", "caf\u00e9"]
)
def test_an_argument_name_is_taken_as_by_pytorch(name: str) -> None:
    stage = None if name.isascii() else Stage.REGISTRATION
    assert_same(f"def f(x: Tensor, {name}: int) -> Tensor: ...", stage)


def test_an_argument_named_nonetype_is_refused_at_registration() -> None:
    assert_same("def f(x: Tensor, NoneType: int) -> Tensor: ...", Stage.REGISTRATION)


@pytest.mark.parametrize(
    "parameters",
    ["*xs: Tensor", "x: Tensor, **kw: int", "x: Tensor, /", "x", "x: Tensor, *, y"],
)
def test_parameters_that_no_schema_can_say_are_refused(parameters: str) -> None:
    assert_same(f"def f({parameters}) -> Tensor: ...", Stage.INFER)


def test_a_missing_return_annotation_is_refused() -> None:
    assert_same("def f(x: Tensor): ...", Stage.INFER)


X, OUT = "x: Tensor", "x: Tensor, *, out: Tensor"


@pytest.mark.parametrize(
    ("signature", "mutates", "tags", "stage"),
    [
        (f"({X}) -> None", {"x"}, (), None),
        (f"({X}) -> Tensor", {"x"}, (), None),
        ("(x: list[Tensor]) -> None", {"x"}, (), None),
        ("(x: Optional[Tensor], y: list[Tensor|None], n: int) -> None", "unknown", (), None),
        ("(x: Optional[Tensor]) -> Tensor", {"x"}, (), None),
        (f"({X}) -> None", {"y"}, (), Stage.INFER),
        ("(x: Tensor, n: int) -> None", {"n"}, (), Stage.INFER),
        (f"({X}) -> None", "x", (), Stage.INFER),
        ("(x: Tensor, *, y: Tensor) -> Tensor", (), (), Stage.REGISTRATION),
        ("(x: Tensor, *, y: Tensor|None = None) -> Tensor", (), (), Stage.REGISTRATION),
        ("(x: Tensor, *, y: list[Tensor]) -> None", {"y"}, (), Stage.REGISTRATION),
        ("(x: Tensor, *, n: int = 1) -> Tensor", (), (), None),
        (f"({X}) -> Tensor", {"x"}, (Tag.INPLACE,), None),
        ("(x: Tensor, n: int = 1, *, m: int) -> Tensor", {"x"}, (Tag.INPLACE,), None),
        ("(x: Tensor = None) -> Tensor", {"x"}, (Tag.INPLACE,), None),
        (f"({X}) -> None", {"x"}, (Tag.INPLACE,), Stage.INFER),
        (f"({X}) -> tuple[Tensor, Tensor]", {"x"}, (Tag.INPLACE,), Stage.INFER),
        ("(x: Tensor, y: Tensor) -> Tensor", {"x", "y"}, (Tag.INPLACE,), Stage.INFER),
        ("(x: Tensor, y: Tensor) -> Tensor", {"y"}, (Tag.INPLACE,), Stage.INFER),
        ("(n: int, x: Tensor) -> Tensor", {"x"}, (Tag.INPLACE,), Stage.INFER),
        ("(x: list[Tensor]) -> Tensor", {"x"}, (Tag.INPLACE,), Stage.INFER),
        ("(x: Optional[Tensor]) -> Tensor", {"x"}, (Tag.INPLACE,), Stage.INFER),
        ("(*, x: Tensor) -> Tensor", {"x"}, (Tag.INPLACE,), Stage.INFER),
        (f"({X}) -> Tensor", "unknown", (Tag.INPLACE,), Stage.INFER),
        (f"({X}) -> Tensor", (), (Tag.INPLACE,), Stage.INFER),
        (f"({OUT}) -> Tensor", {"out"}, (Tag.OUT,), None),
        ("(x: Tensor, *, y: Tensor, out: Tensor, n: int = 1) -> Tensor", {"out"}, (Tag.OUT,), None),
        (f"({OUT}, o2: Tensor) -> tuple[Tensor, Tensor]", {"o2", "out"}, (Tag.OUT,), None),
        ("(x: Tensor, *, out: Tensor = None) -> Tensor", {"out"}, (Tag.OUT,), None),
        ("(x: Tensor, out: Tensor) -> Tensor", {"out"}, (Tag.OUT,), Stage.INFER),
        ("(x: Tensor, *, out: Tensor|None) -> Tensor", {"out"}, (Tag.OUT,), Stage.INFER),
        ("(x: Tensor, *, out: list[Tensor]) -> Tensor", {"out"}, (Tag.OUT,), Stage.INFER),
        (f"({OUT}) -> None", {"out"}, (Tag.OUT,), Stage.INFER),
        (f"({OUT}) -> Tensor", (), (Tag.OUT,), Stage.INFER),
        (f"({OUT}, o2: Tensor) -> Tensor", {"o2", "out"}, (Tag.OUT,), Stage.INFER),
        (f"({OUT}) -> tuple[Tensor]", {"out"}, (Tag.OUT,), Stage.INFER),
        (f"({OUT}) -> list[Tensor]", {"out"}, (Tag.OUT,), Stage.INFER),
        (f"({OUT}) -> Tensor", "unknown", (Tag.OUT,), Stage.INFER),
        (f"({OUT}) -> Tensor", {"out"}, (Tag.INPLACE, Tag.OUT), Stage.INFER),
    ],
)
def test_mutation_and_tags_are_judged_as_by_pytorch(
    signature: str, mutates: Collection[str] | str, tags: Collection[Tag], stage: Stage | None
) -> None:
    assert_same(f"def f{signature}: ...", stage, mutates, tags)


@pytest.mark.parametrize("parameter", ["bias: Tensor", "bias: Optional[Tensor] = None"])
def test_infer_schema_takes_keyword_only_tensors(parameter: str) -> None:
    source = f"def f(x: Tensor, out: Tensor, *, {parameter}) -> None: ..."
    assert_same(source, Stage.REGISTRATION, ("out",))
    _, schema = by_torch(source, ("out",), ())
    contract = contract_from_signature(
        source, qualname="ns::f", mutates_args=("out",), schema_only=True
    )
    assert contract.parameters == parse_schema(schema).parameters
