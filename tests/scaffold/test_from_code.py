"""What of a module comes along with a function, and when it is imported instead."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from from_reading import read

from opscaffold.scaffold.from_error import FromError
from opscaffold.scaffold.from_names import free_names
from opscaffold.scaffold.from_spec import dump_wrapped, load_wrapped

MODULE = '''\
"""A module."""

from __future__ import annotations

import math, os
from typing import Optional as Opt, Union

import numpy as np
import torch
from torch import Tensor, nn

unused = nn.Linear(2, 2)

# How much.
SCALE = 2.0
HALF, THIRD = 0.5, 1 / 3
LIMIT = math.log(2.0); OTHER = 3
MODES = {"a": SCALE, "b": 4.0}
MaybeTensor = Opt[Tensor]

try:
    import triton
except ImportError:
    triton = None


# Doubles.
def _double(x: Tensor) -> Tensor:
    return x * SCALE  # kept as it is


class Pair:
    """Two of them."""

    left = LIMIT


def f(x: Tensor, bias: MaybeTensor = None, mode: str = 'a') -> Tensor:
    """Do it.

    More of it.
    """
    assert Pair.left < 1
    y = _double(x) * MODES[mode]
    return y if bias is None else y + bias
'''


def test_helpers_constants_and_imports_come_along_as_they_stand(tmp_path: Path) -> None:
    (op,) = read(tmp_path, MODULE, head="").ops
    assert (
        op.wrapped.code
        == '''\
from __future__ import annotations

import math
from torch import Tensor
from typing import Optional as Opt

# How much.
SCALE = 2.0
LIMIT = math.log(2.0)
MODES = {"a": SCALE, "b": 4.0}
MaybeTensor = Opt[Tensor]


# Doubles.
def _double(x: Tensor) -> Tensor:
    return x * SCALE  # kept as it is


class Pair:
    """Two of them."""

    left = LIMIT


def f(x: Tensor, bias: MaybeTensor = None, mode: str = 'a') -> Tensor:
    """Do it.

    More of it.
    """
    assert Pair.left < 1
    y = _double(x) * MODES[mode]
    return y if bias is None else y + bias
'''
    )
    assert op.wrapped.doc == "Do it."
    assert op.wrapped.values == {"mode": ('"a"', '"sample"')}


def test_an_optional_import_comes_along_whole(tmp_path: Path) -> None:
    code = MODULE + "\n\ndef g(x: Tensor) -> Tensor:\n    return x * 2 if triton else x + 1\n"
    (op,) = read(tmp_path, code, "g", head="", fake=True).ops
    assert "except ImportError:\n    triton = None\n" in op.wrapped.code


def test_what_needs_its_project_is_imported_from_its_own_module(tmp_path: Path) -> None:
    package = tmp_path / "lib"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helpers.py").write_text(
        "import torch\n\n\ndef twice(x):\n    return x * 2\n", "utf-8"
    )
    (tmp_path / "pyproject.toml").touch()
    code = "from lib.helpers import twice\n\nN = 3\n\n\n"
    code += "def f(x: Tensor) -> Tensor:\n    return twice(x) * N\n"
    head = "import torch\nfrom torch import Tensor\n"
    (op,) = read(package, code, head=head).ops
    wrapped = op.wrapped
    assert wrapped.imported == "lib.module"
    assert wrapped.search == ("../..",)
    assert wrapped.code == "from lib.module import N, f, twice\n"
    with pytest.raises(
        FromError, match=r"twice is imported from lib\.helpers, of the same project"
    ):
        read(package, code, head=head, mode="copy")


def test_an_import_inside_of_the_project_means_an_import_of_the_function(tmp_path: Path) -> None:
    package = tmp_path / "lib"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helpers.py").write_text("def twice(x):\n    return x * 2\n", "utf-8")
    (tmp_path / "pyproject.toml").touch()
    head = "import torch\nfrom torch import Tensor\n\n\n"
    for inside in ("from .helpers import twice", "from lib.helpers import twice"):
        code = f"def f(x: Tensor) -> Tensor:\n    {inside}\n    return twice(x)\n"
        wrapping = read(package, code, head=head, fake=True)
        assert wrapping.ops[0].wrapped.imported == "lib.module"
        assert "of the same project" in wrapping.notes[0]


def test_the_author_may_want_an_import(tmp_path: Path) -> None:
    code = "import torch\nfrom torch import Tensor\n\n\n"
    code += "def f(x: Tensor) -> Tensor:\n    return torch.empty_like(x).copy_(x)\n"
    wrapping = read(tmp_path, code, head="", mode="import")
    assert wrapping.ops[0].wrapped.code == "import torch\n\nfrom module import f\n"
    assert "as you say" in wrapping.notes[0]


def test_a_star_import_means_an_import(tmp_path: Path) -> None:
    code = "from torch import *\n\n\ndef f(x: Tensor) -> Tensor:\n    return x + pi\n"
    assert read(tmp_path, code, head="", fake=True, kind=None, mode="").ops[0].wrapped.imported


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(x: A, y=B, *, z: 'C' = D) -> E:\n    return x + G", "ABCDEG"),
        ("def f(x):\n    y = A\n    return [z + B for z in y if z > C]", "ABC"),
        ("def f(x):\n    import A\n    return A, B", "B"),
        ("def f(x):\n    def A(y=B):\n        return x + y + C\n    return A", "BC"),
        ("def f(x):\n    return (lambda y: y + A)(x)", "A"),
        ("def f(x, mode='A'):\n    return x if mode == 'B' else C", "C"),
        ("def f(x):\n    for A in x:\n        pass\n    with B as C:\n        return A + C", "B"),
        ("def f(x):\n    try:\n        return x\n    except A as B:\n        return B", "A"),
        ("def f(x):\n    match x:\n        case A.B as C:\n            return C\n", "A"),
        ("class f(A):\n    B = 1\n    C = B\n    def m(self):\n        return D\n", "AD"),
        ("@A\ndef f(x):\n    if (B := x):\n        return B", "A"),
    ],
)
def test_free_names_are_those_that_the_module_gives(code: str, expected: str) -> None:
    found = free_names(ast.parse(code).body[0])
    assert sorted(found) == sorted(expected)


def test_what_is_written_to_an_answers_file_reads_back(tmp_path: Path) -> None:
    (op,) = read(tmp_path, MODULE, head="").ops
    assert load_wrapped(dump_wrapped(op.wrapped)) == op.wrapped


@pytest.mark.parametrize(
    "change",
    [
        ('"file": "f"', '"file": "../f"'),
        ('"function": "f"', '"function": "f; import os"'),
        ('"source": "module.py:f"', '"source": "a\\""'),
        ('"returns": "one"', '"returns": "two"'),
        ('"results": ["keep"]', '"results": ["drop it"]'),
        ('"positional": 3', '"positional": true'),
        ('"search": []', '"search": ["a\\"]"]'),
        ('"sized": ""', '"sized": 1'),
        ('"absent": []', '"absent": [], "more": 1'),
    ],
)
def test_an_edited_answer_that_could_become_code_is_refused(
    change: tuple[str, str], tmp_path: Path
) -> None:
    (op,) = read(tmp_path, MODULE, head="").ops
    text = dump_wrapped(op.wrapped)
    assert change[0] in text
    with pytest.raises(ValueError, match=r"."):
        load_wrapped(text.replace(*change))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "1", "null"])
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="use --from"):
        load_wrapped(text)
