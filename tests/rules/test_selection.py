from __future__ import annotations

import pytest

from opscaffold.config.model import Config
from opscaffold.findings.promises import PROMISES
from opscaffold.rules.ignores import Ignore, read_ignores
from opscaffold.rules.selection import (
    Layer,
    UnknownSelectorError,
    chosen,
    chosen_for,
    coded,
    everything,
    find,
)

CODES = {rule.code for rule in everything()}
SHOWN = {promise.code for promise in PROMISES}


def layer(select: str | None = None, ignore: str = "") -> Layer:
    chosen_words = None if select is None else tuple(select.split())
    return Layer(chosen_words, tuple(ignore.split()), ("--select", "--ignore"))


def test_codes_and_names_are_unique_among_everything() -> None:
    names = [each.name for each in coded()]
    assert len(CODES | SHOWN) == len(coded())
    assert len(set(names)) == len(names)
    assert not (CODES | SHOWN) & {name.upper() for name in names}


@pytest.mark.parametrize(
    ("layers", "inside", "outside"),
    [
        ([], {"OPS001", "OPS101"}, set()),
        ([layer("OPS1")], {"OPS101", "OPS102"}, {"OPS001"}),
        ([layer("OPS1", "OPS101")], {"OPS102"}, {"OPS101"}),
        ([layer("OPS101", "OPS1")], {"OPS101"}, {"OPS102"}),
        ([layer("OPS101", "OPS101")], set(), {"OPS101"}),
        ([layer("OPS101", "ALL")], {"OPS101"}, {"OPS001"}),
        ([layer(ignore="OPS101")], {"OPS102"}, {"OPS101"}),
        ([layer("OPS0"), layer(ignore="OPS001")], {"OPS002"}, {"OPS001", "OPS101"}),
        ([layer(ignore="OPS101"), layer("maybe-out")], {"OPS101"}, {"OPS001"}),
        ([layer(""), layer()], set(), CODES),
    ],
)
def test_layers(layers: list[Layer], inside: set[str], outside: set[str]) -> None:
    codes = chosen(layers)
    assert inside <= codes <= CODES
    assert not outside & codes


@pytest.mark.parametrize(
    ("config", "rules", "promises"),
    [
        (Config(), CODES, SHOWN),
        (Config(select=("OPS101",)), {"OPS101"}, SHOWN),
        (Config(select=("OPS702",)), CODES, {"OPS702"}),
        (Config(select=("OPS101", "opcheck-fails")), {"OPS101"}, {"OPS701"}),
        (Config(select=("ALL",), ignore=("OPS7", "OPS1")), {"OPS001"}, set()),
    ],
)
def test_a_configuration_says_nothing_to_the_command_that_it_does_not_name(
    config: Config, rules: set[str], promises: set[str]
) -> None:
    assert rules <= chosen_for(config, None, ()) <= CODES
    assert chosen_for(config, None, (), PROMISES) == promises
    if config.select == ("OPS101",):
        assert chosen_for(config, None, ()) == rules


def test_a_command_refuses_what_another_one_reports() -> None:
    with pytest.raises(UnknownSelectorError, match=r"--select: OPS702 .*verify"):
        chosen_for(Config(), ["OPS101", "OPS702"], ())
    with pytest.raises(UnknownSelectorError, match=r"--ignore: maybe-out .*check"):
        chosen_for(Config(), None, ["maybe-out"], PROMISES)
    with pytest.raises(UnknownSelectorError, match="--select: there is no rule 'OPS79x'"):
        chosen_for(Config(), ["OPS79x"], (), PROMISES)


@pytest.mark.parametrize("word", ["OPS9", "maybe", "", "OPS1011", "X"])
def test_what_stands_for_nothing_is_refused(word: str) -> None:
    with pytest.raises(UnknownSelectorError, match="there is no rule"):
        find(word)


def read(text: str) -> list[tuple[tuple[str, ...], int, int]]:
    return [(i.words, i.first, i.last) for i in read_ignores(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1  # opscaffold: ignore[A,B C]\n", [(("A", "B", "C"), 1, 1)]),
        ("x = [\n  1,  # opscaffold: ignore[A]\n]\n", [(("A",), 1, 3)]),
        ("# opscaffold: ignore[A]\nx = 1\n", [(("A",), 1, 1)]),
        ("def f(\n  x,\n):  # opscaffold: ignore[A]\n    pass\n", [(("A",), 1, 3)]),
        ("@d  # opscaffold: ignore[A]\ndef f(): pass\n", [(("A",), 1, 1)]),
        ("x = 1  # opscaffold: ignore[A]", [(("A",), 1, 1)]),
        ("if x:\r\n    y = 2  # opscaffold: ignore[A]\r\n", [(("A",), 2, 2)]),
        ("x = 1\ry = 2  # opscaffold: ignore[A]\r", [(("A",), 2, 2)]),
        ("x = '''\n'''  # opscaffold: ignore[A]\n", [(("A",), 1, 2)]),
        ("x = 1 # opscaffold: ignore [A] # opscaffold: ignore\n", [(("A",), 1, 1)]),
        ("x = '# opscaffold: ignore[A]'\n", []),
        ("x = 1  # opscaffold: ignore-all[A]\n", []),
        ("x = 1  # opscaffold: ignore[A]\ny = (\n", [(("A",), 1, 1)]),
        ("x = 1  # opscaffold: ignore[A\n", [((), 1, 1)]),
    ],
)
def test_comments(text: str, expected: list[tuple[tuple[str, ...], int, int]]) -> None:
    assert read(text) == expected


def test_a_comment_knows_where_it_stands() -> None:
    assert read_ignores("é = 1  # opscaffold: ignore[A]\n") == [Ignore(1, 8, ("A",), 1, 1)]
