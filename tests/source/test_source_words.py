from __future__ import annotations

import os

import pytest

from opscaffold.source.words import Words, may_register


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("from torch import library as l", True),
        ("torch . library . define", True),
        ("@x.register_fake", True),
        ("lib.impl('a', f)", True),
        ("import numpy as np", False),
        ("library = 1; redefine(x); x.implement()", False),
        ("register_fakery()", False),
        ("lib\n    .define('a() -> ()')", True),
        ("class Library: ...", True),
        ("class Libraries: ...", False),
        ("import library", True),
        ("x.register_buffer('a', b)", False),
    ],
)
def test_the_byte_filter_lets_registrations_through(text, may):
    assert may_register(text.encode()) is may


@pytest.mark.parametrize("more", [[], [f"name_{n}" for n in range(200)]])
def test_names_are_looked_for_as_words(more):
    words = Words(["scale", "f_", *more])
    assert words.in_(b"ops.scale(x)")
    assert words.in_(b"(f_)")
    assert words.in_("\u00e9scale".encode())
    assert not words.in_(b"scale_out rescale f_x")
    assert not Words([]).in_(b"anything")


@pytest.mark.parametrize(
    ("name", "data"), [(os.fsdecode(b"ops_\xff"), b"ops_\xff"), ("\ud800", b"\xed\xa0\x80")]
)
def test_names_that_are_no_text_are_looked_for_all_the_same(name: str, data: bytes) -> None:
    assert Words([name]).in_(b"import " + data)
    assert not Words([name]).in_(b"import ops")


@pytest.mark.parametrize("more", [[], [f"name_{n}" for n in range(200)]])
def test_the_names_that_are_there_are_told(more):
    words = Words(["scale", "f_", "ops.scale", *more])
    assert words.found_in(b"x = ops.scale(f_, rescale)") == {"scale", "f_", "ops.scale"}
    assert words.found_in(b"rescale") == frozenset()
