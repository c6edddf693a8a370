"""What is registered beside a contract: refused where PyTorch loses something, tested elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from generated import op, package, pytest_in, require, write

from opscaffold.scaffold.additions import ADDITIONS
from opscaffold.scaffold.answers import answers_of, build
from opscaffold.scaffold.given import AnswerError, Answers, Given, Value
from opscaffold.scaffold.questions import OP
from opscaffold.scaffold.render import preview
from opscaffold.scaffold.spec import Additions

SCALE = "ns::scale(Tensor x, float alpha=1.0) -> Tensor"
BUMP = "ns::bump_(Tensor(a!) x, Tensor y) -> Tensor(a!)"
OUT = "ns::add_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
TRACK = "ns::track(Tensor(a!) mean, Tensor x) -> ()"


def answers(schema: str, torch_min: str = "2.13", **op_answers: Value) -> Answers:
    table = {key: Given(value, f"--{key}") for key, value in op_answers.items()}
    package_answers = {"package": Given("my-ops"), "torch_min": Given(torch_min)}
    return Answers(package_answers, ({"schema": Given(schema), **table},))


@pytest.mark.parametrize(
    ("schema", "added", "reason"),
    [
        (OUT, {"vmap": True}, "ends in an internal error; nearest: a functional op"),
        ("ns::f(int n) -> Tensor", {"vmap": True, "fake": "dynamic"}, "takes no Tensor"),
        ("ns::f(Tensor x) -> (Tensor, int)", {"vmap": True}, "returns a number"),
        (SCALE, {"vmap": True, "fake": "dynamic"}, "cannot be stacked"),
        (SCALE, {"vmap": True, "torch_min": "2.4"}, r"from 2\.5 on"),
        (BUMP, {"autocast": "bfloat16"}, "never reaches the argument; nearest: a functional op"),
        (TRACK, {"autocast": "bfloat16"}, "never reaches the argument"),
        (OUT, {"autocast": "float16"}, "keyword-only"),
        ("ns::f(Tensor x, *, int n=1) -> Tensor", {"autocast": "float16"}, "keyword-only"),
        (SCALE, {"autocast": "int8"}, "float16, bfloat16 or float32"),
        (SCALE, {"autocast": "float16", "torch_min": "2.6"}, r"from 2\.7 on"),
        (SCALE, {"torch_dispatch": True, "torch_min": "2.5"}, r"from 2\.6 on"),
        (SCALE, {"device_kernels": ("tpu",)}, "cpu, cuda or xpu"),
        (SCALE, {"device_kernels": ("cuda", "cuda")}, "twice"),
        (SCALE, {"device_kernels": ("cuda",), "kernel": "triton"}, "on every device"),
        (SCALE, {"device_kernels": ("cpu",), "kernel": "numpy"}, "the one for the CPU"),
        ("ns::f(Tensor? x, Tensor? y) -> Tensor", {"device_kernels": ("cuda",)}, "always given"),
    ],
)
def test_what_would_be_lost_is_refused_with_the_reason(
    schema: str, added: dict[str, Value], reason: str
) -> None:
    release = str(added.pop("torch_min", "2.13"))
    if schema.startswith("ns::f(Tensor? x"):
        added |= {"fake": "expression", "fake_shape": ("2",)}
    with pytest.raises(AnswerError, match=reason):
        build(answers(schema, release, **added))


def test_answers_make_the_same_additions_again() -> None:
    given = answers(
        SCALE, vmap=True, autocast="float16", torch_dispatch=True, device_kernels=("cuda", "cpu")
    )
    spec = build(given)
    assert spec.ops[0].additions == Additions(True, "float16", True, ("cuda", "cpu"))
    assert build(answers_of(spec)) == spec


def test_nothing_is_added_that_was_not_asked_for() -> None:
    files = preview(build(answers(SCALE)))
    text = "".join(files.values())
    for word in ("register_vmap", "each_of_batch", "register_autocast", "CallLog", "Batched"):
        assert word not in text
    assert "vmap" not in answers_of(build(answers(SCALE))).ops[0]


def test_a_family_gets_each_addition_where_its_ops_can_have_it() -> None:
    given = answers(SCALE, family=True, vmap=True, autocast="float16", torch_dispatch=True)
    module = preview(build(given))[Path("src/my_ops/ops/scale.py")]
    for name, served in (
        ("register_vmap", ["_functional", "_inplace"]),
        ("register_autocast", ["_functional"]),
        ("register_torch_dispatch", ["_functional", "_inplace", "_out"]),
    ):
        found = [v for v in ("_functional", "_inplace", "_out") if f"\n{v}.{name}(" in module]
        assert found == served


@pytest.mark.parametrize("way", ["custom_op", "library"])
def test_additions_go_by_the_way_ops_are_registered(way: str) -> None:
    given = answers(SCALE, vmap=True, device_kernels=("cuda",))
    told = Answers({**given.package, "registration": Given(way)}, given.ops)
    module = preview(build(told))[Path("src/my_ops/ops/scale.py")]
    assert ("_op.register_vmap(_op_vmap)" in module) is (way == "custom_op")
    assert ('register_vmap("ns::scale", _op_vmap, lib=_library)' in module) is (way == "library")
    assert ('@_op.register_kernel("cuda")' in module) is (way == "custom_op")
    assert ('@torch.library.impl(_library, "scale", "CUDA")' in module) is (way == "library")


@pytest.mark.torch
@pytest.mark.slow
def test_each_addition_is_seen_by_a_test_that_fails_without_it(tmp_path: Path) -> None:
    every = Additions(True, "bfloat16", True, ("cpu", "cuda"))
    functional = replace(op(SCALE), additions=every)
    inplace = replace(op(BUMP), additions=replace(every, autocast=""))
    made = write(package("added-ops", [functional, inplace]), tmp_path)
    chosen = "vmap or autocast or torch_dispatch or kernel"
    require(pytest_in(made, "-k", chosen))
    for name in ("scale", "bump_"):
        module = made / "src" / "added_ops" / "ops" / f"{name}.py"
        lines = module.read_text().splitlines(keepends=True)
        kept = [s for s in lines if not s.startswith(("_op.register_", "@_op.register_kernel"))]
        assert len(lines) - len(kept) == (7 if name == "scale" else 4)
        module.write_text("".join(kept))
    output = pytest_in(made, "-k", chosen, "-rf").stdout
    lines = [line for line in output.splitlines() if line.startswith("FAILED")]
    failed = {line.partition("::")[2].partition("[")[0].partition(" ")[0] for line in lines}
    assert failed == {
        *("test_vmap", "test_autocast", "test_torch_dispatch"),
        *("test_cpu_kernel_is_registered", "test_cuda_kernel_is_registered"),
    }


def test_every_addition_has_a_question() -> None:
    assert all(each.key in OP for each in ADDITIONS)
