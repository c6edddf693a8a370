"""Data classes that are made late behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from opscaffold import records

KINDS = [
    pytest.param({"frozen": frozen, "slots": slots, "eq": eq}, id=f"{frozen}-{slots}-{eq}")
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
]


def pair(kind: dict[str, bool]) -> list[Any]:
    """The same class, made by either decorator."""
    made = []
    for decorator in (dataclass, records.dataclass):

        class Point:
            """A point."""

            x: int
            y: int = 2
            tags: list[str] = field(default_factory=list)
            note: str = field(default="", compare=False)

            @property
            def total(self) -> int:
                return self.x + self.y

        made.append(decorator(**kind)(Point))
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_instances_show_the_same(kind: dict[str, bool]) -> None:
    standard, ours = pair(kind)
    for arguments, named in [((1,), {}), ((1, 5), {"note": "n"}), ((), {"x": 3, "tags": ["t"]})]:
        one, other = standard(*arguments, **named), ours(*arguments, **named)
        assert repr(one) == repr(other)
        assert (one.x, one.y, one.tags, one.note, one.total) == (
            *(other.x, other.y, other.tags),
            *(other.note, other.total),
        )
    assert ours.__match_args__ == standard.__match_args__
    assert ours.__qualname__ == standard.__qualname__
    assert hasattr(ours(1), "__dict__") == hasattr(standard(1), "__dict__")
    assert getattr(ours, "__slots__", None) == getattr(standard, "__slots__", None)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_arguments_are_refused(kind: dict[str, bool]) -> None:
    for each in pair(kind):
        for arguments, named in [((), {}), ((1, 2, [], "", 5), {}), ((1,), {"z": 1})]:
            for _ in range(2):
                with pytest.raises(TypeError):
                    each(*arguments, **named)


@pytest.mark.parametrize("kind", KINDS)
def test_instances_compare_and_hash_the_same(kind: dict[str, bool]) -> None:
    for each in pair(kind):
        one, same, other = each(1, note="a"), each(1, note="b"), each(2)
        assert (one == same) is kind["eq"]
        assert one != other
        assert one != (1, 2, [], "a")
        assert (each.__hash__ is None) is (kind["eq"] and not kind["frozen"])


def test_hashes_follow_what_is_compared() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Key:
        name: str
        place: int = field(default=0, compare=False)

    assert hash(Key("a", 1)) == hash(Key("a", 2))
    assert len({Key("a", 1), Key("a", 2), Key("b")}) == 2
    assert Key(float("nan")) != Key(float("nan"))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_means_frozen(kind: dict[str, bool]) -> None:
    for each in pair(kind):
        one = each(1)
        if kind["frozen"]:
            with pytest.raises(FrozenInstanceError):
                one.x = 2
            with pytest.raises(FrozenInstanceError):
                del one.x
        else:
            one.x = 2
            assert one.x == 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_standard_functions_take_them(kind: dict[str, bool]) -> None:
    standard, ours = pair(kind)
    assert is_dataclass(ours)
    assert [f.name for f in fields(ours)] == [f.name for f in fields(standard)]
    changed = replace(ours(1, note="n"), y=7)
    assert (type(changed), changed.x, changed.y, changed.note) == (ours, 1, 7, "n")
    assert dataclasses.asdict(changed) == dataclasses.asdict(standard(1, 7, note="n"))
    match changed:
        case ours(x, y, note="n"):
            assert (x, y) == (1, 7)
        case _:
            pytest.fail("no match")
    assert copy.copy(changed).y == 7
    assert copy.deepcopy(changed).y == 7


def test_defaults_are_made_anew_for_each_instance() -> None:
    for each in pair({"slots": True}):
        one, other = each(1), each(1)
        one.tags.append("t")
        assert other.tags == []


@records.dataclass(frozen=True, slots=True)
class Base:
    x: int
    y: int = 1


@records.dataclass(frozen=True, slots=True)
class Derived(Base):
    z: int = 3

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Derived) and self.z == other.z

    def __hash__(self) -> int:
        return self.z


def test_classes_derive_from_one_another() -> None:
    assert repr(Derived(5)) == "Derived(x=5, y=1, z=3)"
    assert Derived.__slots__ == ("z",)
    assert not hasattr(Derived(5), "__dict__")
    assert Derived(1, z=4) == Derived(2, z=4)
    assert hash(Derived(1, z=4)) == 4
    assert replace(Derived(1), x=2).x == 2
    with pytest.raises(FrozenInstanceError):
        Derived(1).x = 2  # type: ignore[misc]


def test_pickling_keeps_them() -> None:
    assert pickle.loads(pickle.dumps(Derived(1, 2, 4))) == Derived(1, 2, 4)
    assert pickle.loads(pickle.dumps(Base(1, 2))) == Base(1, 2)


def test_a_standard_data_class_may_derive_from_one() -> None:
    @dataclass(frozen=True)
    class Further(Base):
        z: int = 9

    assert repr(Further(1)).endswith("Further(x=1, y=1, z=9)")
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):

        @dataclass
        class Thawed(Base):
            z: int = 9


def test_what_is_seldom_wanted_is_left_to_the_standard_library() -> None:
    @records.dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        x: int

    @records.dataclass
    class Checked:
        x: int
        double: int = field(init=False)

        def __post_init__(self) -> None:
            self.double = 2 * self.x

    assert Ordered(1) < Ordered(2)
    assert Checked(2).double == 4


def test_mutable_defaults_are_refused() -> None:
    with pytest.raises((TypeError, ValueError)):

        @records.dataclass
        class Shared:
            x: list[int] = []  # noqa: RUF012
