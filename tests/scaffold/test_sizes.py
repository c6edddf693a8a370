"""Sizes are found for every shape that tensors can have."""

from __future__ import annotations

import pytest

from opscaffold.scaffold.sizes import (
    MAX_ELEMENTS,
    NoSizesError,
    elements,
    evaluate,
    find_size,
    minimal_rank,
)


@pytest.mark.parametrize(
    ("expressions", "shape", "numbers", "expected"),
    [
        (("x.shape[0]", "x.shape[-1] * 2"), (2, 3), {}, (2, 6)),
        (("n", "x.ndim"), (2, 3), {"n": 7}, (7, 2)),
        (("x.numel() // 4 % 5 + 1",), (2, 3), {}, (2,)),
        (("-x.shape[0] + 5",), (2,), {}, (3,)),
        ((), (2, 3), {}, ()),
        (("x.shape[1]",), (2,), {}, None),
        (("4 // x.shape[0]",), (0,), {}, None),
        (("x.shape[0] - 3",), (2,), {}, None),
    ],
)
def test_an_expression_is_worth_what_python_says(
    expressions: tuple[str, ...],
    shape: tuple[int, ...],
    numbers: dict[str, int],
    expected: tuple[int, ...] | None,
) -> None:
    assert evaluate(expressions, shape, numbers) == expected


@pytest.mark.parametrize(
    "expressions",
    [
        ("x.shape[0]",),
        ("x.shape[2] - 3",),
        ("x.shape[0] // 8", "x.shape[1] // 16"),
        ("x.shape[-3] - 100",),
        ("x.shape[0] * x.shape[1] - 200",),
        ("x.ndim - 2",),
        ("x.shape[20]",),
        ("3",),
        (),
    ],
)
def test_a_size_is_found_that_gives_elements(expressions: tuple[str, ...]) -> None:
    size = find_size(expressions, {})
    assert len(size) >= minimal_rank(expressions)
    result = evaluate(expressions, size, {})
    assert result is not None
    assert 0 not in result
    assert elements(size) <= MAX_ELEMENTS


def test_where_there_is_no_size_it_is_said() -> None:
    with pytest.raises(NoSizesError, match="no sizes were found"):
        find_size(("x.shape[0] - x.shape[0]",), {})
