from __future__ import annotations

import pytest
import torch
from torch import Tensor
from verifying import codes, observed, op_of

from opscaffold.findings.promises import COMPILE_FAILS, COMPILED_DIFFERS, RETURNED_ALIAS_LOST
from opscaffold.verify.checks.compiled import CHECK
from opscaffold.verify.sample import Sample

ROWS = torch.arange(6.0).reshape(2, 3)
SAMPLE = Sample((ROWS,), {}, "plain")


def test_a_functional_op_is_sound_on_all_layouts_and_dtypes(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor, scale: float = 2.0) -> Tensor:
        return x * scale

    f.register_fake(lambda x, scale=2.0: torch.empty_like(x))
    strided = torch.arange(12.0).reshape(2, 6)[:, ::2]
    samples = [
        SAMPLE,
        Sample((ROWS.bfloat16(), 3.0), {}, "half"),
        Sample((strided,), {"scale": 0.5}, "strided"),
        Sample((torch.empty(0, 3),), {}, "empty"),
        Sample((torch.tensor(2.0),), {}, "0-d"),
        Sample((ROWS[:1].expand(2, 3),), {}, "expanded"),
    ]
    assert observed(CHECK, op_of(f), *samples) == []


def test_an_undeclared_write_is_lost_where_the_result_is_unused(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(count: Tensor, step: float) -> Tensor:
        count.add_(step)
        return count * 2

    f.register_fake(lambda count, step: torch.empty_like(count))
    (code, message), *_ = observed(CHECK, op_of(f), Sample((ROWS, 1.0), {}, "plain"))
    assert code == COMPILED_DIFFERS.code
    assert "the argument count" in message


def test_a_return_over_the_bytes_of_an_argument_is_seen(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy())

    f.register_fake(lambda x: torch.empty_like(x))
    assert codes(CHECK, op_of(f), SAMPLE) == {COMPILED_DIFFERS.code}


def test_a_fake_kernel_that_is_missing_fails(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor) -> Tensor:
        return x * 2

    assert codes(CHECK, op_of(f), SAMPLE) == {COMPILE_FAILS.code}


@pytest.mark.parametrize("kind", ["inplace", "out"])
def test_the_lost_alias_of_a_tagged_return_is_a_limit(namespace: str, kind: str) -> None:
    if kind == "inplace":

        @torch.library.custom_op(f"{namespace}::f_", mutates_args={"x"}, tags=torch.Tag.inplace)
        def f(x: Tensor, scale: float = 2.0) -> Tensor:
            return x.mul_(scale)

        sample = SAMPLE
    else:

        @torch.library.custom_op(f"{namespace}::f_out", mutates_args={"out"}, tags=torch.Tag.out)
        def f(x: Tensor, *, out: Tensor) -> Tensor:
            return torch.mul(x, 2, out=out)

        sample = Sample((ROWS,), {"out": torch.zeros(2, 3)}, "plain")
    written = "x" if kind == "inplace" else "out"
    ((code, message),) = observed(CHECK, op_of(f), sample)
    assert code == RETURNED_ALIAS_LOST.code
    assert f"the argument {written}" in message


@pytest.mark.parametrize("kind", ["inplace", "out"])
def test_the_lost_alias_of_a_low_level_tagged_return_is_a_limit(
    namespace: str, library: torch.library.Library, kind: str
) -> None:
    if kind == "inplace":
        library.define("f_(Tensor(a!) x) -> Tensor(a!)", tags=(torch.Tag.inplace,))
        library.impl("f_", lambda x: x.mul_(2), "CompositeExplicitAutograd")
        found = codes(CHECK, op_of(getattr(torch.ops, namespace).f_.default), SAMPLE)
    else:
        library.define("f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=(torch.Tag.out,))
        library.impl("f.out", lambda x, *, out: torch.mul(x, 2, out=out), "CPU")
        sample = Sample((ROWS,), {"out": torch.zeros(2, 3)}, "plain")
        found = codes(CHECK, op_of(getattr(torch.ops, namespace).f.out), sample)
    assert found == {RETURNED_ALIAS_LOST.code}


def test_an_untagged_alias_cannot_be_compiled(
    namespace: str, library: torch.library.Library
) -> None:
    library.define("f_(Tensor(a!) x) -> Tensor(a!)")
    library.impl("f_", lambda x: x.mul_(2), "CompositeExplicitAutograd")
    ((code, message),) = observed(CHECK, op_of(getattr(torch.ops, namespace).f_.default), SAMPLE)
    assert code == COMPILE_FAILS.code
    assert "alias" in message


@pytest.mark.parametrize("declared", [True, False])
def test_a_write_to_a_list_must_be_declared(namespace: str, declared: bool) -> None:
    mutated = {"xs"} if declared else set()

    @torch.library.custom_op(f"{namespace}::f", mutates_args=mutated)
    def f(xs: list[Tensor], step: float) -> None:
        for x in xs:
            x.add_(step)

    f.register_fake(lambda xs, step: None)
    found = observed(CHECK, op_of(f), Sample(([ROWS, ROWS + 1], 1.0), {}, "plain"))
    assert bool(found) is not declared
    assert all("the argument xs[" in message for _, message in found)


@pytest.mark.parametrize(
    "kind", ["mutable", "optional", "random", "untagged", "sizes", "number", "shared"]
)
def test_sound_ops_of_unusual_forms_are_sound(namespace: str, kind: str) -> None:
    name = f"{namespace}::f"
    sample = SAMPLE
    if kind == "mutable":

        @torch.library.custom_op(name, mutates_args={"x", "seen"})
        def f(x: Tensor, seen: Tensor, ys: list[Tensor]) -> Tensor:
            seen += 1
            x += ys[0]
            return x * 2

        f.register_fake(lambda x, seen, ys: torch.empty_like(x))
        sample = Sample((ROWS, torch.zeros(1), [ROWS, ROWS]), {}, "plain")
    elif kind == "optional":

        @torch.library.custom_op(name, mutates_args={"seen"})
        def f(x: Tensor, seen: Tensor | None = None) -> None:
            if seen is not None:
                seen.add_(x.sum())

        sample = Sample((ROWS,), {"seen": torch.zeros(1)}, "plain")
    elif kind in ("random", "untagged"):
        tags = [torch.Tag.nondeterministic_seeded] if kind == "random" else []

        @torch.library.custom_op(name, mutates_args=(), tags=tags)
        def f(x: Tensor) -> Tensor:
            return x + torch.rand_like(x)

        f.register_fake(lambda x: torch.empty_like(x))
    elif kind == "sizes":

        @torch.library.custom_op(name, mutates_args=())
        def f(x: Tensor) -> Tensor:
            return x[x > 2].clone()

        f.register_fake(lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size()))
    elif kind == "number":

        @torch.library.custom_op(name, mutates_args=())
        def f(x: Tensor) -> int:
            return int(x.sum())

        f.register_fake(lambda x: torch.library.get_ctx().new_dynamic_size())
    else:

        @torch.library.custom_op(name, mutates_args=())
        def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return x + y, x > y

        f.register_fake(lambda x, y: (torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)))
        sample = Sample((ROWS, ROWS), {}, "the same tensor twice")
    assert observed(CHECK, op_of(f), sample) == []


def test_a_written_buffer_that_overlaps_with_what_is_read_shows_nothing(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args={"y"})
    def f(x: Tensor, y: Tensor) -> None:
        y.copy_(x + 1)

    memory = torch.arange(8.0)
    assert observed(CHECK, op_of(f), Sample((memory[:4], memory[2:6]), {}, "overlap")) == []


def test_a_generator_is_compiled_for_no_op(namespace: str) -> None:
    @torch.library.custom_op(f"{namespace}::f", mutates_args=())
    def f(x: Tensor, generator: torch.Generator) -> Tensor:
        return torch.rand(x.shape, generator=generator)

    f.register_fake(lambda x, generator: torch.empty_like(x))
    sample = Sample((torch.ones(3), torch.Generator()), {}, "plain")
    assert codes(CHECK, op_of(f), sample) == {"OPS787"}
