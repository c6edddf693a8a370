"""The cells cover what they promise, and each is an op that `new` would make."""

from __future__ import annotations

import itertools

import pytest

from opscaffold.contract.decision import OUTCOMES
from opscaffold.contract.model import Kind
from opscaffold.scaffold.answers import answers_of, build
from opscaffold.scaffold.matrix import (
    UNTAGGED,
    covering,
    everything,
    features,
    groups,
    leaves,
    matrix,
)
from opscaffold.scaffold.matrix_ops import grid
from opscaffold.scaffold.spec import Registration

COVERING, EVERYTHING, LEAVES = covering(), everything(), leaves()


def test_each_end_of_the_decision_tree_is_a_leaf() -> None:
    ends = [outcome.kind for outcome in OUTCOMES.values() if outcome.kind is not None]
    assert [cell.op.contract.kind for cell in LEAVES] == ends
    assert len(ends) == len(Kind)


def test_the_grid_holds_every_combination() -> None:
    ops = [*grid()]
    kinds = [o.contract.kind for o in ops]
    assert all(kinds.count(kind) >= 6 for kind in Kind)
    assert len({o.contract.name for o in ops}) == len(ops) >= 40
    assert sum(o.family for o in ops) >= 12
    modes = {(o.contract.kind, o.fake.mode) for o in ops}
    assert len({mode for kind, mode in modes if kind is Kind.FUNCTIONAL}) == 4


def test_any_two_answers_that_can_meet_do_meet_in_the_covering_choice() -> None:
    met = {pair for cell in COVERING for pair in features(cell)}
    pairs = {
        ("kind=family", "torch=2.12"),
        ("kind=out", "sizes=expression"),
        ("kind=functional", "sizes=dynamic"),
        ("kind=mutable", "returns=2"),
        ("tensors=3", "autograd=yes"),
        ("kind=functional", "registration=library"),
        ("kind=family", "registration=library"),
        ("autograd=no", "registration=library"),
        ("torch=2.12", "registration=library"),
        ("argument", "Tensor[]", "written"),
        ("argument", "Tensor?[]"),
        ("argument", "ScalarType?", "default"),
        ("return", "Tensor[]"),
    }
    assert pairs <= met
    chance = {cell.op.contract.name for cell in EVERYTHING[-60:]}
    for cell in EVERYTHING:
        if cell.op.contract.name not in chance:
            assert {*features(cell)} <= met, cell.name


def test_the_covering_choice_holds_none_that_adds_nothing() -> None:
    earlier: set[tuple[str, ...]] = set()
    for cell in COVERING:
        assert not {*features(cell)} <= earlier
        earlier |= {*features(cell)}
    assert len(COVERING) < 40


def test_everything_holds_the_others_and_names_tell_cells_apart() -> None:
    names = [cell.name for cell in EVERYTHING]
    assert len({*names}) == len(names)
    assert {cell.name for cell in (*LEAVES, *COVERING)} <= {*names}


@pytest.mark.parametrize("full", [False, True])
def test_each_package_is_one_that_new_accepts(full: bool) -> None:
    for group in matrix(full=full):
        assert build(answers_of(group.spec)).name == group.name
        assert {cell.torch_min for cell in group.cells} == {group.spec.torch_min}


def test_packages_are_of_like_size_and_hold_one_release_and_registration_each() -> None:
    made = groups("cells", COVERING, most=4)
    for group in made:
        assert {c.registration for c in group.cells} == {group.spec.registration}
    assert sorted(c.name for g in made for c in g.cells) == sorted(c.name for c in COVERING)
    assert len({g.name for g in made}) == len(made)
    for alike in itertools.product((UNTAGGED, (2, 13)), Registration):
        specs = [g.spec for g in made]
        sizes = [len(s.ops) for s in specs if (s.torch_min, s.registration) == alike]
        assert max(sizes) <= 4
        assert max(sizes) - min(sizes) <= 1
