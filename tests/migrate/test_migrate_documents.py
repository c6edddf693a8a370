"""Examples in docstrings and Markdown follow the op, or are named where they cannot."""

from __future__ import annotations

import codecs
import textwrap
from pathlib import Path

import pytest
from migrating import HEADER, apply, migrate_files, run, write

from opscaffold.findings.model import Severity
from opscaffold.migrate.engine import Migration

DOCSTRING = '''\
    """Double ``x``.

    >>> b = torch.empty(2)
    >>> double(torch.ones(2), out=b)
    tensor([2., 2.])
    >>> double(torch.ones(2), None)
    tensor([2., 2.])
    """
'''


def op(docstring: str = "") -> str:
    return (
        HEADER
        + """\
@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
"""
        + docstring
        + """\
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out
"""
    )


def document(text: str | bytes, name: str = "README.md") -> tuple[str, Migration]:
    """What a document becomes beside the op."""
    after, migration = migrate_files({"ops.py": op(), name: text})
    assert migration.findings == []
    assert migration.plans
    return after[name].decode(), migration


BLOCK = """\
# Use

```python
from ops import double

b = torch.empty(2)
double(x, out=b)  # into b
y = double(x, None)
z = double(x)
```

Text `double(x, out=b)` stays.
"""
BLOCK_AFTER = """\
# Use

```python
from ops import double, double_out

b = torch.empty(2)
double_out(x, out=b)  # into b
y = double(x)
z = double(x)
```

Text `double(x, out=b)` stays.
"""


def test_markdown_block() -> None:
    assert document(BLOCK)[0] == BLOCK_AFTER


def test_markdown_with_crlf_and_a_byte_order_mark() -> None:
    data = codecs.BOM_UTF8 + BLOCK.replace("\n", "\r\n").encode()
    expected = codecs.BOM_UTF8 + BLOCK_AFTER.replace("\n", "\r\n").encode()
    assert document(data)[0].encode() == expected


def test_one_crlf_in_a_markdown_file_leaves_the_rest() -> None:
    data = BLOCK.replace("# Use\n", "# Use\r\n").encode()
    after = document(data)[0]
    assert after.startswith("# Use\r\n")
    assert "double_out(x, out=b)  # into b" in after


def test_indented_block_of_a_list() -> None:
    text = "1. item\n\n   ```py\n   from ops import double\n   b = torch.empty(1)\n\n"
    text += "   if b.dim():\n       double(x, b)\n   ```\n"
    assert document(text)[0] == (
        "1. item\n\n   ```py\n   from ops import double, double_out\n   b = torch.empty(1)\n\n"
        "   if b.dim():\n       double_out(x, out=b)\n   ```\n"
    )


def test_prompts_in_a_markdown_block() -> None:
    text = textwrap.dedent(
        """\
        ~~~pycon
        >>> from ops import double
        >>> b = torch.empty(2)
        >>> double(x,
        ...        out=b)
        tensor([2., 2.])
        ~~~
        """
    )
    expected = text.replace("import double\n", "import double, double_out\n")
    expected = expected.replace(">>> double(x,", ">>> double_out(x,")
    assert document(text)[0] == expected


def test_blocks_that_are_no_python_stay() -> None:
    text = textwrap.dedent(
        """\
        ```
        double(x, out=b)
        ```

        ```bash
        double(x, out=b)
        ```

        ```python
        not python double(
        ```

        ````markdown
        ```python
        from ops import double
        ```
        ````
        """
    )
    after, migration = document(text)
    assert after == text
    assert migration.notes == []


def test_op_called_by_its_namespace_needs_no_import() -> None:
    text = "```python\nb = torch.empty(1)\ntorch.ops.demo.double(x, b)\n```\n"
    text = text.replace("b =", "import torch\nb =")
    assert "torch.ops.demo.double_out(x, out=b)" in document(text)[0]


def test_example_that_does_not_say_which_double_it_means_is_named() -> None:
    after, migration = document("text\n\n```python\ny = double(x)\ndouble(x, out=y)\n```\n")
    assert after == "text\n\n```python\ny = double(x)\ndouble(x, out=y)\n```\n"
    (note,) = migration.notes
    assert (note.code, note.severity) == ("OPS190", Severity.INFO)
    assert (note.position.path.name, note.position.line) == ("README.md", 5)


def test_example_whose_use_cannot_be_followed_is_named_and_stops_nothing() -> None:
    text = "```python\nfrom ops import double\n\nrun = [double]\n```\n"
    after, migration = document(text)
    assert after == text
    (note,) = migration.notes
    assert (note.code, note.position.line) == ("OPS190", 4)


def test_example_that_defines_an_op_of_its_own_is_left_alone() -> None:
    text = f"```python\n{op()}```\n"
    after, migration = document(text)
    assert after == text
    assert [plan.op for plan in migration.plans] == ["demo::double"]


def test_doctest_of_the_op_itself_in_both_halves() -> None:
    after, migration = migrate_files({"ops.py": op(DOCSTRING)})
    text = after["ops.py"].decode()
    assert text.count("    >>> double_out(torch.ones(2), out=b)\n") == 2
    assert text.count("    >>> double(torch.ones(2))\n") == 2
    assert text.count("    tensor([2., 2.])\n") == 4
    assert migration.notes == []


def test_doctest_of_another_module() -> None:
    text = '''\
"""Use it.

    >>> import torch
    >>> from ops import double
    >>> b = torch.empty(2)
    >>> double(torch.ones(2), b)
    tensor([2., 2.])
    >>> for i in range(2):
    ...     _ = double(torch.ones(2), out=b)
    ...

"""
'''
    expected = text.replace("import double\n", "import double, double_out\n")
    expected = expected.replace("double(torch.ones(2), b)", "double_out(torch.ones(2), out=b)")
    expected = expected.replace("_ = double(", "_ = double_out(")
    after, _ = migrate_files({"ops.py": op(), "use.py": text})
    assert after["use.py"].decode() == expected


def test_doctest_and_code_of_one_file() -> None:
    text = '''\
import torch

from ops import double


def into(x, b: torch.Tensor):
    """Write.

    >>> double(torch.ones(1), torch.empty(1))
    """
    return double(x, b)
'''
    after, migration = migrate_files({"ops.py": op(), "use.py": text})
    use = after["use.py"].decode()
    assert "from ops import double, double_out\n" in use
    assert ">>> double_out(torch.ones(1), out=torch.empty(1))\n" in use
    assert "    return double_out(x, out=b)\n" in use
    assert migration.notes == []


def test_strings_that_name_the_op_are_noted_and_stay() -> None:
    text = 'NAMES = ["demo::double"]\n'
    after, migration = migrate_files({"ops.py": op(), "names.py": text})
    assert after["names.py"].decode() == text
    (note,) = migration.notes
    assert (note.code, note.severity) == ("OPS190", Severity.INFO)
    assert (note.position.path.name, note.position.line) == ("names.py", 1)


UNKNOWN = """\
Doubling.

```python
from ops import double
import torch

for b in [None, torch.empty(1)]:
    print(double(torch.zeros(1), b))
{more}```
"""


@pytest.mark.parametrize("more", ["", "double(torch.ones(2), out=torch.empty(2))\n"])
def test_an_example_that_is_left_gets_no_import_and_the_true_reason(
    tmp_path: Path, more: str
) -> None:
    write(tmp_path, {"ops.py": op(), "README.md": UNKNOWN.format(more=more)})
    migration = run(tmp_path)
    apply(migration)
    text = (tmp_path / "README.md").read_text()
    assert "print(double(torch.zeros(1), b))" in text
    assert ("import double, double_out" in text) is bool(more)
    notes = [note.message for note in migration.notes if note.position.path.name == "README.md"]
    assert notes
    assert all("whether `b` is None is not known" in note for note in notes)
