from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from opscaffold.contract.model import Kind
from opscaffold.contract.printer import format_schema
from opscaffold.scaffold.answers import answers_of, build, merge, missing, with_defaults
from opscaffold.scaffold.given import AnswerError, Answers, Given, Value
from opscaffold.scaffold.questions import OP, PACKAGE, Question
from opscaffold.scaffold.spec import FakeMode, OpSpec, PackageSpec

KINDS = {
    "functional": Kind.FUNCTIONAL,
    "in-place": Kind.INPLACE,
    "out": Kind.OUT,
    "mutable": Kind.MUTABLE,
}


def table(questions: Mapping[str, Question] = OP, /, **values: Value) -> dict[str, Given]:
    return {key: Given(value, questions[key].flag.split("/")[0]) for key, value in values.items()}


def package(*ops: dict[str, Given], **values: Value) -> PackageSpec:
    return build(Answers(table(PACKAGE, **{"package": "my-ops", **values}), ops))


def op(**values: Value) -> OpSpec:
    return package(table(**values)).ops[0]


@pytest.mark.parametrize(
    ("schema", "kind", "written"),
    [
        (
            "ns::f(Tensor x, float a=1.0) -> Tensor",
            "functional",
            "ns::f(Tensor x, float a=1.0) -> Tensor",
        ),
        (
            "f(Tensor x, float a=1) -> Tensor",
            "functional",
            "my_ops::f(Tensor x, float a=1.0) -> Tensor",
        ),
        (
            "f(Tensor x) -> (Tensor a, Tensor b)",
            "functional",
            "my_ops::f(Tensor x) -> (Tensor, Tensor)",
        ),
        (
            "f(Tensor[] xs, int n) -> Tensor",
            "functional",
            "my_ops::f(Tensor[] xs, SymInt n) -> Tensor",
        ),
        ("f_(Tensor(a!) x) -> Tensor(a!)", "in-place", "my_ops::f_(Tensor(a0!) x) -> Tensor(a0!)"),
        (
            "f_(Tensor x, int n) -> Tensor",
            "in-place",
            "my_ops::f_(Tensor(a0!) x, SymInt n) -> Tensor(a0!)",
        ),
        (
            "f(Tensor x, *, Tensor(b!) o) -> Tensor(b!)",
            "out",
            "my_ops::f(Tensor x, *, Tensor(a1!) o) -> Tensor(a1!)",
        ),
        (
            "f(Tensor x, *, Tensor out) -> Tensor",
            "out",
            "my_ops::f(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)",
        ),
        (
            "g_out(bool n, *, Tensor a, Tensor b) -> (Tensor, Tensor)",
            "out",
            "my_ops::g_out(bool n, *, Tensor(a1!) a, Tensor(a2!) b) -> (Tensor(a1!), Tensor(a2!))",
        ),
        ("f(Tensor x, Tensor(a!) y) -> ()", "mutable", "my_ops::f(Tensor x, Tensor(a1!) y) -> ()"),
        (
            "f(Tensor x, Tensor(a!)[] ys) -> ()",
            "mutable",
            "my_ops::f(Tensor x, Tensor(a1!)[] ys) -> ()",
        ),
        ("f(Tensor(a!) x) -> Tensor", "mutable", "my_ops::f(Tensor(a0!) x) -> Tensor"),
        ("f(Tensor x) -> ()", "mutable", "my_ops::f(Tensor(a0!) x) -> ()"),
        (
            "f(Tensor(a!)? ws, Tensor x) -> ()",
            "mutable",
            "my_ops::f(Tensor(a0!)? ws, Tensor x) -> ()",
        ),
    ],
)
def test_a_schema_fixes_the_kind(schema: str, kind: str, written: str) -> None:
    contract = op(schema=schema).contract
    assert contract.kind is KINDS[kind]
    assert format_schema(contract) == written


@pytest.mark.parametrize(
    ("signature", "kind"),
    [
        ("def f(x: Tensor, alpha: float = 1.0) -> Tensor", "functional"),
        ("def f(x: torch.Tensor, y: Tensor | None = None) -> tuple[Tensor, Tensor]", "functional"),
        ("def f(x: Tensor, *, flag: bool = True) -> Tensor", "functional"),
        ("def f_(x: Tensor) -> Tensor", "in-place"),
        ("def f(x: Tensor, *, out: Tensor) -> Tensor", "out"),
        ("def f(x: Tensor, *, weight: Tensor, out: Tensor) -> Tensor", "out"),
        ("def f(x: Tensor) -> None", "mutable"),
        ("def f(x: list[Tensor], n: int) -> None:", "mutable"),
    ],
)
def test_a_signature_fixes_the_kind_where_it_can(signature: str, kind: str) -> None:
    assert op(signature=signature).contract.kind is KINDS[kind]


def test_out_arguments_are_told_from_other_keyword_only_tensors() -> None:
    made = op(signature="def f(x: Tensor, *, weight: Tensor, out: Tensor) -> Tensor")
    assert made.contract.mutated == ("out",)


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ({"signature": "def f(x: Tensor, y: Tensor) -> None"}, ["--mutates"]),
        ({"schema": "f(Tensor x, Tensor y) -> ()"}, ["--mutates"]),
        ({"signature": "def f(x: Tensor) -> Tensor", "mutates": ("x",)}, ["--kind"]),
        ({"signature": "def f(x: Tensor, y: Tensor) -> Tensor", "kind": "mutable"}, ["--mutates"]),
    ],
)
def test_an_open_kind_names_the_flags_that_settle_it(
    values: dict[str, Value], flags: list[str]
) -> None:
    with pytest.raises(AnswerError) as caught:
        op(**values)
    assert all(flag in str(caught.value) for flag in flags)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"mutates": ("y",)}, "mutable"),
        ({"mutates": ("x",), "kind": "in-place"}, "in-place"),
        ({"mutates": ("x",), "kind": "mutable"}, "mutable"),
        ({"mutates": ()}, "functional"),
    ],
)
def test_mutates_and_kind_settle_a_signature(values: dict[str, Value], kind: str) -> None:
    made = op(signature="def f(x: Tensor, y: Tensor) -> Tensor", **values)
    assert made.contract.kind is KINDS[kind]


@pytest.mark.parametrize(
    ("values", "reason", "remedy"),
    [
        ({"schema": "f(Tensor(a!)? w, Tensor x) -> Tensor"}, "Optional", "split"),
        ({"schema": "f_(int n, Tensor x) -> Tensor"}, "takes a Tensor first", "drop the '_'"),
        ({"schema": "f(int n, Tensor(a!) x) -> Tensor(a!)"}, "written and returned", "-> ()"),
        (
            {"name": "f_", "kind": "in-place", "params": ("float a", "Tensor x")},
            "first argument",
            "put the Tensor first",
        ),
        ({"schema": "f(Tensor x, *, Tensor w) -> Tensor"}, "only an out= op", "before '*'"),
        ({"schema": "f(Tensor x, *, Tensor[] out) -> Tensor[]"}, "plain Tensors", "kind mutable"),
        ({"schema": "f(Tensor x, *, Tensor? out=None) -> Tensor"}, "given or not", "family"),
        (
            {"signature": "def f(x: Tensor, out: Tensor | None = None) -> Tensor"},
            "given or not",
            "family",
        ),
        ({"schema": "f(Tensor(a) x) -> Tensor(a)"}, "view", "fresh tensor"),
        ({"schema": "f(Tensor x) -> Tensor?"}, "cannot be Optional", "split"),
        ({"schema": "f(Tensor x, str m='a\"b') -> Tensor"}, "quote", "plain default"),
        ({"schema": "f(Tensor x, Layout l) -> Tensor"}, "no annotation", "use Tensor"),
        ({"schema": "f.out(Tensor x) -> Tensor"}, "overload", "f_out"),
        ({"schema": "f_(Tensor(a!) x, Tensor y) -> ()"}, "says in-place", "name it 'f'"),
        ({"schema": "f() -> ()"}, "does nothing", "return"),
        ({"schema": "f(Tensor(a!) x) -> int"}, "torch.compile", "second op"),
        (
            {"schema": "f(Tensor(a!) x) -> Tensor(a!)", "autograd": True},
            "cannot have autograd",
            "family",
        ),
        ({"schema": "f(int n) -> Tensor", "autograd": True}, "nothing trains", "Tensor"),
        (
            {"schema": "f(Tensor x) -> ()", "family": True},
            "functional op",
            "give the functional one",
        ),
        ({"schema": "f(int n, Tensor x) -> Tensor", "family": True}, "in-place form", "on its own"),
        (
            {"schema": "f(Tensor x) -> Tensor", "family": True, "fake": "dynamic"},
            "its shape",
            "fake same",
        ),
        (
            {"schema": "f(Tensor x, *, Tensor out) -> Tensor", "fake": "dynamic"},
            "before the data",
            "functional",
        ),
        (
            {"schema": "f(Tensor x) -> Tensor", "fake": "expression"},
            "size of each dimension",
            "--fake-shape",
        ),
        (
            {"schema": "f(Tensor x) -> Tensor", "fake": "same", "fake_shape": ("2",)},
            "does not use",
            "expression",
        ),
        ({"schema": "f(Tensor x, Tensor? y) -> Tensor", "fake_like": "y"}, "always given", "x"),
        ({"schema": "f(Tensor x) -> ()", "fake": "same"}, "returns no Tensor", "drop fake"),
        ({"schema": "f(Tensor x) -> Tensor", "params": ("Tensor x",)}, "already says", "keep one"),
        ({"schema": "f(Tensor x) -> Tensor", "name": "g"}, "names the op f", "keep one"),
        ({"schema": "f(Tensor(a!) x) -> ()", "kind": "functional"}, "mutable", "keep one"),
        (
            {"name": "f", "params": ("Tensor x", "Tensor x"), "returns": "Tensor"},
            "two arguments",
            "rename",
        ),
        ({"name": "f", "params": ("Tensor x", "*"), "returns": "Tensor"}, "behind '*'", "drop it"),
        (
            {"name": "f", "params": ("Tensor x", "float a=1.0", "int n"), "returns": "Tensor"},
            "no default",
            "move 'n'",
        ),
        ({"name": "f", "params": ("Tensor x",), "out": ("x",)}, "argument already", "otherwise"),
        ({"schema": "f(Tensor x) -> Tensor", "mutates": ("z",), "kind": "mutable"}, "'z'", "x"),
    ],
)
def test_an_illegal_combination_is_refused_with_reason_and_remedy(
    values: dict[str, Value], reason: str, remedy: str
) -> None:
    with pytest.raises(AnswerError) as caught:
        op(**values)
    text = str(caught.value)
    assert reason in text
    assert remedy in text
    assert "\n" not in text


@pytest.mark.parametrize("package_name", [
    "", ".", "..", "../x", "a/b", "a\\b", "/abs", "class", "torch", "typing", "numpy", "tests",
    "con", "x" * 65, "-x", "x-", "a--b", "a b", "a\nb", "a'b", 'a"b', "{{x}}", "a{b}", "1x", "ñ",
    "con.x/..", "opscaffold", "True", "a\0b", "$(x)", "a;b",
])  # fmt: skip
def test_a_package_name_that_would_break_is_refused(package_name: str) -> None:
    with pytest.raises(AnswerError, match="PACKAGE: "):
        package(table(schema="f(Tensor x) -> Tensor"), package=package_name)


@pytest.mark.parametrize("name", [
    "", "class", "a b", "a-b", "1a", "a.b", "a::b", "a/b", "..", "a\nb", "a'", 'a"', "{a}", "{{a}}",
    "ñ", "torch", "None", "__init__", "_",
])  # fmt: skip
@pytest.mark.parametrize("key", ["name", "namespace", "out"])
def test_a_name_that_would_break_is_refused(key: str, name: str) -> None:
    whole: dict[str, Value] = {"namespace": name} if key == "namespace" else {}
    parts: dict[str, Value] = {"name": "f", "params": ("Tensor x",)}
    if key == "name":
        parts |= {"name": name, "returns": "Tensor"}
    else:
        parts["out"] = (name,) if key == "out" else ("out",)
    with pytest.raises(AnswerError):
        package(table(**parts), **whole)


@pytest.mark.parametrize("name", ["Tensor", "int", "tuple"])
def test_an_op_name_that_hides_what_its_code_needs_is_refused(name: str) -> None:
    with pytest.raises(AnswerError, match="would hide"):
        op(name=name, params=("Tensor x",), returns="Tensor")


@pytest.mark.parametrize("namespace", ["aten", "prim", "torch"])
def test_namespaces_of_pytorch_are_refused(namespace: str) -> None:
    with pytest.raises(AnswerError, match=r"--namespace: .*namespace of PyTorch"):
        package(table(schema="f(Tensor x) -> Tensor"), namespace=namespace)
    with pytest.raises(AnswerError, match=r"--schema: .*namespace of PyTorch"):
        op(schema=f"{namespace}::f(Tensor x) -> Tensor")


@pytest.mark.parametrize(
    "text",
    ["a\nb", 'say "x"', "{{ cookiecutter }}", "{% raw %}", "back\\slash", "x" * 301, "\x1b[0m"],
)
def test_a_description_that_could_become_code_is_refused(text: str) -> None:
    with pytest.raises(AnswerError, match="--description"):
        package(table(schema="f(Tensor x) -> Tensor"), description=text)


@pytest.mark.parametrize(
    "values",
    [
        {"schema": 'f(Tensor x, str s="\udcff") -> Tensor'},
        {"name": "f", "params": ("Tensor x", "str s='\udcff'"), "returns": "Tensor"},
    ],
)
def test_bytes_that_are_no_text_are_refused(values: dict[str, Value]) -> None:
    with pytest.raises(AnswerError, match="no text"):
        op(**values)


@pytest.mark.parametrize("release", ["2.3", "1.13", "3.0", "2", "two", "2.13rc1", ""])
def test_a_torch_release_that_cannot_be_is_refused(release: str) -> None:
    with pytest.raises(AnswerError, match="--torch-min"):
        package(table(schema="f(Tensor x) -> Tensor"), torch_min=release)


def test_an_old_torch_is_kept_for_the_untagged_form() -> None:
    made = package(table(schema="f_(Tensor x) -> Tensor"), torch_min="2.4")
    assert made.torch_min == (2, 4)
    assert made.ops[0].contract.kind is Kind.INPLACE


def test_an_optional_list_of_tensors_needs_the_release_that_takes_it() -> None:
    told = table(schema="f(Tensor x, Tensor[]? ys=None) -> Tensor")
    with pytest.raises(AnswerError, match="Optional list"):
        package(told)
    assert package(told, torch_min="2.15").ops[0].contract.parameters[1].name == "ys"


def test_the_namespace_follows_flag_then_schema_then_package() -> None:
    assert package(table(schema="f(Tensor x) -> Tensor")).namespace == "my_ops"
    assert package(table(schema="ns::f(Tensor x) -> Tensor")).namespace == "ns"
    assert package(table(schema="f(Tensor x) -> Tensor"), namespace="own").namespace == "own"
    with pytest.raises(AnswerError, match="one namespace"):
        package(table(schema="ns::f(Tensor x) -> Tensor"), namespace="own")
    with pytest.raises(AnswerError, match="one namespace"):
        package(table(schema="a::f(Tensor x) -> Tensor"), table(schema="b::g(Tensor x) -> Tensor"))


def test_a_package_whose_name_is_no_namespace_asks_for_one() -> None:
    with pytest.raises(AnswerError, match="--namespace"):
        package(table(schema="f(Tensor x) -> Tensor"), package="sparse")


@pytest.mark.parametrize("other", ["f", "F", "f_", "f_out"])
def test_ops_of_one_name_are_refused(other: str) -> None:
    first = table(schema="f(Tensor x) -> Tensor", family=True)
    if other == "f_":
        second = table(schema="f_(Tensor x) -> Tensor")
    else:
        second = table(name=other, params=("Tensor x",), returns="Tensor")
    with pytest.raises(AnswerError, match="taken by f"):
        package(first, second)


@pytest.mark.parametrize(
    ("values", "mode", "like", "shape"),
    [
        ({}, FakeMode.SAME, "x", ()),
        ({"fake": "same", "fake_like": "y"}, FakeMode.SAME, "y", ()),
        ({"fake": "broadcast"}, FakeMode.BROADCAST, "", ()),
        ({"fake": "dynamic"}, FakeMode.DYNAMIC, "x", ()),
        ({"fake_shape": "(x.size(0)*n, 2)"}, FakeMode.EXPRESSION, "x", ("x.shape[0] * n", "2")),
        ({"fake": "expression", "fake_shape": ()}, FakeMode.EXPRESSION, "x", ()),
    ],
)
def test_the_rule_for_the_outputs(
    values: dict[str, Value], mode: FakeMode, like: str, shape: tuple[str, ...]
) -> None:
    made = op(schema="f(Tensor x, Tensor y, int n) -> Tensor", **values).fake
    assert (made.mode, made.like, made.shape) == (mode, like, shape)


def test_an_op_without_tensors_has_sizes_all_the_same() -> None:
    made = op(schema="f(int n) -> Tensor")
    assert (made.fake.mode, made.fake.shape, made.autograd) == (FakeMode.EXPRESSION, ("n",), False)


ROUND_TRIPS: list[dict[str, Value]] = [
    {"schema": "ns::f(Tensor x, float alpha=1.0, *, str mode='mean') -> Tensor"},
    {"schema": "f(Tensor x, Tensor? y=None, int[]? d=None) -> (Tensor, int)", "autograd": False},
    {"schema": "f(Tensor x, ScalarType? d=None) -> Tensor", "family": False},
    {"schema": "f(Tensor x) -> Tensor", "family": True},
    {"schema": "f(Tensor x, int n) -> Tensor", "fake_shape": ("x.shape[-1] // 2 + n", "3")},
    {"schema": "f(Tensor x) -> Tensor", "fake": "dynamic"},
    {"schema": "f(Tensor x, Tensor y) -> Tensor", "fake": "broadcast"},
    {"schema": "f(int n) -> Tensor"},
    {"schema": "f(Tensor[] xs) -> Tensor[]"},
    {"schema": "f_(Tensor x, Tensor y) -> Tensor"},
    {"schema": "f(Tensor x, *, int k=1, Tensor out0, Tensor out1) -> (Tensor, Tensor)"},
    {"schema": "f(Tensor x, Tensor(a!) y, Tensor(b!)[] zs) -> Tensor"},
    {"signature": "def f(x: Tensor, y: Tensor) -> None", "mutates": ("y",)},
    {"name": "f", "kind": "in-place", "params": ("Tensor x", "b: float = 2.5")},
    {"name": "f", "params": ("x: Tensor", "*", "bool k=True"), "out": ("a", "b")},
]


@pytest.mark.parametrize("values", ROUND_TRIPS)
def test_saved_answers_make_the_same_package(values: dict[str, Value]) -> None:
    made = package(table(**values), description="It's a test.", torch_min="2.13")
    again = build(answers_of(made))
    assert again == made
    assert answers_of(again) == answers_of(made)


def test_missing_answers_are_named_by_flag() -> None:
    assert missing(Answers())[0] == "PACKAGE"
    assert "--schema" in missing(Answers())[1]
    assert missing(Answers(ops=(table(name="f"),))) == ["PACKAGE", "--param", "--returns"]
    assert missing(Answers(ops=(table(name="f", kind="in-place"),))) == ["PACKAGE", "--param"]
    assert missing(Answers(ops=(table(name="f", kind="out", params=("Tensor x",)),)))[1:] == [
        "--out"
    ]
    assert missing(Answers(table(PACKAGE, package="p"), (table(schema="f() -> Tensor"),))) == []


def test_defaults_fill_every_missing_answer() -> None:
    for given in (Answers(), Answers(ops=(table(kind="functional"), table(name="g")))):
        filled = with_defaults(given)
        assert missing(filled) == []
        assert build(filled).name == "my-ops"


def test_defaults_suit_the_kind() -> None:
    for word, kind in KINDS.items():
        made = build(with_defaults(Answers(ops=(table(kind=word),))))
        assert made.ops[0].contract.kind is kind


def test_defaults_give_several_ops_names_of_their_own() -> None:
    made = build(with_defaults(Answers(ops=({}, {}, table(kind="in-place")))))
    assert [o.contract.name for o in made.ops] == ["my_op", "my_op2", "my_op_"]


class TestMerge:
    FILE = Answers(
        {"package": Given("p", "f.toml:1"), "namespace": Given("old", "f.toml:2")},
        (
            {"schema": Given("f(Tensor x) -> Tensor", "f.toml:4"), "autograd": Given(False, "")},
            {"schema": Given("g(Tensor x) -> Tensor", "f.toml:7")},
        ),
    )

    def test_a_flag_overrules_the_file(self) -> None:
        merged = merge(self.FILE, Answers(table(PACKAGE, namespace="new")), {})
        made = build(merged)
        assert (made.name, made.namespace, len(made.ops)) == ("p", "new", 2)

    def test_a_schema_redefines_the_op_of_its_name_and_keeps_its_choices(self) -> None:
        flags = Answers(ops=(table(schema="f(Tensor x, Tensor y) -> Tensor"),))
        ops = build(merge(self.FILE, flags, {})).ops
        assert [len(o.contract.parameters) for o in ops] == [2, 1]
        assert not ops[0].autograd

    def test_a_new_schema_is_added(self) -> None:
        flags = Answers(ops=(table(schema="h(Tensor x) -> Tensor"),))
        assert [o.contract.name for o in build(merge(self.FILE, flags, {})).ops] == ["f", "g", "h"]

    def test_choices_without_op_are_about_every_op(self) -> None:
        ops = build(merge(self.FILE, Answers(), table(autograd=False))).ops
        assert [o.autograd for o in ops] == [False, False]

    def test_op_says_which_op_is_meant(self) -> None:
        ops = build(merge(self.FILE, Answers(), table(name="g", family=True))).ops
        assert [o.family for o in ops] == [False, True]

    def test_what_is_about_one_op_needs_op_among_several(self) -> None:
        with pytest.raises(AnswerError, match="--op NAME"):
            merge(self.FILE, Answers(), table(kind="mutable"))

    def test_the_only_op_needs_no_name(self) -> None:
        flags = Answers(ops=(table(signature="def f(x: Tensor, y: Tensor) -> None"),))
        merged = merge(Answers(table(PACKAGE, package="p")), flags, table(mutates=("y",)))
        assert build(merged).ops[0].contract.mutated == ("y",)


@pytest.mark.torch
@pytest.mark.parametrize("values", ROUND_TRIPS)
def test_torch_registers_what_the_answers_make(values: dict[str, Value]) -> None:
    torch = pytest.importorskip("torch")
    contract = replace(op(**values).contract, namespace="opscaffold_answers")
    schema = format_schema(contract)
    library = torch.library.Library("opscaffold_answers", "FRAGMENT")
    try:
        library.define(
            schema.split("::", 1)[1], tags=tuple(getattr(torch.Tag, t.value) for t in contract.tags)
        )
        packet = getattr(torch.ops.opscaffold_answers, contract.name)
        assert packet.default._schema == torch._C.parse_schema(schema)
    finally:
        library._destroy()
