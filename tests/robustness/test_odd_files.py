"""Files as nobody should write them, and disks as nobody should have them."""

from __future__ import annotations

import ast
import codecs
import contextlib
import encodings.aliases
import os
import pkgutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opscaffold.cli.app import main
from opscaffold.fs.journal import Unit, write_units
from opscaffold.fs.lock import LockedError
from opscaffold.fs.text import SourceError, decode
from opscaffold.source.tree import LONGEST

OPS = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out
"""
OK, FOUND, USAGE = 0, 1, 2


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'demo'\n", "utf-8")
    return tmp_path


def survives(root: Path, data: bytes) -> bytes:
    """Check and migrate a file that holds these bytes, and return what it holds then."""
    path = root / "ops.py"
    path.write_bytes(data)
    assert main(["check", "ops.py"]) in (OK, FOUND)
    assert main(["migrate", "--write", "--allow-dirty", "--unsafe", "ops.py"]) in (OK, FOUND)
    return path.read_bytes()


def text_codecs() -> list[str]:
    """Every encoding that a file may declare and that can say what Python is written in."""
    found = []
    for name in sorted(set(encodings.aliases.aliases.values())):
        with contextlib.suppress(LookupError, UnicodeError, ValueError, TypeError):
            if codecs.lookup(name)._is_text_encoding and OPS.encode(name) == OPS.encode():
                found.append(name)
    return found


@pytest.mark.parametrize(
    "name", ["latin_1", "utf_7", "shift_jis", "iso2022_jp", "hz", "gb18030", "koi8_r", "mac_roman"]
)
def test_an_encoding_that_a_file_declares_is_kept(root: Path, name: str) -> None:
    letter = letter_of(name)
    text = f"# -*- coding: {name} -*-\n# {letter}\n{OPS}"
    after = survives(root, text.encode(name)).decode(name)
    assert "double_out" in after
    assert after.startswith(f"# -*- coding: {name} -*-\n# {letter}\n")


def test_every_encoding_is_read_and_given_back() -> None:
    names = text_codecs()
    assert len(names) > 50
    for name in names:
        data = f"# coding: {name}\r\n# {letter_of(name)}\r\n{OPS}".encode(name)
        source = decode(data, Path("ops.py"))
        assert source.encode(source.text) == data, name


def every_codec() -> list[str]:
    """All that Python knows by any name, those that are for bytes, and names of nothing."""
    modules = {module.name for module in pkgutil.iter_modules(encodings.__path__)}
    known = sorted(modules | set(encodings.aliases.aliases))
    return [*known, "bogus", "utf-9", "a" * 300, "a.b"]


def test_whatever_encoding_is_declared_the_file_is_read_or_refused_by_name() -> None:
    refused = []
    for name in every_codec():
        for letter in (OPS.encode(), b"# \xe9"):
            data = f"# coding: {name}\n".encode() + letter
            try:
                source = decode(data, Path("ops.py"))
            except SourceError as error:
                refused.append(str(error))
            else:
                assert not source.exact or source.encode(source.text) == data
    assert len(refused) > 50
    assert all(said.startswith("ops.py:") for said in refused)


@pytest.mark.parametrize("name", ["zlib", "rot13", "undefined", "idna", "punycode", "bogus"])
def test_an_encoding_that_no_source_can_have_is_named(
    root: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    data = f"# coding: {name}\n{OPS}# é".encode("latin_1")
    assert survives(root, data) == data
    assert "OPS001 unreadable" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["unicode_escape", "raw_unicode_escape", "utf_7"])
def test_a_file_whose_encoding_would_give_other_bytes_is_left_and_named(
    root: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    escaped = {"utf_7": "+AGE-"}.get(name, "\\u00e9")
    data = f"# coding: {name}\n# {escaped}\n{OPS}".encode()
    assert not decode(data, Path("ops.py")).exact
    assert survives(root, data) == data
    assert "would not give its bytes back" in capsys.readouterr().err


def letter_of(codec: str) -> str:
    return next((letter for letter in "éяあα가ğñш" if _takes(codec, letter)), "e")


def _takes(codec: str, letter: str) -> bool:
    try:
        return letter.encode(codec).decode(codec) == letter
    except UnicodeError:
        return False


@pytest.mark.parametrize(
    ("end", "bom", "last"),
    [("\n", b"", False), ("\n", codecs.BOM_UTF8, True), ("\r\n", codecs.BOM_UTF8, False)],
)
def test_line_ends_form_feeds_a_bom_and_a_missing_last_newline_are_kept(
    root: Path, end: str, bom: bytes, last: bool
) -> None:
    text = ("\f\n" + OPS + "\f\ndef other(): pass\n").replace("\n", end)
    after = survives(root, bom + (text if last else text.removesuffix(end)).encode())
    assert b"double_out" in after
    assert after.startswith(bom)
    assert after.endswith(end.encode()) is last
    lone = after.replace(end.encode(), b"")
    assert b"\r" not in lone
    assert b"\n" not in lone
    assert after.count(b"\f") == 2


def test_lines_that_end_as_on_an_old_mac_are_left_alone_and_named(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = OPS.replace("\n", "\r").encode()
    assert survives(root, data) == data
    assert "OPS101" in capsys.readouterr().err


@pytest.mark.parametrize(
    "data",
    [
        OPS.encode() + b"x = '" + b"a" * 1_000_000 + b"'\n",
        OPS.encode() + b"x = [" + b"1, " * 5_000 + b"]\n",
        OPS.encode() + b"# " + b"word " * 200_000,
        OPS.encode() + b"(" * 1_000_000,
        OPS.encode() + b"x = " + b"-" * 1_000_000 + b"1\n",
        OPS.encode() + b"x" + b".a" * 20_000 + b"\n",
        OPS.encode() + b"\0" * 1_000_000,
        b"torch.library" + b"\xff" * 1_000_000,
        OPS.encode() + b"if x:\n" + b"".join(b" " * n + b"if x:\n" for n in range(1, 500)),
        OPS.encode() + b"\\\n" * 100_000,
        b"\n" * 2_500_000 + OPS.encode(),
    ],
    ids=["string", "list", "comment", "open", "minus", "dots", "nul", "bytes", "indents", "joined",
         "newlines"],
)  # fmt: skip
def test_a_megabyte_of_anything_is_survived(root: Path, data: bytes) -> None:
    started = time.process_time()
    after = survives(root, data)
    assert time.process_time() - started < 20
    if after != data:
        ast.parse(after)


PIECES = st.sampled_from(
    [
        "import torch\n", "from torch import Tensor\n", "lib = torch.library.Library('d', 'DEF')\n",
        "@torch.library.custom_op('d::f', mutates_args=())\n", "def f(x: Tensor) -> Tensor:\n",
        "@torch.library.custom_op('d::f', mutates_args=('out',))\n", "async def g(*, a, **k):\n",
        "def f(x: Tensor, out: Tensor | None = None) -> Tensor:\n", "    if out is None:\n",
        "        out = torch.empty_like(x)\n", "    torch.mul(x, 2, out=out)\n", "    return out\n",
        "lib.define('f(Tensor x, Tensor(a!)? out=None) -> Tensor')\n", "lib.define('f(')\n",
        "lib.impl('f', f, 'CPU')\n", "@f.register_fake\n", "def _(x, out=None): return x\n",
        "f(x, out=y)\n", "x = torch.ops.d.f(x, out=None)\n", "torch.ops.d.f.default(*a, **k)\n",
        "for f in fs:\n", "    f(f)\n", "class f(f): f = f\n", "f = f\n", "del f\n", "global f\n",
        "(f := f)\n", "match f:\n", "    case f: pass\n", "lambda out=None: f(out)\n", "\t", "    ",
        "\\\n", "'''", '"', "# opscaffold: ignore[OPS101]\n", "\x0c", "\r", "é", "\ud800", "\0",
        ")",
        "f'{f(x, out=y)}'\n", "[f(x, out=y) for x in y if (out := x)]\n",
        "with f(x) as out: pass\n", "try:\n", "except* f: pass\n", "type f = f\n",
        "def f_out(x, *, out): pass\n",
        "from f import *\n", "from . import f as f_out\n", "if f:\n", "else:\n", "    pass\n",
        "torch.library.custom_op(f'd::{x}{y}', lambda x: x, mutates_args={})\n",
    ]
)  # fmt: skip


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.lists(PIECES, min_size=2, max_size=16).map("".join))
def test_any_pieces_of_ops_put_together_are_survived(root: Path, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    after = survives(root, data)
    if after != data:
        ast.parse(after)
        assert survives(root, after) == after


KEYS = st.sampled_from(
    ["select", "ignore", "exclude", "target-torch", "out-naming", "notebooks", "registrars",
     "registrars.f", "registrars.'a.b'", "per-file-ignores", "per-file-ignores.'*.py'", "unknown"]
)  # fmt: skip
TOML_VALUES = st.sampled_from(
    ["true", "1", "-1.5", "nan", "''", "'OPS1'", "['OPS1', 1]", "[]", "{}", "{a = {b = []}}",
     "['[', '!', '**', '\\\\']", "['../*', '/']", "1979-05-27", "'2.13'", "'2.0'", "{name = 0}",
     "{name = 0, schema = 'x', parameters = ['op', 'fn']}", "'''", '"\\ud800"', "[[[[[[]]]]]]"]
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(KEYS, TOML_VALUES), min_size=1, max_size=4), st.text(max_size=4))
def test_any_configuration_is_read_or_refused_by_name(
    root: Path, capsys: pytest.CaptureFixture[str], pairs: list[tuple[str, str]], tail: str
) -> None:
    lines = [f"{key} = {value}\n" for key, value in pairs]
    text = "[tool.opscaffold]\n" + "".join(lines) + tail
    (root / "pyproject.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    (root / "m.py").write_text("x = 1\n", "utf-8")
    code = main(["check", "m.py"])
    assert code in (OK, USAGE)
    assert code == OK or "pyproject.toml" in capsys.readouterr().err


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A disk of its own with hardly any room; skips where the machine gives none."""
    path.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs Linux and root to mount a disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody mount")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk_leaves_every_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        (disk / "pyproject.toml").write_text("[project]\nname = 'demo'\n", "utf-8")
        (disk / "ops.py").write_text(OPS, "utf-8")
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"\0" * 4096)
        monkeypatch.chdir(disk)
        assert main(["migrate", "--write", "--allow-dirty"]) == USAGE
        assert "no space left" in capsys.readouterr().err
        assert (disk / "ops.py").read_text("utf-8") == OPS
        assert {path.name for path in disk.iterdir()} == {"pyproject.toml", "ops.py", "filler"}
        (disk / "filler").unlink()
        assert main(["migrate", "--write", "--allow-dirty"]) == OK
        assert "double_out" in (disk / "ops.py").read_text("utf-8")
        monkeypatch.chdir(tmp_path)


def test_of_two_runs_at_once_one_is_refused_and_nothing_is_mixed(tmp_path: Path) -> None:
    files = [tmp_path / f"f{number}.py" for number in range(20)]
    for path in files:
        path.write_bytes(b"old\n")
    units = {
        who: [Unit(path.name, {path: (b"old\n", who.encode() * 200)}) for path in files]
        for who in ("one ", "two ")
    }
    ended: dict[str, str] = {}
    begun, refused = threading.Event(), threading.Event()

    def write(who: str, wait: bool) -> None:
        def progress(_: str) -> None:
            begun.set()
            if wait:
                refused.wait(20)

        try:
            write_units(tmp_path, units[who], progress=progress)
            ended[who] = "written"
        except LockedError:
            ended[who] = "refused"

    # As a thread: the lock is of the file as opened, so that it holds between these too.
    first = threading.Thread(target=write, args=("one ", True))
    from opscaffold.fs import journal

    with pytest.MonkeyPatch.context() as patch:
        # Signals are the main thread's.
        patch.setattr(journal, "deferred_signals", _no_signals)
        first.start()
        assert begun.wait(20)
        write("two ", False)
        refused.set()
        first.join(20)
    assert ended == {"one ": "written", "two ": "refused"}
    assert {path.read_bytes() for path in files} == {b"one " * 200}
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in files}


class _Pending:
    signal = None


@contextlib.contextmanager
def _no_signals() -> Iterator[_Pending]:
    yield _Pending()


def test_a_file_that_libcst_would_die_of_is_left_and_named(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The comment belongs to the function, which is why both are read as one.
    data = (OPS + "    # the end\nx" + ".a" * 1_200 + "\n").encode()
    assert survives(root, data) == data
    assert "nested too deeply" in capsys.readouterr().err


# -- sizes beyond reason ---------------------------------------------------------------------------


@pytest.mark.parametrize("with_ops", [False, True])
def test_a_file_too_long_to_be_parsed_is_left_and_named_where_it_speaks_of_ops(
    root: Path, capsys: pytest.CaptureFixture[str], with_ops: bool
) -> None:
    data = (OPS.encode() if with_ops else b"") + b"x = 1\n" * (LONGEST // 6 + 1)
    started = time.process_time()
    assert survives(root, data) == data
    assert time.process_time() - started < 10
    assert ("is longer than" in capsys.readouterr().err) is with_ops


def test_of_a_line_of_millions_of_characters_a_little_is_shown(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "ops.py").write_bytes(OPS.encode() + b"\0" * 3_000_000)
    started = time.process_time()
    assert main(["check", "ops.py"]) == FOUND
    assert time.process_time() - started < 3
    said = capsys.readouterr().out
    assert "NUL" in said
    assert len(said) < 2_000


# -- trees as they come ----------------------------------------------------------------------------

WRITE = ["migrate", "--write", "--allow-dirty", "--unsafe", "--root", "."]


def test_on_a_disk_that_is_read_only_a_check_is_made_and_a_write_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        (disk / "pyproject.toml").write_text("[project]\nname = 'demo'\n", "utf-8")
        (disk / "ops.py").write_text(OPS, "utf-8")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        monkeypatch.chdir(disk)
        assert main(["check", "ops.py"]) == FOUND
        capsys.readouterr()
        assert main(WRITE) == USAGE
        assert "read-only" in capsys.readouterr().err
        assert (disk / "ops.py").read_text("utf-8") == OPS
        monkeypatch.chdir(tmp_path)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are text there")
def test_names_that_are_no_text_are_checked_migrated_and_named(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = root / os.fsdecode(b"d\xff")
    folder.mkdir()
    path = folder / os.fsdecode(b"o\xe9ps.py")
    path.write_text(OPS, "utf-8")
    for output in ("text", "concise", "json", "sarif", "github"):
        assert main(["check", "--root", ".", ".", "--format", output, "--no-cache"]) == FOUND
        said = capsys.readouterr().out
        said.encode()
        assert any(name in said for name in (r"o\xe9ps.py", r"o\udce9ps.py", "o%E9ps.py")), output
    assert main(WRITE) == OK
    assert "double_out" in path.read_text("utf-8")


def test_links_that_lead_in_circles_are_passed_by(root: Path) -> None:
    (root / "ops.py").write_text(OPS, "utf-8")
    (root / "round.py").symlink_to("round.py")
    (root / "one.py").symlink_to("other.py")
    (root / "other.py").symlink_to("one.py")
    (root / "up").symlink_to("..")
    (root / "here").symlink_to(".")
    (root / "sub").mkdir()
    (root / "sub" / "again").symlink_to(root)
    assert main(["check", "--root", ".", "."]) == FOUND
    assert main(["check", "--root", ".", "round.py", "sub"]) in (OK, FOUND, USAGE)
    assert main(WRITE) == OK
    assert "double_out" in (root / "ops.py").read_text("utf-8")
    assert (root / "round.py").is_symlink()


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (lambda path: path.write_text("edited = 1\n", "utf-8"), "changed since"),
        (lambda path: path.unlink(), "vanished"),
        (lambda path: (path.unlink(), path.mkdir()), "not a regular file"),
        (lambda path: (path.unlink(), path.symlink_to(path)), "circle"),
    ],
    ids=["edited", "gone", "directory", "circle"],
)
def test_a_file_that_changes_between_plan_and_write_is_named_and_nothing_is_written(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: Callable[[Path], object],
    reason: str,
) -> None:
    for name in ("a", "ops"):
        (root / f"{name}.py").write_text(OPS.replace("demo", name), "utf-8")
    from opscaffold.cli import migrate_run

    write = migrate_run.write

    def write_later(*arguments: Any, **options: Any) -> None:
        what(root / "ops.py")
        write(*arguments, **options)

    monkeypatch.setattr(migrate_run, "write", write_later)
    assert main(WRITE) == USAGE
    said = capsys.readouterr().err
    assert "ops.py" in said
    assert reason in said
    assert (root / "a.py").read_text("utf-8") == OPS.replace("demo", "a")
    assert not [path for path in root.iterdir() if path.name.startswith(".opscaffold")]


@pytest.mark.parametrize("command", [["check", "--no-cache"], ["migrate"]])
def test_a_file_that_vanishes_while_a_tree_is_read_is_none_of_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    for name in ("a", "ops"):
        (root / f"{name}.py").write_text(OPS.replace("demo", name), "utf-8")
    from opscaffold.source import files, project

    find = files.find_files

    def find_and_remove(*arguments: Any, **options: Any) -> list[Path]:
        found = find(*arguments, **options)
        (root / "a.py").unlink(missing_ok=True)
        return found

    assert project is not None
    for module in list(sys.modules.values()):
        if getattr(module, "find_files", None) is find:
            monkeypatch.setattr(module, "find_files", find_and_remove)
    assert main([*command, "--root", ".", "."]) in (OK, FOUND)
    assert not (root / "a.py").exists()
