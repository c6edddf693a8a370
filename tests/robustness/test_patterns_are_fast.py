"""No regular expression of the package takes the square of what a stranger's file holds."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacks import attacks, patterns, seconds, ways

from opscaffold.contract.releases import parse_version
from opscaffold.fs.text import SourceText
from opscaffold.migrate.declaring import _marks
from opscaffold.migrate.docstrings import _entry
from opscaffold.migrate.documents import _FENCE
from opscaffold.source.holes import known_parts, may_be
from opscaffold.source.load import Problem, parse_module
from opscaffold.source.notebooks import _python
from opscaffold.source.torch_ops import only_called, reads_ops

SIZE = 1_000
# Linear ones take a hundredth of that, and squares more.
LIMIT = 0.0015
# The length of what they read is limited where they are used: see below.
LIMITED = ("opscaffold.source.load._NEWER_LINES", "opscaffold.contract.releases._VERSION")
# A file's name in what a tool said, which is no stranger's; a parameter's name, which is a word.
OURS = ("opscaffold.cli.template_tools._FILE", "opscaffold.rules.descriptions.")
# Handed to a function that matches names with it.
MATCHED = {"opscaffold.rules.unknown_registrar._LIKELY": {"match"}}
MEGABYTE = 1_000_000


# Without a quiet machine only what is far off shows: at this size a square takes ten times as long.
LARGER = 6_000
FAR_OFF = 0.08


class TooLongError(Exception):
    """An expression that was stopped at its work."""


def is_far_off(pattern: re.Pattern[Any], way: str, text: Any) -> bool:
    def stop(number: int, frame: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    # Some take as good as for ever. Expressions look for signals while they work.
    signal.setitimer(signal.ITIMER_VIRTUAL, FAR_OFF * 5)
    try:
        return seconds(pattern, way, text) >= FAR_OFF
    except TooLongError:
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


needs_timer = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer to stop by")


@needs_timer
def test_no_expression_is_far_from_taking_time_in_proportion_to_the_text() -> None:
    found = [(name, pattern) for name, pattern in patterns() if not name.startswith(LIMITED + OURS)]
    assert len(found) > 40
    slow = [
        (name, way, text[:20] + text[-20:])
        for name, pattern in found
        for way in MATCHED.get(name) or ways(name)
        for text in attacks(pattern, LARGER)
        if is_far_off(pattern, way, text) and is_far_off(pattern, way, text)
    ]
    assert slow == []


@needs_timer
@pytest.mark.parametrize(
    ("bad", "way"),
    [(r"\s*x?\s*\Z", "match"), (r"\w+\w+\Z", "match"), (r"(a+)+\Z", "match"), (r"a\w*b", "search")],
)
def test_a_bad_expression_is_far_off(bad: str, way: str) -> None:
    pattern = re.compile(bad)
    assert any(is_far_off(pattern, way, text) for text in attacks(pattern, LARGER))


@pytest.mark.timed
def test_expressions_take_time_in_proportion_to_the_text() -> None:
    slow = []
    for name, pattern in patterns():
        if name.startswith((*LIMITED, *OURS)):
            continue
        for text in attacks(pattern, SIZE):
            for way in MATCHED.get(name) or ways(name):
                took = min(seconds(pattern, way, text), LIMIT)
                if took == LIMIT:
                    # The machine may be busy: the least of some tries counts.
                    took = min(seconds(pattern, way, text) for _ in range(3))
                if took >= LIMIT:
                    slow.append((name, way, text[:20] + text[-20:]))
                    break
            else:
                continue
            break
    assert slow == [], slow


@pytest.mark.timed
@pytest.mark.parametrize(
    ("square", "way"), [(r"\s*x?\s*\Z", "match"), (r"\w+\w+\Z", "match"), (r"a\w*b", "search")]
)
def test_a_square_would_be_noticed(square: str, way: str) -> None:
    pattern = re.compile(square)
    assert any(seconds(pattern, way, text) >= LIMIT for text in attacks(pattern, SIZE))


def parse(text: str) -> object:
    return parse_module(Path("m.py"), "m", SourceText(text, "utf-8"))


def refused(version: str) -> None:
    with pytest.raises(ValueError, match="no torch version"):
        parse_version(version)


ADVERSE: dict[str, Callable[[], object]] = {
    "an assignment in a notebook": lambda: _python(" " * MEGABYTE),
    "a fence of tildes": lambda: _FENCE.match("~" * MEGABYTE + "`"),
    "a fence and a word": lambda: _FENCE.match("~~~" + "a" * MEGABYTE + "`"),
    "a subscript that is an error": lambda: parse(")" + "a[" * (MEGABYTE // 2)),
    "a type that is an error": lambda: parse("type x" + " " * MEGABYTE + "?"),
    # Python 3.13 itself takes the square of their number, some ten seconds for a megabyte.
    "braces in an f-string": lambda: parse("f'" + "{" * (MEGABYTE // 5)),
    "a version": lambda: refused("1.1+" + " " * MEGABYTE + "\n!"),
    "marks of a schema": lambda: _marks(["Tensor(" * (MEGABYTE // 7)]),
    "words on one line": lambda: reads_ops(b"ops " * (MEGABYTE // 4)),
    "names on one line": lambda: only_called(b"from a" + b".ops" * (MEGABYTE // 4)),
    "a field of a docstring": lambda: _entry([":param" + " " * MEGABYTE], "x"),
    "an entry of a docstring": lambda: _entry(["x" + " " * MEGABYTE], "x"),
    "a name all holes": lambda: may_be(
        known_parts("a::" + "{x}_" * 40), "a::" + "_" * 300 + "-", word=True
    ),
    "a name with a hole that never ends": lambda: known_parts("{" * MEGABYTE),
}  # fmt: skip


@pytest.mark.parametrize("what", ADVERSE)
def test_a_megabyte_that_is_made_to_be_slow_is_not(what: str) -> None:
    started = time.process_time()
    ADVERSE[what]()
    assert time.process_time() - started < 3


@pytest.mark.parametrize("word", [True, False])
def test_a_name_with_holes_is_what_the_expression_for_it_says(word: bool) -> None:
    draw = random.Random(7)
    hole = r"\w+" if word else ".+"
    for _ in range(3_000):
        text = "".join(draw.choices("ab_:", k=draw.randint(0, 7)))
        name = "".join(draw.choices(["a", "b", "_", ":", "{h}", "{h}"], k=draw.randint(0, 5)))
        parts = known_parts(name)
        expected = re.fullmatch(hole.join(map(re.escape, parts)), text) is not None
        assert may_be(parts, text, word=word) is expected, (name, text)


def test_what_cannot_be_read_is_still_told_by_its_line() -> None:
    problem = parse("lazy import " + " " * 2_000 + "?")
    assert isinstance(problem, Problem)
