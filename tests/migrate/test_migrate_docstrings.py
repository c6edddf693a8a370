"""What a docstring says of the buffer: gone from one half, put right in the other."""

from __future__ import annotations

import pytest

from opscaffold.migrate.docstrings import with_entry, without_entry

SAYS = "where to."

GOOGLE = '''"""Double.

    Args:
        x: the input.
        out: a buffer,
            or None.
        k (int): a factor.

    Returns:
        the result.
    """'''
GOOGLE_LAST = '''"""Double.

    Args:
        x: the input.
        out (Tensor, optional): a buffer.
    """'''
GOOGLE_ONLY = '''"""Double.

    Args:
        out: a buffer.

    Returns:
        the result.
    """'''
GOOGLE_ONLY_LAST = '''"""Double.

    Args:
        out: a buffer.
    """'''
NUMPY = '''"""Double.

    Parameters
    ----------
    x : Tensor
        The input.
    out : Tensor, optional
        A buffer,
        or None.
    k : int
        A factor.

    Returns
    -------
    Tensor
    """'''
NUMPY_ONLY = '''"""Double.

    Parameters
    ----------
    out : Tensor, optional
        A buffer.

    Returns
    -------
    Tensor
    """'''
SPHINX = '''"""Double.

    :param x: the input.
    :param out: a buffer,
        or None.
    :type out: Tensor or None
    :param Tensor w: another.
    :returns: the result.
    """'''
SPHINX_TYPED = '''"""Double.

    :param Tensor x: the input.
    :param Tensor out: a buffer.
    """'''


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        (GOOGLE, ["        out: a buffer,\n", "            or None.\n"]),
        (GOOGLE_LAST, ["        out (Tensor, optional): a buffer.\n"]),
        (GOOGLE_ONLY, ["\n    Args:\n        out: a buffer.\n"]),
        (GOOGLE_ONLY_LAST, ["\n    Args:\n        out: a buffer.\n"]),
        (
            NUMPY,
            ["    out : Tensor, optional\n", "        A buffer,\n", "        or None.\n"],
        ),
        (
            NUMPY_ONLY,
            ["\n    Parameters\n    ----------\n    out : Tensor, optional\n        A buffer.\n"],
        ),
        (
            SPHINX,
            [
                "    :param out: a buffer,\n",
                "        or None.\n",
                "    :type out: Tensor or None\n",
            ],
        ),
        (SPHINX_TYPED, ["    :param Tensor out: a buffer.\n"]),
    ],
)
def test_entry_is_taken_out_and_an_empty_section_with_it(text: str, gone: list[str]) -> None:
    expected = text
    for piece in gone:
        assert piece in expected
        expected = expected.replace(piece, "")
    assert without_entry(text, "out") == expected


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (GOOGLE, "        out: a buffer,\n            or None.\n", "        out: where to.\n"),
        (
            GOOGLE_LAST,
            "        out (Tensor, optional): a buffer.\n",
            "        out: where to.\n",
        ),
        (GOOGLE_ONLY, "        out: a buffer.\n", "        out: where to.\n"),
        (
            NUMPY,
            "    out : Tensor, optional\n        A buffer,\n        or None.\n",
            "    out : Tensor\n        where to.\n",
        ),
        (
            SPHINX_TYPED,
            "    :param Tensor out: a buffer.\n",
            "    :param Tensor out: where to.\n",
        ),
    ],
)
def test_entry_is_written_anew(text: str, old: str, new: str) -> None:
    assert old in text
    assert with_entry(text, "out", SAYS) == text.replace(old, new)


def test_sphinx_type_no_longer_says_none() -> None:
    after = with_entry(SPHINX, "out", SAYS)
    assert "    :param out: where to.\n" in after
    assert "or None" not in after
    assert "    :param Tensor w: another.\n" in after


@pytest.mark.parametrize(
    "text",
    [
        '"""Double."""',
        '"""out: not a section."""',
        '"""Double.\n\n    Args:\n        output: another.\n        x: out: no entry.\n    """',
        '"""Double.\n\n    Note:\n        out: no argument section.\n    """',
        "'''Double, out is optional.'''",
        '"""Args:\n    """',
        '""""""',
    ],
)
def test_docstring_without_an_entry_stays(text: str) -> None:
    assert without_entry(text, "out") == text
    assert with_entry(text, "out", SAYS) == text


def test_line_endings_and_quotes_stay() -> None:
    text = "'''D.\r\n\r\n    Args:\r\n        x: input.\r\n        out: buffer.\r\n    '''"
    assert without_entry(text, "out") == ("'''D.\r\n\r\n    Args:\r\n        x: input.\r\n    '''")
    assert with_entry(text, "out", SAYS) == text.replace("buffer.", SAYS)


def test_entry_that_the_closing_quotes_end() -> None:
    text = '"""D.\n\n    Args:\n        x: input.\n        out: buffer."""'
    assert without_entry(text, "out") == '"""D.\n\n    Args:\n        x: input."""'
    assert with_entry(text, "out", SAYS) == text.replace("buffer.", SAYS)
    more = '"""D.\n\n    Args:\n        out: buffer,\n            or None."""'
    assert without_entry(more, "out") == '"""D."""'
    assert with_entry(more, "out", SAYS) == '"""D.\n\n    Args:\n        out: where to."""'


def test_blank_lines_between_entries_stay() -> None:
    text = '"""D.\n\n    Args:\n        out: buffer.\n\n        x: input.\n    """'
    assert "        x: input.\n" in without_entry(text, "out")
    assert with_entry(text, "out", SAYS) == text.replace("buffer.", SAYS)
