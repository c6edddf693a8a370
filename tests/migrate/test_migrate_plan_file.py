"""A plan says all that would be done, and applying it does exactly that, or nothing."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from migrating import cli, write

from opscaffold.fs.journal import write_units
from opscaffold.migrate.asked import Request
from opscaffold.migrate.engine import Migration
from opscaffold.migrate.plan import OpPlan
from opscaffold.migrate.plan_apply import PlanError, load_plan, planned_units
from opscaffold.migrate.plan_file import digest, dump, hunks, lines_of, plan_document
from opscaffold.migrate.steps import Step, Unit

OPS = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    \"\"\"Twice.

    >>> from ops import double
    >>> _ = double(torch.ones(2), out=torch.empty(2))
    \"\"\"
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out
"""
CALLER = """\
from ops import double


def run(x, buf, maybe):
    double(x, out=buf)
    return [double(x, None), double(x, out=maybe)]
"""
REPORTED = """\
import torch
from torch import Tensor


@torch.library.custom_op("demo::add", mutates_args=("acc",))
def add(x: Tensor, acc: Tensor | None = None) -> Tensor:
    if acc is None:
        acc = torch.zeros_like(x)
    acc.add_(x)
    return acc
"""
README = "Use\n\n```python\nfrom ops import double\n\ndouble(x, out=buf)\n```\n"
FILES: dict[str, str | bytes] = {
    "ops.py": OPS,
    "pkg/caller.py": CALLER,
    "reported.py": REPORTED,
    "README.md": README,
}
KINDS: dict[str, bytes] = {
    "bom": b"\xef\xbb\xbf" + CALLER.encode(),
    "crlf": CALLER.replace("\n", "\r\n").encode(),
    "latin": b"# coding: latin-1\n# \xe9\xff\n" + CALLER.encode(),
    "cp1252": b"# -*- coding: cp1252 -*-\n# \x80\n" + CALLER.encode(),
    "no_newline": CALLER.rstrip("\n").encode(),
    "form_feed": CALLER.replace("\n\n\n", "\n\x0c\n").encode(),
    "umlauts": CALLER.replace("run", "l\u00e4uft").encode(),
}


def contents(root: Path) -> dict[bytes, bytes]:
    return {
        os.fsencode(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "tree"
    write(root, FILES)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def planned(tree: Path) -> tuple[Path, dict[str, Any]]:
    path = tree.parent / "plan.json"
    assert cli("migrate", "--root", ".", "--plan", path).code == 1
    return path, json.loads(path.read_text("utf-8"))


def test_a_plan_says_what_would_be_done(tree: Path, planned: tuple[Path, dict[str, Any]]) -> None:
    _, plan = planned
    assert plan["opscaffold_plan"] == 1
    assert plan["options"]["unsafe"] is False
    assert plan["options"]["paths"] == ["."]
    (step,) = plan["steps"]
    (repair,) = step["repairs"]
    assert repair["op"] == "demo::double"
    assert repair["does"] == "split into demo::double and demo::double_out"
    assert repair["rules"] == ["OPS101"]
    assert repair["old"]["schema"] == "demo::double(Tensor x, Tensor(a1!)? out=None) -> Tensor"
    assert [(new["schema"], new["kind"], new["tags"]) for new in repair["new"]] == [
        ("demo::double(Tensor x) -> Tensor", "functional", []),
        ("demo::double_out(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)", "out=", ["out"]),
    ]
    sites = {(s["path"], s["line"]): (s["before"], s["after"]) for s in repair["call_sites"]}
    assert sites["ops.py", 10] == (
        "_ = double(torch.ones(2), out=torch.empty(2))",
        "_ = double_out(torch.ones(2), out=torch.empty(2))",
    )
    assert sites["pkg/caller.py", 5] == (
        "double(x, out=buf)",
        "if buf is None:\n    double(x)\nelse:\n    double_out(x, out=buf)",
    )
    assert set(sites) == {
        ("pkg/caller.py", 5),
        ("pkg/caller.py", 6),
        ("ops.py", 10),
        ("README.md", 6),
    }
    assert {file["path"] for file in step["files"]} == {"ops.py", "pkg/caller.py", "README.md"}
    for file in step["files"]:
        before = (tree / file["path"]).read_bytes()
        assert file["sha256_before"] == hashlib.sha256(before).hexdigest()
    (refusal,) = plan["refusals"]
    assert (refusal["op"], refusal["code"], refusal["state"]) == (
        "demo::add",
        "OPS101",
        "refused",
    )
    assert (refusal["path"], refusal["line"]) == ("reported.py", 9)
    assert refusal["reason"]
    assert refusal["remedy"]


def test_planning_writes_nothing_but_the_plan_and_prints_no_diff(tree: Path) -> None:
    before = contents(tree)
    answer = cli("migrate", "--root", ".", "--plan", tree.parent / "plan.json")
    assert answer.out == b""
    assert contents(tree) == before


def test_applying_does_what_writing_would_have_done(
    tree: Path, planned: tuple[Path, dict[str, Any]]
) -> None:
    path, _ = planned
    copied = tree.parent / "copy"
    shutil.copytree(tree, copied)
    applied = cli("migrate", "--apply", path, "--root", ".")
    assert applied.code == 1
    assert "demo::double: split into demo::double and demo::double_out (4 call sites)" in (
        applied.err
    )
    assert "TORCHINDUCTOR_CACHE_DIR" in applied.err
    assert cli("migrate", copied, "--root", copied, "--write").code == 1
    assert contents(tree) == contents(copied)
    again = cli("migrate", "--apply", path, "--root", ".")
    assert again.code == 2
    assert "is not what it was when the plan was made" in again.err
    assert contents(tree) == contents(copied)


def test_a_plan_without_anything_left_exits_with_0(tree: Path) -> None:
    (tree / "reported.py").unlink()
    path = tree.parent / "plan.json"
    assert cli("migrate", "--root", ".", "--plan", path).code == 0
    assert cli("migrate", "--apply", path, "--root", ".", "--backup", "--quiet").code == 0
    assert (tree / "ops.py.orig").read_text("utf-8") == OPS
    empty = tree.parent / "empty.json"
    assert cli("migrate", "--root", ".", "--plan", empty).code == 0
    assert json.loads(empty.read_text("utf-8"))["steps"] == []
    assert cli("migrate", "--apply", empty, "--root", ".").code == 0


@pytest.mark.parametrize("change", ["edit", "remove", "newline"])
@pytest.mark.parametrize("name", ["ops.py", "pkg/caller.py", "README.md"])
def test_a_file_that_changed_is_named_and_nothing_is_written(
    tree: Path, planned: tuple[Path, dict[str, Any]], name: str, change: str
) -> None:
    path = tree / name
    data = path.read_bytes()
    if change == "remove":
        path.unlink()
    else:
        path.write_bytes(
            data + b"\n" if change == "newline" else data.replace(b"double", b"Double")
        )
    before = contents(tree)
    answer = cli("migrate", "--apply", planned[0], "--root", ".")
    assert answer.code == 2
    assert name in answer.err
    assert "nothing was written" in answer.err
    assert contents(tree) == before


def test_other_files_may_change(tree: Path, planned: tuple[Path, dict[str, Any]]) -> None:
    write(tree, {"new.py": "A = 1\n", "reported.py": REPORTED + "\n"})
    assert cli("migrate", "--apply", planned[0], "--root", ".").code == 1
    assert "double_out" in (tree / "ops.py").read_text("utf-8")


Edit = Callable[[dict[str, Any]], object]


def _file(plan: dict[str, Any]) -> dict[str, Any]:
    return next(f for f in plan["steps"][0]["files"] if f["path"] == "pkg/caller.py")


MALFORMED: dict[str, Edit] = {
    "version": lambda p: p.update(opscaffold_plan=2),
    "no version": lambda p: p.pop("opscaffold_plan"),
    "no steps": lambda p: p.pop("steps"),
    "no tests": lambda p: p.pop("tests"),
    "no refusals": lambda p: p.pop("refusals"),
    "steps no list": lambda p: p.update(steps={}),
    "step no object": lambda p: p["steps"].append("x"),
    "step of nothing": lambda p: p["steps"][0].update(repairs=[]),
    "op no text": lambda p: p["steps"][0]["repairs"][0].update(op=3),
    "no files": lambda p: p["steps"][0].pop("files"),
    "hash": lambda p: _file(p).update(sha256_before="0"),
    "no hash": lambda p: _file(p).pop("sha256_after"),
    "wrong result": lambda p: _file(p).update(sha256_after="0" * 64),
    "outside": lambda p: _file(p).update(path="../caller.py"),
    "absolute": lambda p: _file(p).update(path="/etc/passwd"),
    "into git": lambda p: _file(p).update(path=".git/config"),
    "nul": lambda p: _file(p).update(path="a\0b"),
    "empty path": lambda p: _file(p).update(path=""),
    "twice": lambda p: p["steps"][0]["files"].append(copy.deepcopy(_file(p))),
    "line": lambda p: _file(p)["hunks"][0].update(line=0),
    "line no number": lambda p: _file(p)["hunks"][0].update(line=True),
    "line too far": lambda p: _file(p)["hunks"][0].update(line=999),
    "removed": lambda p: _file(p)["hunks"][0].update(removed=["other\n"]),
    "removed no text": lambda p: _file(p)["hunks"][0].update(removed=[1]),
    "added": lambda p: _file(p)["hunks"][0].update(added=["rm -rf\n"]),
    "hunks turned": lambda p: _file(p)["hunks"].reverse(),
    "no hunks": lambda p: _file(p).update(hunks=[]),
    "surrogate": lambda p: _file(p)["hunks"][0].update(added=["\ud800\n"]),
}


@pytest.mark.parametrize("edit", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_plan_is_refused_whole(
    tree: Path, planned: tuple[Path, dict[str, Any]], edit: Edit
) -> None:
    path, plan = planned
    edit(plan)
    path.write_text(json.dumps(plan), "utf-8")
    before = contents(tree)
    answer = cli("migrate", "--apply", path, "--root", ".")
    assert answer.code == 2
    assert "plan.json" in answer.err
    assert "internal error" not in answer.err
    assert contents(tree) == before


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"3", b'"x"', b"\xff", b"[" * 100_000, b"{}", b'{"a": NaN}']
)
def test_what_is_no_plan_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(data)
    with pytest.raises(PlanError, match=r"plan\.json"):
        load_plan(path)


def test_a_plan_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read"):
        load_plan(tmp_path / "plan.json")


def test_a_link_that_leads_out_of_the_project_is_not_followed(
    tree: Path, planned: tuple[Path, dict[str, Any]]
) -> None:
    outside = tree.parent / "outside.py"
    shutil.move(tree / "pkg" / "caller.py", outside)
    (tree / "pkg" / "caller.py").symlink_to(outside)
    before = outside.read_bytes()
    answer = cli("migrate", "--apply", planned[0], "--root", ".")
    assert answer.code == 2
    assert "lies outside" in answer.err
    assert outside.read_bytes() == before
    assert (tree / "ops.py").read_text("utf-8") == OPS


def test_no_directory_is_made_outside_of_the_project(
    tree: Path, planned: tuple[Path, dict[str, Any]]
) -> None:
    path, plan = planned
    outside = tree.parent / "outside"
    outside.mkdir()
    (tree / "link").symlink_to(outside)
    new = {"sha256_before": None, "sha256_after": digest(b""), "hunks": []}
    plan["tests"] = [{"path": "link/new/test_x.py", **new}]
    path.write_text(json.dumps(plan), "utf-8")
    assert cli("migrate", "--apply", path, "--root", ".").code == 2
    assert list(outside.iterdir()) == []
    assert (tree / "ops.py").read_text("utf-8") == OPS


@pytest.mark.parametrize(
    "flags",
    [
        ["ops.py"],
        ["--only", "demo::double"],
        ["--select", "OPS101"],
        ["--unsafe"],
        ["--tests", "t"],
        ["--report", "r.html"],
        ["--write"],
        ["--plan", "other.json"],
        ["--target-torch", "2.9"],
    ],
)
def test_applying_takes_nothing_that_would_plan_anew(
    tree: Path, planned: tuple[Path, dict[str, Any]], flags: list[str]
) -> None:
    before = contents(tree)
    answer = cli("migrate", "--apply", planned[0], "--root", ".", *flags)
    assert answer.code == 2
    assert contents(tree) == before


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_comes_through_byte_for_byte(tmp_path: Path, kind: str) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write(one, {"ops.py": OPS, "caller.py": KINDS[kind]})
    shutil.copytree(one, other)
    plan = tmp_path / "plan.json"
    assert cli("migrate", one, "--root", one, "--plan", plan).code == 0
    assert cli("migrate", "--apply", plan, "--root", one).code == 0
    assert cli("migrate", other, "--root", other, "--write").code == 0
    assert contents(one) == contents(other)
    assert b"double_out" in (one / "caller.py").read_bytes()


def test_paths_that_are_no_text_come_through(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9 \xff.py")
    old, new = b"a = 1\n", b"a = 2 # \xe9\n"
    try:
        path.write_bytes(old)
    except OSError:
        pytest.skip("the file system takes no such name")
    empty = Migration(tmp_path)
    plan = OpPlan("demo::double", "changed")
    part = Unit([Step(plan, {path: (old, new)})], {path: (old, new)})
    document = plan_document(empty, [part], Request(), [tmp_path])
    written = tmp_path / "plan.json"
    written.write_bytes(dump(document))
    json.loads(written.read_bytes().decode("utf-8"))
    assert cli("migrate", "--apply", written, "--root", tmp_path).code == 0
    assert path.read_bytes() == new
    again = cli("migrate", "--apply", written, "--root", tmp_path)
    assert again.code == 2
    assert r"caf\xe9 \xff.py" in again.err


def test_steps_that_change_one_file_after_another_apply_in_their_order(tmp_path: Path) -> None:
    second = OPS.replace("double", "halve").replace("import torch\nfrom torch import Tensor\n", "")
    one, other = tmp_path / "one", tmp_path / "other"
    write(one, {"ops.py": OPS + second, "caller.py": CALLER, "README.md": README})
    shutil.copytree(one, other)
    plan = tmp_path / "plan.json"
    assert cli("migrate", one, "--root", one, "--plan", plan).code == 0
    assert cli("migrate", "--apply", plan, "--root", one).code == 0
    assert cli("migrate", other, "--root", other, "--write").code == 0
    assert contents(one) == contents(other)


def test_a_plan_made_elsewhere_holds_for_a_copy(
    tree: Path, planned: tuple[Path, dict[str, Any]]
) -> None:
    copied = tree.parent / "deep" / "copy"
    shutil.copytree(tree, copied)
    assert cli("migrate", "--apply", planned[0], "--root", copied).code == 1
    assert b"double_out" in (copied / "pkg" / "caller.py").read_bytes()
    assert (tree / "ops.py").read_text("utf-8") == OPS


@given(
    st.lists(st.sampled_from([b"a\n", b"b\n", b"\r\n", b"\xff\n", b"\xed\xb2\x80\n", b"x"])),
    st.lists(st.sampled_from([b"a\n", b"c\n", b"\x80\n", b"\xc3\xa9\n", b"y"])),
)
def test_hunks_lead_from_any_bytes_to_any_others(
    tmp_path_factory: pytest.TempPathFactory, before: list[bytes], after: list[bytes]
) -> None:
    old, new = b"".join(before), b"".join(after)
    root = tmp_path_factory.mktemp("hunks")
    (root / "f").write_bytes(old)
    file = {
        "path": "f",
        "sha256_before": digest(old),
        "sha256_after": digest(new),
        "hunks": hunks(old, new),
    }
    repair = {"op": "a::b", "does": "x", "call_sites": []}
    steps = [{"repairs": [repair], "files": [file]}]
    document = {"opscaffold_plan": 1, "steps": steps, "tests": [], "refusals": [], "notes": []}
    (root / "plan.json").write_text(json.dumps(document), "utf-8")
    (unit,) = planned_units(load_plan(root / "plan.json"), root, "plan.json")
    assert unit.changes[root / "f"] == (old, new)
    write_units(root, [unit])
    assert (root / "f").read_bytes() == new
    assert "".join(lines_of(old)).encode("utf-8", "surrogateescape") == old
