"""Names, releases, hazards of the overload form, and the decision tree."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from opscaffold.contract import decision
from opscaffold.contract.derive import out_of
from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.hazards import is_linked, overload_hazards
from opscaffold.contract.model import Kind
from opscaffold.contract.naming import (
    OutNaming,
    module_name,
    overload_refusal,
    split_qualname,
    validate_namespace,
    validate_op_name,
    validate_overload_name,
    validate_package_name,
    validate_parameter_name,
)
from opscaffold.contract.releases import RELEASES, parse_version, release_for, supports_tags

INJECTIONS = [
    *("", " ", "a b", "a-b", "1a", "a.b", "a::b", 'a"b', "a'b", "a{b", "{{b}}", "a}b", "a\nb"),
    *("a\n", "a/b", "../a", "a\\b", "a;b", "a(b", "é", "a\0", "%s", "$a", "a" * 200, "_", "__"),
    *("class", "None", "lambda", "NoneType", "import", "True"),
]


@pytest.mark.parametrize("name", INJECTIONS)
def test_no_name_can_break_out_of_generated_code(name: str) -> None:
    assert validate_op_name(name)
    assert validate_parameter_name(name)
    assert validate_namespace(name)
    assert validate_overload_name(name) or not name


@pytest.mark.parametrize("name", ["scale", "scale_", "_scale", "match", "type_", "S2", "fp8_gemm"])
def test_plain_names_are_fine(name: str) -> None:
    for validate in (
        validate_op_name,
        validate_parameter_name,
        validate_namespace,
        validate_overload_name,
    ):
        assert validate(name) is None


@pytest.mark.parametrize("name", ["torch", "Tensor", "int", "list", "isinstance", "__init__"])
def test_names_that_hide_what_the_code_needs_are_refused(name: str) -> None:
    assert validate_parameter_name(name)
    assert validate_op_name(name)


def test_soft_keywords_and_common_argument_names_are_fine() -> None:
    for name in ("match", "case", "input", "self", "dim", "min", "max", "out", "dtype", "from_"):
        assert validate_parameter_name(name) is None


@pytest.mark.parametrize("name", ["aten", "prim", "prims", "torch", "quantized", "higher_order"])
def test_the_namespaces_of_pytorch_are_refused(name: str) -> None:
    assert "PyTorch" in (validate_namespace(name) or "")


_ASK = """
import torch
names = {n.split("::")[0] for n in torch._C._dispatch_get_all_op_names()}
print(" ".join(sorted(names | {n for n in dir(torch.ops) if not n.startswith("__")})))
"""


@pytest.mark.torch
def test_every_namespace_that_torch_brings_is_refused() -> None:
    # A process of its own: other tests register ops.
    done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert len(names) > 10
    assert [n for n in names if validate_namespace(n) is None] == []


@pytest.mark.torch
def test_an_op_called_name_cannot_be_reached() -> None:
    torch = pytest.importorskip("torch")
    assert torch.ops.opscaffold_nowhere.name == "opscaffold_nowhere"
    assert validate_op_name("name")


@pytest.mark.parametrize("name", ["default", "__x"])
def test_overload_names_of_pytorch_are_refused(name: str) -> None:
    assert validate_overload_name(name)


@pytest.mark.parametrize("name", ["my-ops", "my_ops", "MyOps2", "a.b"])
def test_package_names_become_modules(name: str) -> None:
    assert validate_package_name(name) is None
    assert module_name(name).isidentifier()


@pytest.mark.parametrize(
    "name",
    [
        *("", "-a", "a-", "a/b", "../a", "a b", "é", "torch", "json", "class", "2ops", 'a"', "a\n"),
        *("tests", "numpy", "a" * 200, "{{a}}"),
    ],
)
def test_bad_package_names_are_refused(name: str) -> None:
    assert validate_package_name(name)


def test_a_qualified_name_is_split() -> None:
    assert split_qualname("ns::f.out") == ("ns", "f", "out")
    assert split_qualname("ns::f") == ("ns", "f", "")
    for bad in ("f", "a::b::c", "a::b.c.d", "::b", "a::", "a::b.", ""):
        assert split_qualname(bad) is None


def test_releases_are_looked_up_by_the_newest_row_not_newer() -> None:
    assert not release_for((2, 3)).custom_op
    assert release_for((2, 4)).custom_op
    assert not supports_tags("2.12.1")
    assert supports_tags("2.13.0+cpu")
    assert not release_for((2, 14)).optional_lists
    assert release_for((2, 15)).optional_lists
    assert release_for((3, 1)).optional_lists
    assert release_for((3, 1)).version == (3, 1)
    assert str(release_for("2.13")) == "2.13"
    assert [r.version for r in RELEASES] == sorted(r.version for r in RELEASES)


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.13", (2, 13)), ("2.13.0+cpu", (2, 13)), ("v2.4.1", (2, 4)), ("2.15.0a0+git1", (2, 15))],
)
def test_versions_are_read(text: str, version: tuple[int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "2", "two", "2.", ".13", "2.x", "2.13;"])
def test_bad_versions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it as 2\.13"):
        parse_version(text)


HAZARDS = [
    ("f(Tensor x, float a) -> Tensor", set()),
    ("f(Tensor x, Tensor y, float a, int n) -> Tensor", set()),
    ("f(Tensor x, float a=2.0) -> Tensor", {"default"}),
    ("f(Tensor x, Tensor? b) -> Tensor", {"optional"}),
    ("f(Tensor[] xs) -> Tensor", {"list"}),
    ("f(Tensor x, int[] k) -> Tensor", {"list"}),
    ("f(Tensor x, int[]? k=None) -> Tensor", {"list", "optional", "default"}),
    ("f(Tensor x, *, float a) -> Tensor", {"keyword-only"}),
    ("f(float a, Tensor x) -> Tensor", {"scalar-before-tensor"}),
    ("f(Tensor x, int n, Tensor y) -> Tensor", {"scalar-before-tensor"}),
    ("f(Tensor x) -> (Tensor, Tensor)", {"several-outputs"}),
]


@pytest.mark.parametrize(("schema", "codes"), HAZARDS)
def test_each_measured_hazard_is_found(schema: str, codes: set[str]) -> None:
    contract = parse_schema(f"ns::{schema}")
    out = out_of(contract, style=OutNaming.OVERLOAD)
    refusals, warnings = overload_refusal(contract, out, release_for())
    assert {h.code for h in refusals} == codes
    assert [h.code for h in warnings] == ["dynamic-shapes"]
    assert overload_hazards(contract, out_of(contract), release_for()) == []
    assert overload_hazards(contract, out, release_for((2, 12))) == []


def test_a_buffer_with_another_name_is_a_hazard() -> None:
    contract = parse_schema("ns::f(Tensor x) -> Tensor")
    out = out_of(contract, ("dst",), style=OutNaming.OVERLOAD)
    (hazard,) = overload_refusal(contract, out, release_for())[0]
    assert (hazard.code, hazard.parameter) == ("out-name", "dst")


@pytest.mark.parametrize(
    "out",
    [
        "ns::f.out(Tensor x, float a=2.0, *, Tensor(a!) out) -> Tensor(a!)",
        "ns::f.out(Tensor x, float b=1.0, *, Tensor(a!) out) -> Tensor(a!)",
        "ns::f.out(Tensor x, float? a=1.0, *, Tensor(a!) out) -> Tensor(a!)",
        "ns::g.out(Tensor x, float a=1.0, *, Tensor(a!) out) -> Tensor(a!)",
    ],
)
def test_a_pair_that_pytorch_does_not_link_has_no_hazard(out: str) -> None:
    from opscaffold.contract.kinds import with_kind_tag

    functional = parse_schema("ns::f(Tensor x, float a=1.0) -> Tensor")
    assert not is_linked(functional, with_kind_tag(parse_schema(out)))


def test_the_tree_reaches_every_kind_by_one_path() -> None:
    reached = []
    for answers in itertools.product(("yes", "no"), repeat=4):
        end = decision.walk(dict(zip(decision.QUESTIONS, answers, strict=True)))
        assert isinstance(end, decision.Outcome)
        reached.append(end.kind)
    assert set(reached) == {None, *Kind}
    for kind in Kind:
        end = decision.walk(decision.answers_for(kind))
        assert end is decision.outcome_of(kind)


def test_a_walk_stops_at_the_first_question_without_an_answer() -> None:
    assert decision.walk({}) is decision.QUESTIONS[decision.COMPOSABLE]
    answers = {decision.COMPOSABLE: "no", decision.MUTATES: "yes"}
    assert decision.walk(answers) is decision.QUESTIONS[decision.RETURNS_FIRST]
    assert [c.answer for c in decision.path(answers)] == ["no", "yes"]
    assert decision.walk({}, decision.MUTATES) is decision.QUESTIONS[decision.MUTATES]


def test_an_answer_that_is_not_offered_is_an_error() -> None:
    with pytest.raises(KeyError):
        decision.walk({decision.COMPOSABLE: "maybe"})


def test_every_arrow_leads_somewhere_and_every_default_is_offered() -> None:
    arrows = list(decision.edges())
    assert len(arrows) == sum(len(q.choices) for q in decision.QUESTIONS.values())
    assert {a.target.id for a in arrows} | {decision.START} == (
        set(decision.QUESTIONS) | set(decision.OUTCOMES)
    )
    for question in decision.QUESTIONS.values():
        assert question.choice(question.default)
        assert question.prompt.endswith("?")
        assert question.reason
    assert not set(decision.QUESTIONS) & set(decision.OUTCOMES)
