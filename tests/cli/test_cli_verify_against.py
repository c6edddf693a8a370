from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opscaffold.cli import verify_against
from opscaffold.cli.app import main
from opscaffold.cli.verify_sides import Comparison

OLD = """\
import torch
from torch import Tensor


@torch.library.custom_op("sided::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.mul(x, 2, out=torch.empty_like(x) if out is None else out)


def sample_calls():
    return double(torch.arange(4.0))
"""
NEW = """\
import torch
from torch import Tensor


@torch.library.custom_op("sided::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("sided::double_out", mutates_args=("out",), tags=torch.Tag.out)
def double_out(x: Tensor, *, out: Tensor) -> Tensor:
    return torch.mul(x, 2, out=out)


def sample_calls():
    return double(torch.arange(4.0))
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name, text in (("old", OLD), ("new", NEW), ("wrong", NEW.replace("mul(x, 2", "mul(x, 3"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sided_ops.py").write_text(text)
    return tmp_path


def op(name: str) -> dict[str, Any]:
    schema = f"{name}(Tensor x, Tensor(a1!)? out=None) -> Tensor"
    place = {"path": "/old/ops.py", "line": 5}
    return {"name": name, "kind": "mutable", "schema": schema, **place, "defined": place}


def told(old: str, code: str = "OPS730") -> dict[str, Any]:
    return {"old": old, "code": code, "message": f"{old} differs", "path": "/o.py", "line": 3}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch, programs: Path) -> Any:
    def run(result: Comparison, *more: str, capsys: pytest.CaptureFixture[str]) -> Any:
        monkeypatch.setattr(verify_against, "compare_sides", lambda *_, **__: result)
        sides = [str(programs / name / "sided_ops.py") for name in ("old", "new")]
        code = main(["verify", "--against", *sides, "--format", "json", *more])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else said.err

    return run


def test_each_old_op_gets_a_verdict(compared: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["a::f", "a::g", "a::h"]
    result = Comparison(ops=[op(name) for name in names], known=names, calls={"a::f": 4})
    result.findings = [told("a::g"), told("a::h", "OPS790")]
    code, document = compared(result, capsys=capsys)
    assert code == 1
    assert {each["name"]: each["verdict"] for each in document["ops"]} == {
        "a::f": "sound",
        "a::g": "breach",
        "a::h": "undecided",
    }
    assert document["ops"][0]["summary"] == "4 calls compared"
    assert [each["code"] for each in document["findings"]] == ["OPS730", "OPS790"]


@pytest.mark.parametrize(
    ("result", "more", "expected"),
    [
        (Comparison(), [], "there is nothing to compare with"),
        (Comparison(unloaded={"x": "x.py:1: no"}, known=["a::f"]), [], "x.py:1: no"),
        (Comparison(ops=[op("a::f")], known=["a::f"]), ["--op", "a::ff"], "did you mean a::f?"),
        (Comparison(), ["--fast"], "--fast goes without --against"),
        (Comparison(), ["--save-samples", "s.py"], "--save-samples goes without --against"),
    ],
)
def test_what_cannot_be_compared_is_said(
    compared: Any,
    capsys: pytest.CaptureFixture[str],
    result: Comparison,
    more: list[str],
    expected: str,
) -> None:
    code, said = compared(result, *more, capsys=capsys)
    assert code == 2
    assert expected in said


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("side", "code"), [("new", 0), ("wrong", 1)])
def test_two_programs_are_run_side_by_side(
    programs: Path, capfd: pytest.CaptureFixture[str], side: str, code: int
) -> None:
    sides = [str(programs / name / "sided_ops.py") for name in ("old", side)]
    assert main(["verify", "--against", *sides, "--format", "json"]) == code
    document = json.loads(capfd.readouterr().out)
    (found,) = document["ops"]
    assert found["verdict"] == ("breach" if code else "sound")
    assert found["samples"] > 1
    messages = {each["message"].partition(": ")[0] for each in document["findings"]}
    left = "sided::double_out leaves the argument out other than the old op did"
    returned = "the return of sided::double_out is not what the old op returned"
    assert messages == ({left, returned} if code else set())
