"""Every rule of legality, and the remedy it offers."""

from __future__ import annotations

import pytest

from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.legality import check_family, check_legal
from opscaffold.contract.model import OpContract, Tag
from opscaffold.contract.releases import release_for

IN, OUT = Tag.INPLACE, Tag.OUT


def contract(schema: str, *tags: Tag) -> OpContract:
    return parse_schema(schema, namespace="ns", tags=frozenset(tags))


LEGAL = [
    ("f(Tensor x) -> Tensor", ()),
    ('f(Tensor x, Tensor? b=None, int[]? k=None, *, str mode="a") -> (Tensor, Tensor)', ()),
    ("f(Tensor[] xs, Tensor?[] ys, float eps=1e-05, bool flag=False) -> Tensor[]", ()),
    ("f(Tensor x, Scalar s=1, ScalarType? d=None, Device? e=None) -> (Tensor, int, float)", ()),
    ('f(Tensor x, ScalarType d=float32, Device e="cpu") -> int', ()),
    ("f(int n) -> Tensor", ()),
    ("f_(Tensor(a!) x, Tensor y, float a=1.0) -> Tensor(a!)", (IN,)),
    ("f_out(Tensor x, *, int n=1, Tensor(a!) out) -> Tensor(a!)", (OUT,)),
    (
        "f_out(Tensor x, *, Tensor y, Tensor(a!) o, Tensor(b!) p) -> (Tensor(a!), Tensor(b!))",
        (OUT,),
    ),
    ("f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", (OUT,)),
    ("f(Tensor(a!) x, Tensor(b!)[] ys, Tensor(c!)? z=None) -> ()", ()),
    ("f(Tensor(a!) x) -> Tensor", ()),
    ("f(Tensor(a!) x) -> (Tensor, Tensor)", ()),
    ("f(int n, Tensor(a!) x) -> ()", ()),
]


@pytest.mark.parametrize(("schema", "tags"), LEGAL)
def test_what_is_legal_has_no_problem(schema: str, tags: tuple[Tag, ...]) -> None:
    assert check_legal(contract(schema, *tags)) == []


# (schema, tags, codes, words of the remedy)
ILLEGAL = [
    ("aten::f(Tensor x) -> Tensor", (), ["bad-namespace"], "another namespace"),
    ("torch(Tensor x) -> Tensor", (), ["bad-name"], "another name"),
    ("name(Tensor x) -> Tensor", (), ["bad-name"], "another name"),
    ("f_(Tensor x) -> Tensor", (), ["underscore"], "name it 'f'"),
    ("f_(Tensor(a!) x) -> ()", (), ["underscore"], "name it 'f'"),
    ("if_(Tensor x) -> Tensor", (), ["underscore"], "name it 'if_op'"),
    ("f(Tensor torch) -> Tensor", (), ["bad-parameter"], "name it 'torch_'"),
    ("f(Tensor lambda) -> Tensor", (), ["bad-parameter"], "name it 'lambda_'"),
    ("f(Tensor x, int x) -> Tensor", (), ["duplicate"], "own name"),
    ("f(Tensor x, ...) -> Tensor", (), ["varargs"], "list argument"),
    ("f(Tensor x) -> ...", (), ["varargs", "no-effect"], "list argument"),
    ("f(int n=1, Tensor x) -> Tensor", (), ["default-order"], "move 'x' to the front"),
    ("f(Tensor(a!) x, int mode=1) -> ()", (), ["mode-argument"], "rename it"),
    ("f(Tensor x, Dict(str, int) d) -> Tensor", (), ["parameter-type"], "several arguments"),
    ("f(Tensor x, MemoryFormat m) -> Tensor", (), ["parameter-type"], "use Tensor"),
    ("f(Tensor x, Tensor[]? y) -> Tensor", (), ["parameter-type"], "annotate list[Tensor]"),
    ("f(Tensor x, str[] s) -> Tensor", (), ["parameter-type"], "a list of Tensor"),
    ("f(Tensor x, int?[] s) -> Tensor", (), ["parameter-type"], "without None"),
    ("f(Tensor x, int[2] k=[1, 2]) -> Tensor", (), ["default"], "default None"),
    ('f(Tensor x, str s="a\\"b") -> Tensor', (), ["default"], "plain default"),
    ("f(Tensor(a) x) -> Tensor(a)", (), ["view", "return-alias"], "clone"),
    ("f(int(a!) n, Tensor x) -> Tensor", (), ["mutated-type"], "return the new value"),
    ("f(Tensor x, *, Tensor y) -> Tensor", (), ["keyword-only-tensor"], "make 'y' positional"),
    ("f(Tensor x, *, Tensor[] y) -> Tensor", (), ["keyword-only-tensor"], "make 'y' positional"),
    ("f(Tensor x) -> Tensor?", (), ["return-type"], "return Tensor"),
    ("f(Tensor x) -> str", (), ["return-type"], "return Tensor"),
    ("f(Tensor x) -> int[]", (), ["return-type"], "return Tensor"),
    ("f(Tensor x) -> ()", (), ["no-effect"], "return a result"),
    ("f(Tensor(a!) x) -> Tensor(a!)", (), ["return-alias"], "tag it torch.Tag.inplace"),
    ("f(int n, Tensor(a!) x) -> Tensor(a!)", (), ["return-alias"], "move 'x' to the front"),
    (
        "f(Tensor x, Tensor(a!) o, Tensor(b!) p) -> (Tensor(a!), Tensor(b!))",
        (),
        ["return-alias"],
        "make the buffers keyword-only",
    ),
    ("f(Tensor(a!)[] x) -> Tensor(a!)[]", (), ["return-alias", "mutable-return"], "return nothing"),
    ("f(Tensor(a!) x) -> Tensor[]", (), ["mutable-return"], "single Tensors"),
    ("f(Tensor(a!) x) -> int", (), ["mutable-return"], "second op"),
    ("f(Tensor(a!)?[] xs) -> ()", (), ["mutated-optional-list"], "a list of Tensor"),
    ("f(Tensor(a!)? x) -> Tensor", (), ["optional-mutated-return"], "split it"),
    ("f_(int n, Tensor(a!) x) -> Tensor(a!)", (IN,), ["inplace-first"], "first, before any number"),
    ("f_(Tensor(a!)? x) -> Tensor", (IN,), ["inplace-first"], "mutable op"),
    ("f_(Tensor(a!)[] x) -> Tensor", (IN,), ["inplace-first"], "mutable op"),
    ("f_() -> Tensor", (IN,), ["inplace-first"], "mutable op"),
    ("f_(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)", (IN,), ["inplace-mutated"], "drop the tag"),
    ("f_(Tensor x, Tensor(b!) y) -> Tensor(b!)", (IN,), ["inplace-mutated"], "drop the tag"),
    ("f_(Tensor(a!) x) -> ()", (IN,), ["inplace-return"], "return 'x'"),
    ("f_(Tensor(a!) x) -> Tensor", (IN,), ["inplace-return"], "return 'x'"),
    ("f_(Tensor(a!) x) -> (Tensor(a!), Tensor)", (IN,), ["inplace-return"], "return 'x'"),
    ("f(Tensor x, *, Tensor out) -> Tensor", (OUT,), ["out-none"], "mutates_args"),
    ("f(Tensor x, Tensor(a!) out) -> Tensor(a!)", (OUT,), ["out-positional"], "behind '*'"),
    ("f(Tensor x, *, Tensor(a!)? out) -> Tensor(a!)?", (OUT,), ["return-type", "out-type"], ""),
    ("f(Tensor x, *, Tensor(a!) out=None) -> Tensor(a!)", (OUT,), ["out-type"], "require"),
    ("f(Tensor x, *, Tensor(a!)[] out) -> Tensor(a!)[]", (OUT,), ["out-type"], "require"),
    ("f(Tensor x, *, Tensor(a!) out) -> ()", (OUT,), ["out-return"], "return out"),
    (
        "f(*, Tensor(a!) o, Tensor(b!) p) -> (Tensor(b!), Tensor(a!))",
        (OUT,),
        ["out-return"],
        "o, p",
    ),
    ("f(*, Tensor(a!) o, Tensor(b!) p) -> Tensor(a!)", (OUT,), ["out-return"], "o, p"),
    ("f(Tensor(a!) x) -> Tensor(a!)", (IN, OUT), ["two-tags"], "keep the one"),
]


@pytest.mark.parametrize(("schema", "tags", "codes", "remedy"), ILLEGAL)
def test_what_is_illegal_is_refused_with_a_remedy(
    schema: str, tags: tuple[Tag, ...], codes: list[str], remedy: str
) -> None:
    problems = check_legal(contract(schema, *tags))
    assert [p.code for p in problems] == codes
    assert any(remedy in p.remedy for p in problems)
    assert all(p.reason and p.remedy and str(p) for p in problems)


def test_tags_need_a_release_that_has_them() -> None:
    tagged = contract("f_(Tensor(a!) x) -> Tensor(a!)", IN)
    (problem,) = check_legal(tagged, release_for((2, 12)))
    assert problem.code == "no-tags"
    assert "2.13" in problem.remedy
    (problem,) = check_legal(contract("f(Tensor x) -> Tensor"), release_for((2, 3)))
    assert problem.code == "no-custom-op"


def test_a_newer_release_takes_optional_lists() -> None:
    optional = contract("f(Tensor[]? xs) -> Tensor")
    assert check_legal(optional)
    assert check_legal(optional, release_for((2, 15))) == []


def test_a_bare_signature_is_judged_without_its_name() -> None:
    assert check_legal(parse_schema("(Tensor x) -> Tensor")) == []


def test_a_family_needs_a_first_tensor_and_one_tensor_returned() -> None:
    assert check_family(contract("f(Tensor x, Tensor y, float a=1.0) -> Tensor")) == []
    problems = check_family(contract("f(int n, Tensor x) -> Tensor"))
    assert [p.code for p in problems] == ["family"]
    problems = check_family(contract("f(Tensor x) -> (Tensor, Tensor)"))
    assert "exactly one Tensor" in problems[0].reason
    assert check_family(contract("f(Tensor out) -> Tensor"))
    assert check_family(contract("f(Tensor x) -> Tensor"), release_for((2, 12)))


def test_a_problem_of_all_members_is_told_once() -> None:
    problems = check_family(contract("aten::f(Tensor x) -> Tensor"))
    assert [p.code for p in problems] == ["bad-namespace"]
