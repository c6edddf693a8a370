from __future__ import annotations

import re

import pytest

from opscaffold.patterns import pattern


@pytest.mark.parametrize(("text", "data"), [(r"(\d)x", "1x, 2x"), (rb"(\d)x", b"1x, 2x")])
def test_a_pattern_finds_what_a_compiled_one_finds(text, data):
    late, known = pattern(text), re.compile(text)
    for _ in range(2):
        assert late.findall(data) == known.findall(data)
        assert late.sub(data[:1], data) == known.sub(data[:1], data)
        assert late.split(data) == known.split(data)
        assert [m.span() for m in late.finditer(data)] == [(0, 2), (4, 6)]
        assert late.match(data).span() == late.search(data).span() == (0, 2)
        assert late.fullmatch(data) is None
    assert (late.pattern, late.flags, late.groups) == (text, known.flags, 1)


def test_flags_are_kept():
    assert pattern("A", re.IGNORECASE).match("a")


def test_a_pattern_is_compiled_when_it_is_used(monkeypatch):
    made = []
    monkeypatch.setattr(re, "compile", lambda *given: made.append(given))
    pattern("a")
    assert made == []


def test_what_is_no_pattern_says_so_when_it_is_used():
    broken = pattern("(")
    with pytest.raises(re.error):
        broken.match("")
