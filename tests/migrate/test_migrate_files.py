"""Encodings, line endings, indentation: what is written is what the file was, but for the op."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from migrating import HEADER, migrate_files, reasons

from opscaffold.migrate.engine import migrate

OP = (
    HEADER
    + """\
@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out  # done


def use(x: Tensor, b: Tensor, m=None):
    double(x, b)
    double(x, m)
    return double(x, None)
"""
)


def split(data: bytes) -> bytes:
    after, migration = migrate_files({"ops.py": data})
    assert migration.plans, reasons(migration)
    return after["ops.py"]


PLAIN = split(OP.encode())


def test_the_plain_file() -> None:
    text = PLAIN.decode()
    assert text.startswith(HEADER)
    assert text.count("    return out  # done\n") == 2
    assert text.endswith(
        "    double_out(x, out=b)\n    if m is None:\n        double(x)\n    else:\n"
        "        double_out(x, out=m)\n    return double(x)\n"
    )


def test_crlf() -> None:
    assert split(OP.replace("\n", "\r\n").encode()) == PLAIN.replace(b"\n", b"\r\n")


def test_byte_order_mark() -> None:
    assert split(codecs.BOM_UTF8 + OP.encode()) == codecs.BOM_UTF8 + PLAIN


def test_byte_order_mark_and_crlf() -> None:
    before = codecs.BOM_UTF8 + OP.replace("\n", "\r\n").encode()
    assert split(before) == codecs.BOM_UTF8 + PLAIN.replace(b"\n", b"\r\n")


@pytest.mark.parametrize("codec", ["latin-1", "utf-8", "cp1252"])
def test_coding_cookie(codec: str) -> None:
    head = f"# -*- coding: {codec} -*-\n# Größe\n"
    text = (head + OP).replace("# done", "# größer")
    expected = (head + PLAIN.decode()).replace("# done", "# größer")
    assert split(text.encode(codec)) == expected.encode(codec)


def test_characters_beyond_the_basic_plane_before_a_call_on_its_line() -> None:
    text = OP.replace("    double(x, b)\n", '    "\U0001f600 größe"; double(x, b); "é"\n')
    expected = PLAIN.decode().replace(
        "    double_out(x, out=b)\n    if",
        '    "\U0001f600 größe"; double_out(x, out=b); "é"\n    if',
    )
    assert split(text.encode()).decode() == expected


@pytest.mark.parametrize("indent", ["\t", "  ", " ", "        "])
def test_indentation(indent: str) -> None:
    assert split(OP.replace("    ", indent).encode()) == PLAIN.replace(b"    ", indent.encode())


def test_form_feed_between_functions() -> None:
    text = OP.replace("\n\n\ndef use", "\n\n\f\ndef use")
    assert split(text.encode()) == PLAIN.replace(b"\n\n\ndef use", b"\n\n\f\ndef use")


def test_no_newline_at_the_end() -> None:
    assert split(OP.rstrip("\n").encode()) == PLAIN.rstrip(b"\n")


def test_op_at_the_end_without_a_newline() -> None:
    text = OP[: OP.index("\n\n\ndef use")]
    assert split(text.encode()) == PLAIN[: PLAIN.index(b"\n\n\ndef use")]


def test_trailing_blanks_and_blank_lines_elsewhere_stay() -> None:
    more = "\n\n\n\nA = 1   \n\t\nB = [ 1,2 ,3 ]\n   # odd comment\n\n\n"
    assert split((OP + more).encode()) == PLAIN + more.encode()


def test_mixed_line_endings_elsewhere_stay() -> None:
    more = b"\r\n\r\nA = 1\r\nB = 2\n"
    assert split(OP.encode() + more) == PLAIN + more


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (OP.replace("\n", "\r").encode(), "give it back unchanged"),
        (OP.replace("# done", "# \x00").encode(), ""),
        (b"# coding: utf-8\n" + OP.replace("# done", "# \xe9").encode("latin-1"), ""),
        (OP.encode() + b"\n\ndef broken(:\n", ""),
        (b"# coding: no-such-codec\n" + OP.encode(), ""),
    ],
)
def test_a_file_that_cannot_be_read_or_given_back_stays(data: bytes, why: str) -> None:
    after, migration = migrate_files({"ops.py": data})
    assert after["ops.py"] == data
    assert migration.plans == []
    assert migration.findings
    assert any(why in reason for reason in reasons(migration))


def test_an_unreadable_caller_keeps_the_op() -> None:
    files = {"ops.py": OP.encode(), "bad.py": b"from ops import double\ndouble(\n"}
    after, migration = migrate_files(files)
    assert after == files
    assert [f.code for f in migration.findings] == ["OPS101", "OPS001"]


def test_an_unreadable_file_that_calls_nothing_stops_nothing_but_is_reported() -> None:
    files = {"ops.py": OP.encode(), "bad.py": b"from ops import double\ndef (\n"}
    after, migration = migrate_files(files)
    assert after["bad.py"] == files["bad.py"]
    assert after["ops.py"] == PLAIN
    assert [f.code for f in migration.findings] == ["OPS001"]


def test_a_link_is_another_name_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_bytes(OP.encode())
    (tmp_path / "linked.py").symlink_to("ops.py")
    (tmp_path / "use.py").write_text("import linked\n\nlinked.double(1, linked.torch.ones(1))\n")
    migration = migrate([tmp_path], root=tmp_path)
    assert b"linked.double_out(1, out=" in migration.changes[tmp_path / "use.py"][1]


def test_a_doctest_of_markdown_needs_no_fence() -> None:
    text = b"# Use\n\n    >>> import ops, torch\n    >>> ops.double(1, torch.ones(1))\n"
    after, _ = migrate_files({"ops.py": OP.encode(), "README.md": text})
    assert b"    >>> ops.double_out(1, out=torch.ones(1))\n" in after["README.md"]


def test_a_caller_that_cannot_be_given_back_keeps_the_op() -> None:
    caller = b"import torch\rfrom ops import double\rdouble(torch.ones(1), torch.ones(1))\r"
    after, migration = migrate_files({"ops.py": OP.encode(), "cr.py": caller})
    assert after == {"ops.py": OP.encode(), "cr.py": caller}
    assert migration.findings


def test_empty_files_and_stubs_stay() -> None:
    files = {"ops.py": OP.encode(), "empty.py": b"", "blank.py": b"\n\n", "bom.py": codecs.BOM_UTF8}
    after, _ = migrate_files(files)
    assert {name: after[name] for name in files if name != "ops.py"} == {
        name: data for name, data in files.items() if name != "ops.py"
    }
