"""The rules of legality, and the hazards of the overload form, held against torch itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from opscaffold.contract.derive import as_inferred, inplace_of, mutable_of, out_of
from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.legality import check_legal
from opscaffold.contract.model import OpContract, Tag
from opscaffold.contract.naming import OutNaming
from opscaffold.contract.pytypes import annotation_text, default_text, return_annotation_text
from opscaffold.contract.signature import contract_from_signature

pytestmark = [
    pytest.mark.torch,
    # torch itself imports what it deprecates when a compile starts.
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
]

torch = pytest.importorskip("torch")

_COUNTER = itertools.count()
_TAGS = {Tag.INPLACE: torch.Tag.inplace, Tag.OUT: torch.Tag.out}


def source_of(contract: OpContract) -> str:
    """The function that declares the contract, written with the project's own spellings."""
    words: list[str] = []
    for index, p in enumerate(contract.parameters):
        if p.kw_only and not any(q.kw_only for q in contract.parameters[:index]):
            words.append("*")
        default = "" if p.default is None else f" = {default_text(p.default, p.type)}"
        words.append(f"{p.name}: {annotation_text(p.type)}{default}")
    returned = return_annotation_text(contract.returns)
    return f"def {contract.name}({', '.join(words)}) -> {returned}: ..."


def define(contract: OpContract) -> str:
    """Register the contract; the schema that PyTorch inferred."""
    namespace: dict[str, Any] = {"torch": torch, "Tensor": torch.Tensor}
    exec(compile(source_of(contract), "<op>", "exec", dont_inherit=True), namespace)
    function = namespace[contract.name]
    tags = [_TAGS[t] for t in contract.tags]
    name = f"opscaffold_legal::{contract.name}{next(_COUNTER)}"
    torch.library.custom_op(name, function, mutates_args=contract.mutated, tags=tags)
    return str(torch.library.infer_schema(function, mutates_args=contract.mutated, tags=tags))


FUNCTIONAL = [
    "ns::f(Tensor x) -> Tensor",
    "ns::f(Tensor x, Tensor y, float alpha=1.0, int n=2) -> Tensor",
    'ns::f(Tensor x, Tensor? b=None, int[]? k=None, *, str how="it\'s") -> Tensor',
    "ns::f(Tensor x, Tensor[] ys, Tensor?[] zs, float[] w, bool flag=False) -> Tensor",
    'ns::f(Tensor x, Scalar s=1, ScalarType d=float32, Device e="cuda:0") -> Tensor',
    "ns::f(Tensor x, Scalar[] s, ScalarType? d=None, Device? e=None) -> (Tensor, Tensor)",
    "ns::f(Tensor x, int[2] size, int n=Mean) -> (Tensor, int, float, bool, Scalar, Tensor[])",
]


@pytest.mark.parametrize("schema", FUNCTIONAL)
def test_a_legal_contract_is_defined_with_the_schema_foretold(schema: str) -> None:
    functional = parse_schema(schema)
    forms = [functional]
    if all(r.type.name == "Tensor" for r in functional.returns if hasattr(r.type, "name")):
        forms += [mutable_of(functional), out_of(functional)] if "int, float" not in schema else []
    if len(functional.returns) == 1:
        forms.append(inplace_of(functional))
    for contract in forms:
        assert check_legal(contract) == []
        inferred = parse_schema(define(contract))
        ours = as_inferred(contract)
        assert [p.type for p in inferred.parameters] == [p.type for p in ours.parameters]
        assert inferred.returns == ours.returns
        read = contract_from_signature(
            source_of(contract),
            qualname=contract.qualname,
            mutates_args=contract.mutated,
            tags=contract.tags,
        )
        assert (read.parameters, read.returns) == (inferred.parameters, inferred.returns)


@pytest.mark.parametrize(
    ("schema", "tags"),
    [
        ("ns::f(Tensor x, *, Tensor y) -> Tensor", ()),
        ("ns::f(Tensor x, Tensor[]? y) -> Tensor", ()),
        ("ns::f(Tensor x, str[] y) -> Tensor", ()),
        ("ns::f(Tensor x, int?[] y) -> Tensor", ()),
        ("ns::f(Tensor x, int(a!) y) -> Tensor", ()),
        ("ns::f(Tensor x) -> Tensor?", ()),
        ("ns::f(Tensor x) -> str", ()),
        ("ns::f(Tensor x) -> int[]", ()),
        ('ns::f(Tensor x, str s="a\\"b") -> Tensor', ()),
        ("ns::f_(int n, Tensor(a!) x) -> Tensor(a!)", (Tag.INPLACE,)),
        ("ns::f_(Tensor(a!)? x) -> Tensor(a!)", (Tag.INPLACE,)),
        ("ns::f_(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)", (Tag.INPLACE,)),
        ("ns::f_(Tensor(a!) x) -> ()", (Tag.INPLACE,)),
        ("ns::f(Tensor x, Tensor(a!) out) -> Tensor(a!)", (Tag.OUT,)),
        ("ns::f(Tensor x, *, Tensor(a!)? out) -> Tensor(a!)", (Tag.OUT,)),
        ("ns::f(Tensor x, *, Tensor(a!)[] out) -> Tensor(a!)", (Tag.OUT,)),
        ("ns::f(Tensor x, *, Tensor(a!) out) -> ()", (Tag.OUT,)),
        ("ns::f(Tensor x, *, Tensor out) -> Tensor", (Tag.OUT,)),
        ("ns::f(*, Tensor(a!) o, Tensor(b!) p) -> Tensor(a!)", (Tag.OUT,)),
        ("ns::f(Tensor(a!) x) -> Tensor(a!)", (Tag.INPLACE, Tag.OUT)),
    ],
)
def test_what_we_refuse_at_definition_pytorch_refuses_too(
    schema: str, tags: tuple[Tag, ...]
) -> None:
    contract = parse_schema(schema, tags=frozenset(tags))
    assert check_legal(contract)
    with pytest.raises((ValueError, RuntimeError, NotImplementedError, AssertionError)):
        define(contract)


def _register(
    schema: str, kernel: Callable[..., Any], fake: Callable[..., Any] | None = None
) -> Any:
    contract = parse_schema(schema)
    assert check_legal(contract)
    op = torch.library.custom_op(
        f"opscaffold_illegal::f{next(_COUNTER)}",
        kernel,
        mutates_args=contract.mutated,
        schema=schema.removeprefix("ns::f"),
    )
    if fake is not None:
        op.register_fake(fake)
    return op


def _double(x: Any) -> None:
    x.mul_(2)


@pytest.mark.parametrize(
    ("schema", "kernel", "fake", "arguments"),
    [
        (
            "ns::f(Tensor(a!) x) -> Tensor[]",
            lambda x: [_double(x) or x + 1],
            lambda x: [torch.empty_like(x)],
            (torch.ones(3),),
        ),
        (
            "ns::f(Tensor(a!) x) -> SymInt",
            lambda x: _double(x) or 1,
            lambda x: 1,
            (torch.ones(3),),
        ),
        (
            "ns::f(Tensor(a!)?[] xs) -> ()",
            lambda xs: [_double(x) for x in xs if x is not None] and None,
            None,
            ([torch.ones(3), None],),
        ),
        (
            "ns::f(Tensor(a!) x) -> Tensor(a!)",
            lambda x: _double(x) or x,
            lambda x: x,
            (torch.ones(3),),
        ),
        (
            "ns::f(Tensor(a) x) -> Tensor(a)",
            lambda x: x.view(-1),
            lambda x: x.view(-1),
            (torch.ones(3),),
        ),
        (
            "ns::f(Tensor(a!) x, int mode) -> ()",
            lambda x, mode: _double(x),
            None,
            (torch.ones(3), 1),
        ),
    ],
)
def test_what_we_refuse_for_compile_fails_under_compile(
    schema: str, kernel: Kernel, fake: Kernel | None, arguments: tuple[Any, ...]
) -> None:
    op = _register(schema, kernel, fake)
    with pytest.raises(Exception, match=r"alias|append|'mode'"):
        torch.library.opcheck(op, arguments, test_utils="test_aot_dispatch_static")


@pytest.mark.parametrize(
    ("schema", "kernel", "fake"),
    [
        ("(Tensor(a!) x) -> Tensor", lambda x: _double(x) or x + 1, torch.empty_like),
        ("(Tensor x) -> SymInt", lambda x: 1, lambda x: 1),
        ("(Tensor x, int mode=1) -> Tensor", lambda x, mode=1: x + 1, lambda x, mode=1: x + 1),
        ("(Tensor x) -> Tensor[]", lambda x: [x + 1], lambda x: [torch.empty_like(x)]),
        ("(Tensor(a!)[] x) -> ()", lambda x: [_double(y) for y in x] and None, None),
    ],
)
def test_what_we_allow_beside_it_compiles(schema: str, kernel: Kernel, fake: Kernel | None) -> None:
    contract = parse_schema(f"ns::f{schema}")
    assert check_legal(contract) == []
    op = torch.library.custom_op(
        f"opscaffold_fine::f{next(_COUNTER)}", kernel, mutates_args=contract.mutated, schema=schema
    )
    if fake is not None:
        op.register_fake(fake)
    x = torch.ones(3)
    argument = [x] if "[] x" in schema else x
    torch.library.opcheck(op, (argument,), test_utils="test_aot_dispatch_static")


@pytest.mark.slow
def test_an_optional_mutated_argument_beside_a_return_kills_inductor() -> None:
    def kernel(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        if y is not None:
            y.copy_(x)
        return x + 1

    op = _register("ns::f(Tensor x, Tensor(a!)? y=None) -> Tensor", kernel, lambda x, y=None: x + 1)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="OpOverload"):
        torch.compile(lambda x: op(x) + 1, fullgraph=True)(torch.ones(3))


@pytest.mark.slow
def test_an_optional_mutated_argument_may_be_left_out_where_another_is_mutated() -> None:
    def kernel(x: torch.Tensor, y: torch.Tensor | None, z: torch.Tensor | None) -> torch.Tensor:
        for buffer in (y, z):
            if buffer is not None:
                buffer.copy_(x)
        return x + 1

    schema = "ns::f(Tensor x, Tensor(a!)? y, Tensor(b!)? z) -> Tensor"
    op = _register(schema, kernel, lambda x, y, z: x + 1)

    def call(x: torch.Tensor) -> torch.Tensor:
        buffer = torch.zeros_like(x)
        return op(x, None, buffer) + buffer

    torch._dynamo.reset()
    x = torch.ones(3)
    assert torch.equal(torch.compile(call, fullgraph=True)(x), call(x))


def _pair(schema: str, style: OutNaming, names: tuple[str, ...] | None) -> Any:
    """A functional op and its out= op, both computing a weighted sum of what they are given."""
    functional = parse_schema(schema)
    out = out_of(functional, names, style=style)
    library = f"opscaffold_pair{next(_COUNTER)}"
    buffers = out.mutated
    namespace: dict[str, Any] = {"torch": torch, "Tensor": torch.Tensor}

    def total(arguments: dict[str, Any]) -> Any:
        first = arguments["x"] if "x" in arguments else arguments["xs"][0]
        found = torch.zeros_like(first)
        for name, value in arguments.items():
            for item in value if isinstance(value, list) else [value]:
                if item is not None and name not in buffers:
                    # A weight for each name: an argument in another's place changes the sum.
                    found = found + ord(name[0]) * item
        return found

    def like(arguments: dict[str, Any]) -> Any:
        first = arguments["x"] if "x" in arguments else arguments["xs"][0]
        return torch.empty_like(first)

    namespace |= {"total": total, "like": like}
    count = len(functional.returns)
    results = ", ".join(["total(locals())"] * count)
    fakes = ", ".join(["like(locals())"] * count)
    fill = "; ".join(f"{b}.copy_(total(locals()))" for b in buffers)
    head = source_of(functional).removesuffix("...")
    exec(f"{head} return {results}", namespace)
    op = torch.library.custom_op(f"{library}::f", namespace["f"], mutates_args=())
    exec(f"{head} return {fakes}", namespace)
    op.register_fake(namespace["f"])
    exec(f"{source_of(out).removesuffix('...')} {fill}; return {', '.join(buffers)}", namespace)
    name = f"{library}::{out.name}" + (f".{out.overload}" if out.overload else "")
    torch.library.custom_op(name, namespace[out.name], mutates_args=buffers, tags=torch.Tag.out)
    return op


Kernel = Callable[..., Any]


def _same_under_inductor(
    op: Any, call: Callable[[Any, Any], Any], *, dynamic: bool = False
) -> bool:
    torch._dynamo.reset()
    x = torch.arange(3.0)
    try:
        compiled = torch.compile(lambda t: call(op, t) + 1, fullgraph=True, dynamic=dynamic)(x)
    except Exception:
        return False
    return torch.equal(compiled, call(op, x) + 1)


PAIRED = "ns::f(Tensor x, Tensor? a, Tensor? b) -> Tensor"
HAZARDOUS: list[tuple[str, str, tuple[str, ...] | None, Kernel]] = [
    ("default", "ns::f(Tensor x, float a=2.0) -> Tensor", None, lambda f, x: f(x)),
    (
        "optional",
        "ns::f(Tensor x, Tensor? a, Tensor? b) -> Tensor",
        None,
        lambda f, x: f(x, None, x),
    ),
    ("list", "ns::f(Tensor[] xs) -> Tensor", None, lambda f, x: f([x, x])),
    ("keyword-only", "ns::f(Tensor x, *, float a) -> Tensor", None, lambda f, x: f(x, a=3.0)),
    ("scalar-before-tensor", "ns::f(float a, Tensor x) -> Tensor", None, lambda f, x: f(3.0, x)),
    ("out-name", "ns::f(Tensor x) -> Tensor", ("dst",), lambda f, x: f(x)),
    ("several-outputs", "ns::f(Tensor x) -> (Tensor, Tensor)", None, lambda f, x: f(x)[0]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "schema", "names", "call"), HAZARDOUS)
def test_each_hazard_of_the_overload_form_breaks_and_the_flat_form_does_not(
    code: str, schema: str, names: tuple[str, ...] | None, call: Callable[[Any, Any], Any]
) -> None:
    assert code
    assert not _same_under_inductor(_pair(schema, OutNaming.OVERLOAD, names), call)
    assert _same_under_inductor(_pair(schema, OutNaming.FLAT, names), call)


@pytest.mark.slow
def test_a_pair_without_hazard_compiles_but_for_dynamic_shapes() -> None:
    def call(f: Any, x: Any) -> Any:
        return f(x, 3.0)

    schema = "ns::f(Tensor x, float a) -> Tensor"
    assert _same_under_inductor(_pair(schema, OutNaming.OVERLOAD, None), call)
    assert not _same_under_inductor(_pair(schema, OutNaming.OVERLOAD, None), call, dynamic=True)
    assert _same_under_inductor(_pair(schema, OutNaming.FLAT, None), call, dynamic=True)
