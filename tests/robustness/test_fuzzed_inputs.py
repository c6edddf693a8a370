"""Plans, baselines, journals, the cache, answers, schemas, comments: damaged, or nonsense.

Whatever they hold, a command does its work or refuses, and says which file or flag is at fault.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opscaffold.cli.app import main
from opscaffold.fs.atomic import WriteError
from opscaffold.fs.journal import Unit, write_units
from opscaffold.fs.record import Change, DamagedJournalError, Journal
from opscaffold.fs.recovery import recover
from opscaffold.fs.state import find_state

OPS = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out


double(x, out=y)
"""
OK, NO, USAGE = 0, 1, 2
# `make stress` asks for more.
EXAMPLES = int(os.environ.get("OPSCAFFOLD_FUZZ", "15"))
QUICK = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
# To make a package takes a while.
QUICKER = settings(QUICK, max_examples=max(EXAMPLES // 2, 1))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "root"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("OPSCAFFOLD_CACHE_DIR", os.fspath(tmp_path / "cache"))
    (root / "pyproject.toml").write_text("[project]\nname = 'demo'\n", "utf-8")
    (root / "ops.py").write_text(OPS, "utf-8")
    return root


# -- documents -------------------------------------------------------------------------------------

ODD = st.sampled_from(
    [None, True, -1, 0, float("inf"), float("nan"), 10**30, "", "\0", "\ud800", "../x", "/etc/x",
     "a" * 5_000, [], {}, [[]], [None], {"a": 1}, "OPS101", ".git/config", "ops.py/x", ".", 1.5]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    children = value.items() if isinstance(value, dict) else ()
    children = enumerate(value) if isinstance(value, list) else children
    for key, child in children:
        yield from places(child, (*path, key))


def damaged(document: Any, draw: Callable[..., Any]) -> bytes:
    """A document with some values replaced, gone or doubled, or its text cut."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(list(places(document))))
        value = copy.deepcopy(draw(ODD))
        if not path:
            document = value
            break
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        match draw(st.sampled_from(["replace", "replace", "drop", "double"])):
            case "replace":
                holder[path[-1]] = value
            case "drop":
                del holder[path[-1]]
            case "double" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[path[-1]]))
            case _:
                holder["other"] = holder[path[-1]]
    text = json.dumps(document)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        put = draw(st.sampled_from(["", "[", "}", "\0", "\\", "9" * 5_000, "[" * 100_000, "é"]))
        text = text[:at] + put + text[at + draw(st.integers(0, 3)) :]
    return text.encode("utf-8", "surrogatepass")


@QUICK
@given(st.data())
def test_any_plan_is_done_or_refused_by_name(
    root: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    (root / "ops.py").write_text(OPS, "utf-8")
    plan = root.parent / "plan.json"
    whole = root.parent / "whole.json"
    if not whole.exists():
        assert main(["migrate", "--plan", os.fspath(whole), "--root", "."]) in (OK, NO)
    plan.write_bytes(damaged(json.loads(whole.read_text("utf-8")), data.draw))
    capsys.readouterr()
    code = main(["migrate", "--apply", os.fspath(plan), "--root", "."])
    assert code in (OK, NO, USAGE)
    said = capsys.readouterr().err
    if code == USAGE:
        assert "plan.json: " in said or "make a new plan" in said or "cannot be read" in said
        assert (root / "ops.py").read_text("utf-8") == OPS
    assert {path.name for path in root.iterdir()} == {"pyproject.toml", "ops.py"}


@QUICK
@given(st.data())
def test_any_baseline_is_followed_or_refused_by_name(
    root: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    known, whole = root.parent / "known.json", root.parent / "whole.json"
    command = ["check", "ops.py", "--baseline"]
    if not whole.exists():
        assert main([*command, os.fspath(whole), "--write-baseline"]) == OK
    known.write_bytes(damaged(json.loads(whole.read_text("utf-8")), data.draw))
    capsys.readouterr()
    command += [os.fspath(known)]
    code = main(command)
    assert code in (OK, NO, USAGE)
    assert code != USAGE or "known.json" in capsys.readouterr().err


@QUICK
@given(st.data())
def test_whatever_the_cache_holds_a_check_says_what_is_so(
    root: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    shutil.rmtree(root.parent / "cache", ignore_errors=True)
    capsys.readouterr()
    assert main(["check", "ops.py"]) == NO
    said = capsys.readouterr().out
    (entry,) = (root.parent / "cache").rglob("*.json")
    seal, _, kept = entry.read_bytes().partition(b"\n")
    text = damaged(json.loads(kept), data.draw)
    entry.write_bytes(seal + b"\n" + text if data.draw(st.booleans()) else text)
    assert main(["check", "ops.py"]) == NO
    assert capsys.readouterr().out == said


@QUICK
@given(st.data())
def test_any_journal_is_followed_or_refused_by_name(root: Path, data: st.DataObject) -> None:
    files = {"ops.py": OPS, "pyproject.toml": "[project]\n"}
    changes = []
    for name, text in files.items():
        (root / name).write_text(text, "utf-8")
        changes.append(Change(root / name, root / name, text.encode(), b"new\n"))
    state = find_state(root)
    state.create()
    Journal(state, [("u", changes)]).begin(0)
    (root / "ops.py").write_bytes(b"new\n")
    lines = [json.loads(line) for line in state.journal.read_text("utf-8").splitlines()]
    at = data.draw(st.integers(0, len(lines) - 1))
    rows = [json.dumps(line).encode() for line in lines]
    rows[at] = damaged(lines[at], data.draw)
    state.journal.write_bytes(b"\n".join([*rows, b""]))
    try:
        recover(root)
    except (DamagedJournalError, WriteError) as error:
        said = str(error)
        assert os.fspath(root) in said
    finally:
        state.journal.unlink(missing_ok=True)
    assert {(root / name).read_bytes() for name in files} <= {
        b"new\n", *(text.encode() for text in files.values())
    }  # fmt: skip
    recover(root)
    assert {path.name for path in root.iterdir()} == files.keys()
    write_units(root, [Unit("after", {root / "ops.py": ((root / "ops.py").read_bytes(), b"x")})])


# -- comments --------------------------------------------------------------------------------------

COMMENT = st.lists(
    st.sampled_from(
        ["# ", "opscaffold", ":", " ", "ignore", "[", "]", "OPS101", ",", "maybe-out", "-file", "=",
         "*", "OPS", "(", "{", "é", "\t", "#", "\x0c", "\u2028", "[" * 300, "," * 300]
    ),
    max_size=9,
).map("".join)  # fmt: skip


@QUICK
@given(COMMENT, st.integers(0, 12))
def test_any_comment_is_one(root: Path, comment: str, line: int) -> None:
    lines = OPS.split("\n")
    lines[line] += f"  # opscaffold: {comment}"
    (root / "ops.py").write_text("\n".join(lines), "utf-8")
    assert main(["check", "--no-cache", "ops.py"]) in (OK, NO)


# -- answers ---------------------------------------------------------------------------------------

TYPES = st.sampled_from(
    ["Tensor", "Tensor", "Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "Tensor(a!)", "Tensor(b!)?",
     "Tensor(a!)[]", "Tensor(a)", "Tensor(a -> *)", "int", "int[2]", "SymInt", "float", "bool",
     "str", "Scalar", "ScalarType", "Device", "Generator?", "Foo", "Dict(str, Tensor)", "t[][]"]
)  # fmt: skip
NAMES = st.sampled_from(["x", "y", "n", "self", "out", "class", "torch", "_", "é", "f", "a" * 80])
DEFAULTS = st.sampled_from(
    ["", "", "", "=None", "=1", "=-1", "=1.5", "=inf", "=1e999", "=True", "=[1, 2]", '="{{ 1 }}"',
     '="\\n"', "=9999999999999999999999", "=cpu", "=]", "=\"'\""]
)  # fmt: skip
PARAMETERS = st.builds("{} {}{}".format, TYPES, NAMES, DEFAULTS) | st.just("*")
SCHEMAS = st.builds(
    "{}{}({}) -> {}".format,
    st.sampled_from(["", "ns::", "aten::", "a::b::", "1::"]),
    st.sampled_from(["f", "f_", "f_out", "f.out", "class", "f-g", "_f"]),
    st.lists(PARAMETERS, max_size=5).map(", ".join),
    st.sampled_from(["Tensor", "()", "(Tensor, Tensor)", "Tensor(a!)", "Tensor[]", "int", "t?"]),
)


def said_by_new(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["new", "--defaults", "--dry-run", *arguments])
    return code, capsys.readouterr().err


@QUICKER
@given(SCHEMAS)
def test_any_schema_makes_a_package_or_is_refused_by_its_flag(
    root: Path, capsys: pytest.CaptureFixture[str], schema: str
) -> None:
    code, said = said_by_new(capsys, "some-ops", "--schema", schema)
    assert code in (OK, USAGE), said
    assert code == OK or "--schema" in said
    assert said.count("\n") <= 1


VALUES = st.sampled_from(
    ["true", "1", "[]", '"x"', '["Tensor x"]', '["Tensor x", "int n=1"]', '"in-place"', '"out="',
     '"functional"', '"mutable"', '"2.4"', '"library"', '"same"', '"expression"', '"x.shape[0]"',
     '"../x"', '"{{ 1 }}"', "{a = 1}", "1979-05-27", '"""\na"""', "nan", '["x", 1]', '"\\u0000"',
     '"def f(x: Tensor) -> Tensor"', '"def f(x: Tensor, n: int = 9 ** 9 ** 9) -> Tensor"']
) | SCHEMAS.map(json.dumps)  # fmt: skip
PACKAGE_KEYS = ["package", "description", "namespace", "torch_min", "registration", "bogus", "op"]
OP_KEYS = ["name", "schema", "signature", "kind", "params", "out", "mutates", "returns", "fake",
           "fake_like", "fake_shape", "autograd", "family", "bogus"]  # fmt: skip


def table(keys: list[str], most: int) -> st.SearchStrategy[list[str]]:
    pairs = st.dictionaries(st.sampled_from(keys), VALUES, max_size=most)
    return pairs.map(lambda found: [f"{key} = {value}" for key, value in found.items()])


HEADERS = st.sampled_from(["[[op]]", "[[op]]", "[[op]]", "[op]", "[[op.x]]", "[["])
FILES = st.builds(
    lambda package, ops: "\n".join([*package, *(line for op in ops for line in [op[0], *op[1]])]),
    table(PACKAGE_KEYS, 2),
    st.lists(st.tuples(HEADERS, table(OP_KEYS, 4)), max_size=2),
)


@QUICKER
@given(FILES)
def test_any_answers_make_a_package_or_are_refused_by_file(
    root: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (root / "answers.toml").write_text(text, "utf-8", newline="")
    code, said = said_by_new(capsys, "--answers", "answers.toml")
    assert code in (OK, USAGE), said
    assert code == OK or "answers.toml" in said
    assert said.count("\n") <= 1


def test_answers_that_lack_another_name_the_line_that_asks_for_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "answers.toml").write_text('[[op]]\nfake = "expression"\n', "utf-8")
    code, said = said_by_new(capsys, "--answers", "answers.toml")
    assert code == USAGE
    assert "answers.toml:2: " in said
    assert "fake_shape" in said
