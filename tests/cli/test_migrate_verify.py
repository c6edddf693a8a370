from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opscaffold.cli import migrate_verify
from opscaffold.cli.app import main
from opscaffold.cli.migrate_verify import Prover, origins_of, successors
from opscaffold.cli.verify_sides import Comparison

OPS = """\
import torch
from torch import Tensor


@torch.library.custom_op("proved::double", mutates_args=("out",))
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out


@double.register_fake
def _(x, out=None):
    return torch.empty_like(x)
"""
CALLER = """\
import torch
from ops import double


def sample_calls():
    return double(torch.ones(3))
"""


def step(op: str, *new: str, prose: bool = False, defined: Path = Path("/ops.py")) -> Any:
    plan = SimpleNamespace(op=op)
    ops = [(name, None) for name in new]
    return SimpleNamespace(plan=plan, new=ops, prose=prose, defined=(defined, "ops"))


def test_what_a_second_repair_makes_still_comes_from_the_first_op() -> None:
    steps = [step("a::f", "a::f", "a::f_out"), step("a::f_out", "a::f_into"), step("a::g", "a::g")]
    assert origins_of(steps)["a::f_into"] == "a::f"
    assert successors(steps) == {"a::f": ["a::f", "a::f_out", "a::f_into"], "a::g": ["a::g"]}


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Any:
    def judge(compared: Comparison, *steps: Any) -> tuple[dict[str, str], Prover]:
        monkeypatch.setattr(migrate_verify, "compare_sides", lambda *_, **__: compared)
        prover = Prover(quiet=False)
        return dict(prover(SimpleNamespace(steps=list(steps), changes={}))), prover  # type: ignore[arg-type]

    return judge


def difference(old: str) -> dict[str, Any]:
    return {"old": old, "code": "OPS730", "message": f"{old or 'use'} differs"}


def test_all_repairs_of_an_op_that_differs_fail(judged: Any) -> None:
    compared = Comparison(calls={"a::f": 3, "a::g": 2}, findings=[difference("a::f")])
    steps = [step("a::f", "a::f", "a::f_out"), step("a::f_out", "a::f_out"), step("a::g", "a::g")]
    failed, prover = judged(compared, *steps)
    reason = "run beside the old op, a::f differs"
    assert failed == {"a::f": reason, "a::f_out": reason}
    assert prover.calls == {"a::g": 2}


def test_where_only_a_caller_differs_no_repair_stands(judged: Any) -> None:
    compared = Comparison(calls={"a::f": 3}, findings=[difference("")])
    failed, _ = judged(compared, step("a::f", "a::f"))
    assert failed == {"a::f": "run before and after, use differs"}


def test_what_cannot_be_run_is_kept_and_named(
    judged: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    compared = Comparison(unloaded={"/ops.py": "there is no GPU"})
    failed, prover = judged(compared, step("a::f", "a::f"))
    assert failed == {}
    prover.summarise()
    said = capsys.readouterr().err
    assert "a::f: its repair was not run: /ops.py cannot be imported: there is no GPU\n" in said
    assert "0 ops run beside the old, on 0 calls: no difference" in said


@pytest.mark.torch
@pytest.mark.slow
def test_a_right_repair_is_run_and_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ops.py").write_text(OPS)
    (tmp_path / "use.py").write_text(CALLER)
    assert main(["migrate", "--write", "--verify", str(tmp_path)]) == 0
    said = capfd.readouterr().err
    assert "proved::double: split into proved::double and proved::double_out" in said
    assert "1 op run beside the old, on " in said
    assert "not run" not in said
    assert "double_out" in (tmp_path / "ops.py").read_text()
    assert not (tmp_path / "__pycache__").exists()
