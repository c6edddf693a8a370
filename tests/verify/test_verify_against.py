from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from verifying import op_of

from opscaffold.verify.against import (
    Record,
    compare_functions,
    compare_op,
    record_functions,
    record_op,
)
from opscaffold.verify.op import Op
from opscaffold.verify.sample import Sample

X = torch.arange(6.0).reshape(2, 3)
FRESH = Sample((X, None), {}, "fresh")
GIVEN = Sample((X, torch.zeros(2, 3)), {}, "given")
Kernel = Callable[..., Any]


def define(name: str, kernel: Kernel, mutates: set[str] | None = None, **options: Any) -> Op:
    return op_of(torch.library.custom_op(name, kernel, mutates_args=mutates or (), **options))


def old_maybe_out(namespace: str) -> Op:
    def f(x: Tensor, out: Tensor | None = None) -> Tensor:
        if out is None:
            out = torch.empty_like(x)
        out.copy_(x * 2)
        return out

    return define(f"{namespace}::f", f, {"out"})


def fresh(x: Tensor) -> Tensor:
    return x * 2


def into(x: Tensor, *, out: Tensor) -> Tensor:
    return out.copy_(x * 2)


def differences(old: Op, samples: list[Sample], make: Callable[[], list[Op]]) -> list[str]:
    recorded = record_op(old, samples)
    assert len(recorded.calls) == len(samples)
    new = {op.qualname: op for op in make()}
    return [observation.message for _, observation in compare_op(recorded, new)]


def test_a_right_split_agrees_also_where_the_old_op_raised_after_writing(namespace: str) -> None:
    def make() -> list[Op]:
        out = define(f"{namespace}::f_out", into, {"out"}, tags=torch.Tag.out)
        return [define(f"{namespace}::f", fresh), out]

    assert differences(old_maybe_out(namespace), [FRESH, GIVEN], make) == []


def test_a_call_with_gradients_is_compared_without_them(namespace: str) -> None:
    def make() -> list[Op]:
        return [define(f"{namespace}::f_out", into, {"out"}, tags=torch.Tag.out)]

    args = (X.clone().requires_grad_(), torch.zeros(2, 3))
    assert (
        differences(old_maybe_out(namespace), [Sample(args, {}, "g", grad_mode=True)], make) == []
    )


def test_a_wrong_fresh_form_is_told(namespace: str) -> None:
    def wrong(x: Tensor) -> Tensor:
        return x * 3

    found = differences(
        old_maybe_out(namespace), [FRESH], lambda: [define(f"{namespace}::f", wrong)]
    )
    told = "is not what the old op returned: element 1 is 3.0, and was 2.0"
    assert found == [f"the return of {namespace}::f {told}"]


def test_a_buffer_that_is_not_written_is_told(namespace: str) -> None:
    def nothing(x: Tensor, *, out: Tensor) -> Tensor:
        return out

    def make() -> list[Op]:
        return [define(f"{namespace}::f_out", nothing, {"out"}, tags=torch.Tag.out)]

    left, returned = differences(old_maybe_out(namespace), [GIVEN], make)
    told = "element 1 is 0.0, and was 2.0"
    assert left == f"{namespace}::f_out leaves the argument out other than the old op did: {told}"
    assert returned == f"the return of {namespace}::f_out is not what the old op returned: {told}"


def test_a_form_that_got_lost_is_told(namespace: str) -> None:
    found = differences(
        old_maybe_out(namespace), [FRESH, GIVEN], lambda: [define(f"{namespace}::f", fresh)]
    )
    assert found == [f"no op takes this call of the old {namespace}::f ({namespace}::f)"]


def test_an_untagged_half_that_returns_nothing_answers_for_a_buffer(namespace: str) -> None:
    def quietly(x: Tensor, out: Tensor) -> None:
        out.copy_(x * 2)

    def make() -> list[Op]:
        return [define(f"{namespace}::f_out", quietly, {"out"})]

    assert differences(old_maybe_out(namespace), [GIVEN], make) == []


def test_a_half_that_returns_nothing_does_not_answer_for_a_result(namespace: str) -> None:
    def old(x: Tensor, out: Tensor) -> Tensor:
        out.copy_(x * 2)
        return x.sum(0)

    def quietly(x: Tensor, out: Tensor) -> None:
        out.copy_(x * 2)

    def make() -> list[Op]:
        return [define(f"{namespace}::f", quietly, {"out"})]

    recorded = define(f"{namespace}::f", old, {"out"})
    (message,) = differences(recorded, [GIVEN], make)
    assert message == f"{namespace}::f returns 0 values, and the old op 1, of which 1 are new"


def test_a_flag_chooses_between_two_halves(namespace: str) -> None:
    def old(x: Tensor, inplace: bool = False) -> Tensor:
        return x.mul_(2) if inplace else x * 2

    def within(x: Tensor) -> Tensor:
        return x.mul_(2)

    def make() -> list[Op]:
        inplace = define(f"{namespace}::f_", within, {"x"}, tags=torch.Tag.inplace)
        return [define(f"{namespace}::f", fresh), inplace]

    samples = [Sample((X, flag), {}, str(flag)) for flag in (True, False)]
    assert differences(define(f"{namespace}::f", old, {"x"}), samples, make) == []


def test_an_argument_that_was_written_must_be_written_still(namespace: str) -> None:
    def old(x: Tensor, count: Tensor) -> Tensor:
        count.add_(1)
        return x * 2

    def less(x: Tensor, count: Tensor) -> Tensor:
        return x * 2

    recorded = define(f"{namespace}::f", old, {"count"})
    sample = Sample((X, torch.zeros(1)), {}, "one")
    (message,) = differences(recorded, [sample], lambda: [define(f"{namespace}::f", less)])
    told = "other than the old op did: element 0 is 0.0, and was 1.0"
    assert message == f"{namespace}::f leaves the argument count {told}"


def test_a_record_is_read_as_it_was_written(namespace: str, tmp_path: Path) -> None:
    kept = Record({f"{namespace}::f": record_op(old_maybe_out(namespace), [FRESH])}, {"g": [[X]]})
    kept.save(tmp_path / "record")
    again = Record.load(tmp_path / "record")
    assert again.ops[f"{namespace}::f"].contract == kept.ops[f"{namespace}::f"].contract
    assert torch.equal(again.functions["g"][0][0], X)


def test_functions_that_call_the_ops_must_agree() -> None:
    def raising() -> None:
        raise ValueError("no")

    before = record_functions({"a": lambda: {"y": X}, "b": lambda: X, "c": raising, "d": lambda: 1})
    assert before.keys() == {"a", "b", "d"}
    after = {"a": lambda: {"y": X.clone()}, "b": lambda: X + 1, "d": raising}
    assert [*compare_functions(before, after)] == [
        ("b", "b returns something else than before"),
        ("d", "d raises where it did not: ValueError: no"),
    ]
    assert [*compare_functions({"a": [1]}, {})] == [("a", "a is there no more")]


def test_a_function_may_keep_what_it_did_about_the_alias_check_or_get_rid_of_it(
    namespace: str,
) -> None:
    op = old_maybe_out(namespace)

    def calls() -> str:
        try:
            op.overload(X, torch.zeros(2, 3))
        except RuntimeError:
            return "raised"
        return "passed"

    before = record_functions({"a": calls})
    assert before == {"a": ["passed", "raised"]}
    for now, told in (("passed", 0), ("raised", 0), ("other", 1)):
        assert len([*compare_functions(before, {"a": lambda now=now: now})]) == told


def test_compiled_programs_are_not_compared() -> None:
    compiled = torch.compile(lambda x: torch.compiler.is_compiling(), backend="eager")
    assert record_functions({"a": lambda: compiled(X)}) == {"a": [False, False]}
