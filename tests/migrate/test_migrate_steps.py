"""How steps are grouped for writing: one repair with its prose, in an order that fits."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from opscaffold.migrate.call_sites import Moved
from opscaffold.migrate.plan import OpPlan
from opscaffold.migrate.steps import Step, units, unpaired_prose

FILES = [Path(name) for name in ("a", "b", "c")]


def made(*spec: tuple[str, str, bool]) -> list[Step]:
    """Steps as (op, files, prose), each file going from one number to the next."""
    state = dict.fromkeys(FILES, 0)
    steps = []
    for op, names, prose in spec:
        changes = {}
        for name in names:
            path = Path(name)
            old = state[path]
            state[path] = old + 1
            changes[path] = (b"%d" % old, b"%d" % (old + 1))
        steps.append(Step(OpPlan(op, "split"), changes, prose=prose))
    return steps


def names(steps: list[Step]) -> list[str]:
    return [unit.name for unit in units(steps)]


def test_each_repair_is_a_unit_of_its_own() -> None:
    steps = made(("n::x", "ab", False), ("n::y", "bc", False), ("n::z", "a", False))
    assert sorted(names(steps)) == ["n::x", "n::y", "n::z"]
    assert names(steps)[0] == "n::x"


def test_prose_goes_with_its_repair() -> None:
    steps = made(("n::x", "a", True), ("n::y", "b", True), ("n::x", "c", False))
    steps += made(("n::y", "", False))
    found = units(steps)
    assert sorted(unit.name for unit in found) == ["n::x", "n::y"]
    both = next(unit for unit in found if unit.name == "n::x")
    assert set(both.changes) == {Path("a"), Path("c")}


def test_repairs_that_interlock_are_written_together() -> None:
    steps = made(
        ("n::x", "a", True), ("n::y", "a", True), ("n::x", "a", False), ("n::y", "a", False)
    )
    (unit,) = units(steps)
    assert unit.name == "n::x, n::y"
    assert unit.changes == {Path("a"): (b"0", b"4")}


def test_prose_without_its_repair_is_found() -> None:
    steps = made(("n::x", "a", True), ("n::y", "b", False))
    assert unpaired_prose(steps) is steps[0]
    assert unpaired_prose([*steps, *made(("n::x", "c", False))]) is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["n::x", "n::y", "n::z"]),
        st.lists(st.sampled_from("abc"), unique=True).map("".join),
        st.booleans(),
    ),
    max_size=8,
)


@given(STEPS)
def test_units_lead_from_the_first_bytes_to_the_last(spec: list[tuple[str, str, bool]]) -> None:
    steps = made(*spec)
    state = dict.fromkeys(FILES, b"0")
    seen = []
    for unit in units(steps):
        for path, (old, new) in unit.changes.items():
            assert state[path] == old
            state[path] = new
        seen += [id(step) for step in unit.steps]
    for step in steps:
        for path, (_, new) in step.changes.items():
            assert int(new) <= int(state[path])
    assert sorted(seen) == sorted(map(id, steps))


LINES = st.lists(st.sampled_from("pqrs"), max_size=10)


@given(LINES, LINES)
def test_a_line_that_stays_is_found_where_it_went(old: list[str], new: list[str]) -> None:
    moved = Moved(old, new)
    for number in range(len(old)):
        begin, end = moved.span(number, number + 1)
        assert 0 <= begin <= end <= len(new)
    assert Moved(old, old).span(0, len(old)) == (0, len(old))
    extended = Moved(old, ["new", *old])
    assert all(extended.line(n) == n + 1 for n in range(1, len(old) + 1))
