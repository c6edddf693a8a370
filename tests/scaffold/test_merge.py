"""Three-way merges keep the author's form of text, and say where they cannot merge."""

from __future__ import annotations

import codecs
import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscaffold.scaffold.merge import (
    GitMissingError,
    MergeError,
    Resolution,
    has_markers,
    in_form_of,
    is_text,
    merge,
    same_text,
    still_reads,
)

BASE = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
MINE = BASE.replace(b"two", b"TWO of mine")
NEW = BASE.replace(b"six", b"SIX of theirs")
BOTH = MINE.replace(b"six", b"SIX of theirs")
CLASH = BASE.replace(b"two", b"two of theirs")
CRLF = (b"\n", b"\r\n")
CR = (b"\n", b"\r")


def test_what_each_changed_is_in_the_merge() -> None:
    merged = merge(BASE, MINE, NEW)
    assert (merged.data, merged.conflicts) == (BOTH, 0)


def test_a_place_that_both_changed_is_marked_with_all_three() -> None:
    merged = merge(BASE, MINE, CLASH)
    assert merged.conflicts == 1
    assert merged.data == (
        b"one\n<<<<<<< yours\nTWO of mine\n||||||| generated before\ntwo\n=======\n"
        b"two of theirs\n>>>>>>> generated now\n" + BASE.split(b"two\n")[1]
    )
    assert has_markers(merged.data)


@pytest.mark.parametrize(
    ("resolution", "taken"), [(Resolution.KEEP, b"TWO of mine"), (Resolution.NEW, b"two of theirs")]
)
def test_a_side_is_taken_in_the_places_in_question_alone(
    resolution: Resolution, taken: bytes
) -> None:
    new = CLASH.replace(b"six", b"SIX of theirs")
    merged = merge(BASE, MINE, new, resolution)
    assert merged.data == NEW.replace(b"two", taken)
    assert merged.conflicts == 0


@pytest.mark.parametrize("ending", [CRLF, CR])
@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8])
def test_the_form_of_the_authors_text_stays(ending: tuple[bytes, bytes], bom: bytes) -> None:
    merged = merge(BASE, bom + MINE.replace(*ending), NEW)
    assert merged.data == bom + BOTH.replace(*ending)
    assert same_text(bom + BASE.replace(*ending), BASE)
    assert in_form_of(bom + BASE.replace(*ending), BASE, NEW) == bom + NEW.replace(*ending)


def test_marks_end_as_lines_do() -> None:
    merged = merge(BASE, MINE.replace(*CRLF), CLASH)
    assert merged.data.count(b"\n") == merged.data.count(b"\r\n")
    assert has_markers(merged.data)


def test_mixed_line_endings_stay_where_they_are() -> None:
    lines = MINE.splitlines()
    mine = b"".join(line + (b"\r\n" if n in (0, 3) else b"\n") for n, line in enumerate(lines))
    merged = merge(BASE, mine, NEW.replace(b"four\n", b"four\nadded\n"))
    assert merged.data == mine.replace(b"four\r\n", b"four\r\nadded\n").replace(
        b"six", b"SIX of theirs"
    )


def test_a_missing_last_newline_stays_missing() -> None:
    merged = merge(BASE, MINE.removesuffix(b"\n"), NEW)
    assert merged.data == BOTH.removesuffix(b"\n")
    windows = MINE.removesuffix(b"\n").replace(*CRLF)
    assert merge(BASE, windows, NEW).data == BOTH.removesuffix(b"\n").replace(*CRLF)


def test_a_last_newline_that_the_templates_change_is_changed() -> None:
    open_base, open_new = BASE.removesuffix(b"\n"), NEW.removesuffix(b"\n")
    assert in_form_of(open_base, open_base, NEW) == NEW
    assert in_form_of(BASE, BASE, open_new) == open_new
    assert in_form_of(open_base, BASE, NEW) == open_new
    assert merge(open_base, MINE.removesuffix(b"\n"), NEW).data == BOTH


def test_templates_with_such_lines_are_merged_as_they_are() -> None:
    base, mine, new = (text.replace(*CRLF) for text in (BASE, MINE, NEW))
    assert merge(base, mine, new).data == BOTH.replace(*CRLF)
    assert in_form_of(BASE, BASE, new) == new


@given(
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b""]), st.sampled_from([b"\n", b"\r\n"]))),
    st.sampled_from([b"", b"the end"]),
)
def test_new_text_in_an_authors_form_is_the_same_text(
    lines: list[tuple[bytes, bytes]], end: bytes
) -> None:
    mine = b"".join(line + ending for line, ending in lines) + end
    plain = mine.replace(b"\r\n", b"\n")
    assert in_form_of(mine, plain, plain) == mine
    assert same_text(in_form_of(mine, plain, NEW), NEW)


@pytest.mark.parametrize("data", [b"a\0b\n", b"\xff\xfea\0", b"caf\xe9\n"])
def test_what_is_no_text_is_not_merged(data: bytes) -> None:
    assert not is_text(data)
    with pytest.raises(ValueError, match="only text"):
        merge(BASE, data, NEW)
    assert not same_text(data, BASE)
    assert same_text(data, data)


def test_settings_of_the_user_and_of_a_repository_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = merge(BASE, MINE, CLASH)
    (tmp_path / ".gitconfig").write_text("[merge]\n\tconflictStyle = nonsense\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / ".gitconfig"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert merge(BASE, MINE, CLASH) == before


def test_a_machine_without_git_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitMissingError, match="install git"):
        merge(BASE, MINE, NEW)


@pytest.mark.skipif(os.name == "nt", reason="stands in for git by a shell script")
def test_what_git_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "git"
    script.write_text("#!/bin/sh\necho 'fatal: no memory' >&2\nexit 255\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MergeError, match="fatal: no memory"):
        merge(BASE, MINE, NEW)


@pytest.mark.parametrize(
    ("name", "before", "after", "reads"),
    [
        ("a.py", b"x = 1\n", b"x = (1\n", False),
        ("a.py", b"x = (1\n", b"x = (2\n", True),
        ("a.py", b"x = 1\n", b"x = '\\d'\n", True),
        ("a.toml", b"a = 1\n", b"a = 1\na = 2\n", False),
        ("a.toml", b"a = 1\r\n", b"a = 1\r\nb = 2\r\n", True),
        ("a.md", b"x", b"(((", True),
    ],
)
def test_what_read_before_has_to_read_on(
    name: str, before: bytes, after: bytes, reads: bool
) -> None:
    assert still_reads(PurePosixPath(name), before, after) is reads


def test_text_about_conflicts_is_none() -> None:
    assert not has_markers(b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> branch\n")
    assert not has_markers(b"  <<<<<<< yours\n  >>>>>>> generated now\n")
