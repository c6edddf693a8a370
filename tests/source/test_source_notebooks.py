from __future__ import annotations

import ast
import json

import pytest

from opscaffold.source.notebooks import NotebookError, read_notebook


def notebook(*cells: tuple[str, str], **metadata: object) -> bytes:
    listed = [{"cell_type": kind, "source": text.splitlines(True)} for kind, text in cells]
    return json.dumps({"cells": listed, "metadata": metadata, "nbformat": 4}).encode()


def code(text: str) -> str:
    return read_notebook(notebook(("code", text))).text


def test_code_cells_are_one_text_and_lines_lead_back_to_them() -> None:
    found = read_notebook(
        notebook(
            ("markdown", "# x = 1"), ("code", "a = 1\nb = 2"), ("raw", "no"), ("code", ""),
            ("code", "c = 3\n"),
        )
    )  # fmt: skip
    assert found.text.splitlines() == ["a = 1", "b = 2", "", "c = 3", ""]
    assert [found.place(line) for line in range(1, 6)] == [(2, 1), (2, 2), (4, 1), (5, 1), (5, 2)]


def test_a_source_may_be_one_string() -> None:
    cells = [{"cell_type": "code", "source": "a = 1\nb = 2"}]
    data = json.dumps({"cells": cells}).encode()
    assert read_notebook(b"\xef\xbb\xbf" + data).text == "a = 1\nb = 2\n"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("%matplotlib inline\nx = 1", "\nx = 1\n"),
        ("!pip install torch\nx = 1", "\nx = 1\n"),
        ("!pip install \\\n    torch\nx = 1", "\n\nx = 1\n"),
        ("x?\ntorch.add??\ny = 1", "\n\ny = 1\n"),
        ("files = !ls\nt = %timeit f()", "files = ...\nt = ...\n"),
        ("if x:\n    %time f()", "if x:\n    pass\n"),
        ("%%time\nx = 1", "\nx = 1\n"),
        ("%%bash\nls | (", "\n\n"),
        ("%%writefile a.py\nx = (", "\n\n"),
        ("x = 5 \\\n  % y", "x = 5 \\\n  % y\n"),
        ("a = b != c", "a = b != c\n"),
        ("a = b % c\nd = f'{a}?'", "a = b % c\nd = f'{a}?'\n"),
        ("a %= 2", "a %= 2\n"),
    ],
)
def test_what_is_no_python_is_blank_and_moves_no_line(written: str, read: str) -> None:
    assert code(written) == read
    ast.parse(code(written))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is no notebook"),
        (b"[]", "no cells"),
        (b'{"worksheets": []}', "version before 4"),
        (b"\xff", "is no notebook"),
        (notebook(("code", "x <- 1"), kernelspec={"language": "R"}), "in r"),
        (notebook(("code", "x"), language_info={"name": "julia"}), "in julia"),
    ],
)
def test_other_files_are_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(NotebookError, match=said):
        read_notebook(data)
